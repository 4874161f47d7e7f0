"""links: speed, duplex, MTU, errors, PCIe width and bonds of the ports, against each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from gpuwatch.preflight.alike import alike, odd
from gpuwatch.preflight.check import Check, Limit, Site, not_judged
from gpuwatch.preflight.errand import Errand
from gpuwatch.preflight.numbers import count, gbit
from gpuwatch.preflight.result import Fact, Finding

__all__ = ["CHECK"]

NET = "/sys/class/net/"
FILES = tuple(
    f"{NET}*/{name}"
    for name in (
        "speed", "duplex", "mtu", "operstate", "statistics/rx_crc_errors", "statistics/rx_packets",
        "device/vendor", "device/device", "device/current_link_width", "device/max_link_width",
        "device/../max_link_width",
    )
)  # fmt: skip
DEVICES = "/sys/bus/pci/devices/"
GPUS = tuple(
    f"{DEVICES}*/{name}"
    for name in (
        "vendor",
        "class",
        "device",
        "current_link_width",
        "max_link_width",
        "../max_link_width",
    )
)
BONDS = "/proc/net/bonding/*"
NVIDIA, DISPLAY = "0x10de", "0x03"
NO_PORTS = ("lo", "docker*", "veth*", "br-*", "virbr*", "cni*", "flannel*", "cali*", "tun*", "tap*")
"""Interfaces that no job trains over, unless the job file names them."""
ERRORS = Limit(
    "crc_errors", 1e-7, "of packets", "Frames that arrived damaged, since the link is up",
    "ten times what a bit error rate of 1e-12 makes of 1,500-byte frames (IEEE 802.3)",
)  # fmt: skip


NO_WIDTH = 255
"""What a bridge without a link of its own tells."""
FEW_ERRORS = 100
"""Frames that links damage as they come up, or as a cable is moved, and that say nothing of today."""


class Lane(NamedTuple):
    """PCIe lanes that a card of some kind uses, and that card and slot both have (None: not told)."""

    kind: str
    width: int
    possible: int | None


@dataclass(frozen=True)
class Port:
    """One port of one node, by what sysfs says of it."""

    node: str
    name: str
    says: Mapping[str, str]

    def number(self, name: str) -> int | None:
        """Return one of its figures, None where it tells none."""
        return count(self.says.get(name))


async def run(site: Site) -> list[Finding]:
    """Look at all nodes, then compare."""
    found: list[Finding] = []
    ports: list[Port] = []
    lanes: dict[str, Lane] = {}
    for errand in site.errands:
        mine = await _ports(errand, site)
        if not mine:
            found.append(
                not_judged(
                    errand.node.name,
                    "no port is up",
                    "network: {interfaces: [...]} names those that the job uses",
                )
            )
        ports += mine
        lanes |= {f"{p.node} {p.name}": lane for p in mine if (lane := _lane(p.says)) is not None}
        lanes |= await _gpus(errand)
        found += await _bonds(errand)
    for name in sorted({port.name for port in ports}):
        same = [port for port in ports if port.name == name]
        found += _speeds(name, same, site)
        mtu = {port.node: port.says.get("mtu", "") for port in same}
        found += alike(
            f"MTU of {name}",
            mtu,
            "the same MTU on all nodes and switches: a larger one is dropped on the way without a word",
        )
    found += [_errors(port) for port in ports if _damaged(port) > ERRORS.value]
    return found + _widths(lanes)


async def _ports(errand: Errand, site: Site) -> list[Port]:
    """Return the ports that the job may use: those it names, else those with hardware, else any."""
    says: dict[str, dict[str, str]] = {}
    for path, text in (await errand.texts(*FILES)).items():
        name, _, what = path.removeprefix(NET).partition("/")
        says.setdefault(name, {})[what.rpartition("/")[2] if "device" not in what else what] = (
            text.strip()
        )
    up = {
        name: words for name, words in says.items() if words.get("operstate") in {"up", "unknown"}
    }
    wanted = site.job.network.interfaces
    if wanted:
        chosen = [name for name in up if any(fnmatchcase(name, pattern) for pattern in wanted)]
    else:
        able = [name for name in up if not any(fnmatchcase(name, pattern) for pattern in NO_PORTS)]
        chosen = [name for name in able if "device/vendor" in up[name]] or able
    return [Port(errand.node.name, name, up[name]) for name in sorted(chosen)]


def _speeds(name: str, ports: list[Port], site: Site) -> list[Finding]:
    """Judge the ports of one name: against the job file, else what most of the others have."""
    told = next(
        (
            rate
            for pattern, rate in site.job.network.line_rate.items()
            if fnmatchcase(name, pattern)
        ),
        None,
    )
    speeds = [(port, mbit * 1e6) for port in ports if (mbit := port.number("speed"))]
    if not speeds:
        return [
            not_judged(
                "job",
                f"{name} tells no speed on any node",
                f"network: {{line_rate: {{{name}: 25Gbit}}}} in the job file says it",
            )
        ]
    usual, others = odd({port.node: gbit(speed) for port, speed in speeds})
    if told is None and others and usual is None:
        named = ", ".join(f"{node} {speed}" for node, speed in others.items())
        hint = f"network: {{line_rate: {{{name}: 25Gbit}}}} in the job file says which is right"
        return [not_judged("job", f"speed of {name} differs: {named}", hint)]
    wanted = told or next(speed for _, speed in speeds if gbit(speed) == usual)
    found = []
    for port, speed in speeds:
        half = port.says.get("duplex") == "half"
        if speed < wanted or half:
            than = "the job file says" if told is not None else "most others have"
            words = "half duplex" if half else f"{gbit(speed)}, {than} {gbit(wanted)}"
            found.append(Finding(
                subject=f"{port.node} {name}", judgement="fault", text=f"{name} of {port.node} came up at {words}",
                facts=(Fact("speed", speed, "bit/s", wanted),), hint="cable, optics, and the port's setting on the switch; ethtool shows what each end offers",
            ))  # fmt: skip
    if not found and len(speeds) == len(ports):
        found.append(
            Finding(
                subject="job",
                judgement="fine",
                text=f"{name} is at {gbit(wanted)} or more on all of {len(ports)} nodes",
                facts=(Fact("speed", wanted, "bit/s"),),
            )
        )
    return found


def _damaged(port: Port) -> float:
    errors = port.number("rx_crc_errors") or 0
    return errors / max(1, port.number("rx_packets") or 0) if errors >= FEW_ERRORS else 0.0


def _errors(port: Port) -> Finding:
    share, errors = _damaged(port), port.number("rx_crc_errors")
    return Finding(
        subject=f"{port.node} {port.name}", judgement="fault",
        text=f"{port.name} of {port.node} received {errors:,} damaged frames, {share:.1e} of all",
        facts=(Fact("crc_errors", share, ERRORS.unit, ERRORS.value),), hint="cable, optics, or the switch's port: clean or change them",
    )  # fmt: skip


def _lane(says: Mapping[str, str]) -> Lane | None:
    """Return what a card uses of PCIe; its slot is the bridge above it, which a virtual one lacks."""
    kind = f"{says.get('device/vendor')}:{says.get('device/device')}"
    width, most = (count(says.get(f"device/{each}_link_width")) for each in ("current", "max"))
    if width is None or most is None:
        return None
    slot = count(says.get("device/../max_link_width")) or 0
    return Lane(kind, width, min(most, slot) if 0 < slot < NO_WIDTH else None)


async def _gpus(errand: Errand) -> dict[str, Lane]:
    says: dict[str, dict[str, str]] = {}
    for path, text in (await errand.texts(*GPUS)).items():
        address, _, what = path.removeprefix(DEVICES).partition("/")
        says.setdefault(address, {})[f"device/{what}"] = text.strip()
    return {
        f"{errand.node.name} GPU {address}": lane
        for address, words in says.items()
        if words.get("device/vendor") == NVIDIA
        and words.get("device/class", "").startswith(DISPLAY)
        if (lane := _lane(words)) is not None
    }


def _widths(lanes: Mapping[str, Lane]) -> list[Finding]:
    """Judge PCIe widths by what card and slot have; where no slot is told, against cards of its kind."""
    best: dict[str, int] = {}
    for lane in lanes.values():
        best[lane.kind] = max(best.get(lane.kind, 0), lane.width)
    found = [
        Finding(
            subject=who, judgement="fault", text=f"{who} uses {lane.width} PCIe lanes of {due}",
            facts=(Fact("pcie_width", lane.width, "lanes", due),), hint="seat it anew; lspci -vv shows LnkSta against LnkCap",
        )
        for who, lane in lanes.items() if 0 < lane.width < (due := lane.possible or best[lane.kind])
    ]  # fmt: skip
    if lanes and not found:
        text = f"{len(lanes)} adapters and GPUs use all PCIe lanes that they can have"
        found.append(Finding(subject="job", judgement="fine", text=text))
    return found


async def _bonds(errand: Errand) -> list[Finding]:
    found = []
    for path, text in (await errand.texts(BONDS)).items():
        bond, slave = path.rpartition("/")[2], ""
        for line in text.splitlines():
            key, _, value = line.partition(": ")
            if key == "Slave Interface":
                slave = value.strip()
            elif key == "MII Status" and slave and value.strip() != "up":
                found.append(Finding(
                    subject=f"{errand.node.name} {bond}", judgement="fault", text=f"{slave} of {bond} on {errand.node.name} is {value.strip()}: the bond has less than it should",
                    hint="the cable, and the switch's side of the bond",
                ))  # fmt: skip
    return found


CHECK = Check(
    name="links",
    does="reads speed, duplex, MTU, damaged frames, PCIe width and bonds of all ports from sysfs",
    judges="a port slower than the job file says or than the same port on most nodes, half duplex, another MTU, damaged frames, fewer PCIe lanes than card and slot have, a bond's member that is down; the PCIe generation of an idle device says nothing and is not judged",
    run=run,
    limits=(ERRORS,),
)
