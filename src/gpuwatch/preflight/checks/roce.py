"""roce: what must be set up alike at both ends of RDMA over Ethernet, or packets are lost in silence."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuwatch.preflight.alike import alike
from gpuwatch.preflight.check import Check, Site, not_judged
from gpuwatch.preflight.errand import Errand, ErrandError
from gpuwatch.preflight.result import Finding

__all__ = ["CHECK", "Device", "judged", "priorities"]

RDMA, NET = "/sys/class/infiniband/", "/sys/class/net/"
PORT = f"{RDMA}*/ports/1/"
FILES = (
    f"{PORT}link_layer", f"{PORT}gid_attrs/ndevs/0", f"{PORT}gid_attrs/types/[0-9]", f"{RDMA}*/tc/1/traffic_class",
    f"{NET}*/qos/trust", f"{NET}*/ecn/roce_np/enable/*", f"{NET}*/ecn/roce_rp/enable/*",
)  # fmt: skip
"""The last four are of drivers that have them (MLNX_OFED); one port a device is all that cards have today."""
GID_INDEX = "NCCL_IB_GID_INDEX"
VERSION_2 = "RoCE v2"
COMMAND_S = 10.0
HINT = "mlnx_qos -i PORT and cma_roce_mode on each node: one trust mode, PFC on one priority, and the switches' the same"
_MLNX = re.compile(r"^\s*enabled((?:\s+[01]){8})\s*$", re.MULTILINE)
_DCB = re.compile(r"\bprio-pfc((?:\s+[0-7]:(?:on|off))+)")


class Device(NamedTuple):
    """One RoCE device of one node.

    Attributes:
        versions: of RoCE, by GID index.
        settings: trust mode, priorities with PFC and so on, as far as they can be read.
    """

    node: str
    name: str
    versions: Mapping[str, str]
    settings: Mapping[str, str]


async def run(site: Site) -> list[Finding]:
    """Read all nodes, then compare devices of one name."""
    found: list[Finding] = []
    devices: list[Device] = []
    for errand in site.errands:
        try:
            devices += await _devices(errand)
        except ErrandError as error:
            found.append(not_judged(errand.node.name, error.what))
    return found + judged(devices, site.job.env.get(GID_INDEX))


async def _devices(errand: Errand) -> list[Device]:
    texts = {path: text.strip() for path, text in (await errand.texts(*FILES)).items()}
    lacking = await errand.lacks("mlnx_qos", "dcb")
    found = []
    for path, layer in sorted(texts.items()):
        if not path.endswith("/link_layer") or layer != "Ethernet":
            continue
        at, name = path.removesuffix("link_layer"), path.removeprefix(RDMA).partition("/")[0]
        port = texts.get(f"{at}gid_attrs/ndevs/0", "")
        types = f"{at}gid_attrs/types/"
        versions = {p.removeprefix(types): t for p, t in texts.items() if p.startswith(types)}
        settings = dict(_settings(texts, name, port))
        if port and (on := await _pfc(errand, port, lacking)) is not None:
            settings["priorities with PFC"] = on
        found.append(Device(errand.node.name, name, versions, settings))
    return found


def _settings(texts: Mapping[str, str], name: str, port: str) -> Iterator[tuple[str, str]]:
    for what, path in (
        ("trust mode", f"{NET}{port}/qos/trust"),
        ("traffic class", f"{RDMA}{name}/tc/1/traffic_class"),
    ):
        if path in texts:
            yield what, texts[path] or "none"
    for what, side in (("ECN as receiver", "np"), ("ECN as sender", "rp")):
        at = f"{NET}{port}/ecn/roce_{side}/enable/"
        told = {path.removeprefix(at): text for path, text in texts.items() if path.startswith(at)}
        if told:
            on = [priority for priority, text in sorted(told.items()) if text == "1"]
            yield f"priorities with {what}", ", ".join(on) or "none"


async def _pfc(errand: Errand, port: str, lacking: tuple[str, ...]) -> str | None:
    """Return the priorities that are paused instead of dropped; None: no tool tells."""
    commands = {"mlnx_qos": ["mlnx_qos", "-i", port], "dcb": ["dcb", "pfc", "show", "dev", port]}
    for tool, argv in commands.items():
        if tool not in lacking:
            ran = await errand.run(argv, COMMAND_S)
            if ran.ended_well and (on := priorities(ran.out)) is not None:
                return on
    return None


def priorities(text: str) -> str | None:
    """Return which priorities have PFC, by what mlnx_qos or dcb prints; None: neither."""
    by_number = _MLNX.search(text)
    if by_number is not None:
        on = [str(i) for i, word in enumerate(by_number[1].split()) if word == "1"]
    elif (by_name := _DCB.search(text)) is not None:
        on = [word[0] for word in by_name[1].split() if word.endswith(":on")]
    else:
        return None
    return ", ".join(on) or "none"


def judged(devices: list[Device], gid_index: str | None) -> list[Finding]:
    """Compare devices of one name between nodes; hold the GID index that the job names against each."""
    if not devices:
        return [Finding(subject="job", judgement="fine", text="no node has a RoCE port")]
    found: list[Finding] = []
    for name in sorted({device.name for device in devices}):
        same = [device for device in devices if device.name == name]
        for what in sorted({what for device in same for what in device.settings}):
            values = {d.node: d.settings[what] for d in same if what in d.settings}
            found += [f for f in alike(f"{what} of {name}", values, HINT) if f.judgement != "fine"]
        second = {d.node: "there" if VERSION_2 in d.versions.values() else "missing" for d in same}
        told = alike(f"{VERSION_2} on {name}", second, "an address on its port; cma_roce_mode -m 2")
        found += [f for f in told if f.judgement != "fine"]
        found += [_index(d, gid_index) for d in same if gid_index and _is_odd(d, gid_index)]
    silent = sorted({d.node for d in devices if "priorities with PFC" not in d.settings})
    if silent:
        why = f"whether PFC is alike: no mlnx_qos and no dcb tells on {', '.join(silent[:5])}"
        found.append(not_judged("job", why, "apt-get install iproute2 (dcb), or MLNX_OFED"))
    if all(f.judgement != "fault" for f in found):
        text = f"{len(devices)} RoCE ports are set up alike, as far as they tell"
        found.append(Finding(subject="job", judgement="fine", text=text))
    return found


def _is_odd(device: Device, gid_index: str) -> bool:
    return bool(device.versions) and device.versions.get(gid_index) != VERSION_2


def _index(device: Device, gid_index: str) -> Finding:
    has = device.versions.get(gid_index, "nothing")
    return Finding(
        subject=device.node, judgement="fault",
        text=f"{device.name} of {device.node} has {has} at GID index {gid_index}, which {GID_INDEX} names",
        hint=f"show_gids; leave {GID_INDEX} out where NCCL is 2.21 or newer, as it then chooses itself",
    )  # fmt: skip


CHECK = Check(
    name="roce",
    does="reads trust mode, traffic class, ECN and PFC (mlnx_qos or dcb) and GIDs of RoCE ports",
    judges="any of them differs between ports of one name, or the GID index of NCCL_IB_GID_INDEX in the job's env: is not RoCE v2 on a node; where the GIDs alone differ it is none, as NCCL chooses by itself",
    run=run,
)
