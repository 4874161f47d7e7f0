"""Fixture hosts and figures: each fault named, what is in order or cannot be known left in peace."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.job.types import Job, JobNode, Network
from gpuwatch.preflight.answers import Moved, Visited
from gpuwatch.preflight.blame import common
from gpuwatch.preflight.check import Options, Site
from gpuwatch.preflight.checks import (
    CHECKS,
    all_reduce,
    checkpoint,
    fit,
    host,
    links,
    roce,
    round_trip,
    small_files,
)
from gpuwatch.preflight.checks.checkpoint import Took
from gpuwatch.preflight.checks.host import CPUS, NVIDIA, PCI, RDMA, Host
from gpuwatch.preflight.checks.round_trip import Trip
from gpuwatch.preflight.checks.small_files import Passes
from gpuwatch.preflight.result import Finding

GPU, NEXT = "0000:1b:00.0", "0000:b1:00.0"
DGX = {
    f"{CPUS}cpu0/cpufreq/scaling_governor": "powersave", f"{CPUS}cpu0/cpufreq/scaling_driver": "intel_pstate",
    f"{NVIDIA}version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5",
    f"{NVIDIA}gpus/{GPU}/information": "", f"{NVIDIA}gpus/{NEXT}/information": "",
    f"{PCI}{GPU}/numa_node": "0", f"{PCI}{NEXT}/numa_node": "1",
    f"{RDMA}mlx5_0/device/numa_node": "0", f"{RDMA}mlx5_1/device/numa_node": "1",
    "/proc/modules": "nvidia_peermem 16384 0 - Live\nnvidia 56 1 - Live\n",
    "/proc/sys/kernel/osrelease": "5.15.0-100-generic",
    "/proc/self/limits": "Max locked memory   unlimited  unlimited  bytes\nMax open files   1024  1048576  files\n",
    "/proc/cpuinfo": "flags\t\t: fpu vme\n",
}  # fmt: skip
SAYS = {
    "smi": "0, Enabled, 0, No, 0\n1, Enabled, [N/A], [N/A], [N/A]\n",
    "clock": "yes\n",
    "shm": "Filesystem 1-blocks Used Available Capacity Mounted on\ntmpfs 1000000000000 0 1 0% /dev/shm\n",
    "pci": "ACSCtl:\tSrcValid- TransBlk- ReqRedir-\n",
}


def told(
    texts: Mapping[str, str] | None = None, says: Mapping[str, str] | None = None
) -> list[Finding]:
    return list(host.judged(Host("gpu01", {**DGX, **(texts or {})}, {**SAYS, **(says or {})})))


def test_a_host_in_order_is_left_in_peace() -> None:
    assert told() == []


@pytest.mark.parametrize(
    ("texts", "says", "word"),
    [
        ({f"{CPUS}cpu0/cpufreq/scaling_driver": "acpi-cpufreq"}, {}, "powersave"),
        ({"/proc/modules": "nvidia 56 1 - Live\n"}, {}, "GPUDirect"),
        ({f"{RDMA}mlx5_1/device/numa_node": "0"}, {}, "NUMA"),
        ({}, {"pci": "ACSCtl:\tSrcValid+ TransBlk- ReqRedir+\n"}, "ACS is on"),
        ({"/proc/self/limits": "Max locked memory   65536  65536  bytes\n"}, {}, "locked"),
        ({"/proc/self/limits": "Max open files   1024  1024  files\n"}, {}, "open"),
        ({}, {"shm": "tmpfs 67108864 0 67108864 0% /dev/shm\n"}, "/dev/shm"),
        ({}, {"clock": "no\n"}, "clock"),
        ({}, {"smi": "0, Disabled, 0, No, 0\n"}, "persistence"),
        ({}, {"smi": "0, Enabled, 3, No, 0\n"}, "memory errors"),
        ({}, {"smi": "0, Enabled, 0, Yes, 0\n"}, "retired"),
    ],
)
def test_each_fault_of_a_host_is_named_alone(
    texts: dict[str, str], says: dict[str, str], word: str
) -> None:
    (found,) = told(texts, says)
    assert found.judgement == "fault"
    assert word in found.text
    assert found.hint


def test_an_open_module_reaches_gpus_by_dma_buf_and_a_virtual_machine_needs_acs() -> None:
    is_open = {f"{NVIDIA}version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03", "/proc/modules": ""}  # fmt: skip
    assert told(is_open) == []
    assert [f.judgement for f in told({**is_open, "/proc/sys/kernel/osrelease": "5.4.0-1"})] == [
        "fault"
    ]
    virtual = {"/proc/cpuinfo": "flags\t\t: fpu hypervisor\n"}
    assert told(virtual, {"pci": "ACSCtl:\tSrcValid+ TransBlk-\n"}) == []
    assert [f.judgement for f in told({}, {"pci": "no rights\n"})] == ["not judged"]


class Told:
    """An errand on a node whose files are known."""

    def __init__(self, name: str, **ports: dict[str, str]) -> None:
        self.node = JobNode(name=name, host=name)
        self._texts = {
            f"{links.NET}{port}/{file}": text
            for port, files in ports.items()
            for file, text in files.items()
        }

    async def texts(self, *patterns: str) -> Mapping[str, str]:
        return self._texts if patterns[0].startswith(links.NET) else {}


def port(**changed: str) -> dict[str, str]:
    usual = {
        "speed": "25000", "duplex": "full", "mtu": "9000", "operstate": "up", "device/vendor": "0x15b3",
        "device/device": "0x1017", "device/current_link_width": "16", "device/max_link_width": "16",
        "statistics/rx_packets": "1000000000", "statistics/rx_crc_errors": "3",
    }  # fmt: skip
    return {**usual, **{key.replace("__", "/"): value for key, value in changed.items()}}


async def judged(*errands: Told, **network: Any) -> list[Finding]:
    job = Job(name="j", nodes=(), network=Network(**network))
    site = Site(job, cast("Any", errands), Options(), lambda _: None)
    return [f for f in await links.run(site) if f.judgement != "fine"]


async def test_ports_are_judged_against_each_other_and_the_job_file() -> None:
    three = [Told(f"gpu0{i}", eth0=port()) for i in (1, 2, 3)]
    assert await judged(*three) == []
    slow = Told("gpu04", eth0=port(speed="10000"))
    assert [f.subject for f in await judged(*three, slow)] == ["gpu04 eth0"]
    assert len(await judged(*three, line_rate={"eth*": 100e9})) == 3
    for odd, word in (
        (port(mtu="1500"), "MTU"), (port(duplex="half"), "half duplex"),
        (port(device__current_link_width="8"), "PCIe lanes"), (port(statistics__rx_crc_errors="90000"), "damaged"),
    ):  # fmt: skip
        (found,) = await judged(*three, Told("gpu04", eth0=odd))
        assert word in found.text
        assert "gpu04" in found.subject


async def test_slots_of_fewer_lanes_for_all_and_unknown_speeds_are_no_fault() -> None:
    eight = port(device__current_link_width="8")
    assert await judged(Told("gpu01", eth0=eight), Told("gpu02", eth0=eight)) == []
    unknown = port(speed="-1")
    found = await judged(Told("gpu01", eth0=unknown), Told("gpu02", eth0=unknown))
    assert [f.judgement for f in found] == ["not judged"]


async def test_only_most_nodes_say_what_speed_is_usual() -> None:
    three = [Told(f"gpu0{i}", eth0=port()) for i in (1, 2, 3)]
    assert await judged(*three, Told("gpu04", eth0=port(speed="100000"))) == []
    (found,) = await judged(three[0], Told("gpu04", eth0=port(speed="100000")))
    assert (found.judgement, found.subject) == ("not judged", "job")


async def test_a_card_is_held_against_its_slot_and_few_old_errors_are_let_be() -> None:
    slot = {"device/../max_link_width": "8", "device/current_link_width": "8"}
    assert await judged(Told("gpu01", eth0=port(), eth1={**port(), **slot})) == []
    narrow = {**port(device__current_link_width="8"), "device/../max_link_width": "16"}
    (found,) = await judged(Told("gpu01", eth0=narrow))
    assert "8 PCIe lanes of 16" in found.text
    few = port(statistics__rx_crc_errors="9", statistics__rx_packets="9000")
    assert await judged(Told("gpu01", eth0=few)) == []


def test_one_packet_that_is_lost_is_chance_however_few_were_sent() -> None:
    usual = {pair: Trip(0.0, 0.06, 0.01, 50) for pair in (("a", "b"), ("a", "c"), ("b", "c"))}
    one = {**usual, ("a", "b"): Trip(0.02, 0.06, 0.01, 50)}
    assert [f.judgement for f in round_trip.judged(one)] == ["fine"]
    two = {**usual, ("a", "b"): Trip(0.04, 0.06, 0.01, 50)}
    assert [f.subject for f in round_trip.judged(two)] == ["a <-> b"]


def test_a_machine_that_stood_still_once_is_not_far() -> None:
    usual = {pair: Trip(0.0, 0.07, 0.01, 50, 0.07) for pair in (("a", "b"), ("a", "c"), ("b", "c"))}
    stood = {**usual, ("a", "b"): Trip(0.0, 169.7, 400.0, 50, 0.08)}
    assert [f.judgement for f in round_trip.judged(stood)] == ["fine"]
    read = round_trip.parsed(
        "64 bytes from b: icmp_seq=1 ttl=64 time=900 ms\n64 bytes from b: icmp_seq=2 ttl=64 time=0.1 ms\n"
        "64 bytes from b: icmp_seq=3 ttl=64 time=0.3 ms\n"
        "3 packets transmitted, 3 received, 0% packet loss, time 9ms\nrtt min/avg/max/mdev = 0.1/300.1/900.0/1 ms\n"
    )
    assert read is not None
    assert (read.usual_ms, read.sent) == (0.3, 3)


def test_round_trips_name_a_node_or_a_pair() -> None:
    names = ["a", "b", "c", "d"]
    pairs = [(x, y) for x in names for y in names if x < y]
    usual = dict.fromkeys(pairs, Trip(0.0, 0.06, 0.01))
    assert [f.judgement for f in round_trip.judged(usual)] == ["fine"]
    assert [
        f.subject for f in round_trip.judged({**usual, ("a", "c"): Trip(0.05, 0.06, 0.01)})
    ] == ["a <-> c"]
    far = {pair: Trip(0.0, 4.0, 0.1) for pair in pairs if "b" in pair}
    assert [f.subject for f in round_trip.judged({**usual, **far})] == ["b"]
    jitter = {("a", "b"): Trip(0.01, 0.3, 0.2)}  # a tick of a scheduler, one packet of a hundred
    assert [f.judgement for f in round_trip.judged({**usual, **jitter})] == ["fine"]


@given(
    st.sets(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")).filter(
            lambda p: p[0] < p[1]
        )
    )
)
def test_blame_needs_more_than_one_pair_and_leaves_most_in_peace(bad: set[tuple[str, str]]) -> None:
    tried = [(x, y) for x in "abcdef" for y in "abcdef" if x < y]
    named = common(bad, tried)
    assert len(named) < 3
    for node in named:
        assert all(pair in bad for pair in tried if node in pair)


def test_a_checkpoint_blocks_by_bytes_over_bandwidth() -> None:
    took = Took(Moved(8 * 10**9, 8.0), Moved(8 * 10**9, 4.0))
    assert checkpoint.judged("n:/s", took, None).judgement == "fine"
    found = checkpoint.judged("n:/s", took, 140e9)
    assert found.judgement == "fault"
    assert "140 s" in found.text
    assert checkpoint.judged("n:/s", took, 100e9).judgement == "fine"


def test_small_files_are_judged_by_the_gpus_that_are_fed() -> None:
    passed = Visited(files=2000, bytes=200_000_000, took_s=1.0, p50_ms=1.0, p99_ms=4.0)
    passes = Passes(dict.fromkeys(small_files.WORKERS, passed), passed)
    assert small_files.judged("n:/d", passes, 0).judgement == "fine"
    assert small_files.judged("n:/d", passes, 8).judgement == "fault"


def test_a_ring_sends_twice_what_it_keeps() -> None:
    assert fit.exchanged_bytes(70e9, 2, 4) == 2 * 3 / 4 * 140e9
    assert fit.exchanged_bytes(70e9, 2, 1) == 0
    ten = Options(parameters=7e9, gpus=32, step_s=1.0)
    (found,) = fit.judged(ten, 1.15e9, 4)
    assert found.judgement == "fault"
    (found,) = fit.judged(ten, 46e9, 4)
    assert found.judgement == "fine"
    (found,) = fit.judged(ten, None, 4)
    assert found.judgement == "not judged"


def test_nodes_reduce_alike() -> None:
    assert [f.judgement for f in all_reduce.judged({"a": 480e9, "b": 470e9})] == ["fine"]
    assert [f.subject for f in all_reduce.judged({"a": 480e9, "b": 200e9})] == ["b"]


def test_every_check_and_limit_is_declared_once_with_its_source() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    limits = [limit for check in CHECKS for limit in check.limits]
    assert len({limit.name for limit in limits}) == len(limits)
    assert all(limit.source and limit.meaning for limit in limits)


MLNX = """Priority trust state: dscp
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0
"""
DCB = "pfc-cap 8 macsec-bypass off delay 0 \nprio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off\n"


def roce_port(node: str, pfc: str = "3", trust: str = "dscp", gid: str = "RoCE v2") -> roce.Device:
    settings = {"priorities with PFC": pfc, "trust mode": trust}
    return roce.Device(node, "mlx5_0", {"0": "IB/RoCE v1", "3": gid}, settings)


def test_priorities_with_pfc_are_read_from_either_tool() -> None:
    assert roce.priorities(MLNX) == roce.priorities(DCB) == "3"
    assert roce.priorities(MLNX.replace("1   0   0   0   0\n", "0   0   0   0   0\n")) == "none"
    assert roce.priorities("no such device") is None


def test_roce_that_is_set_up_otherwise_on_one_node_is_named() -> None:
    three = [roce_port(f"gpu0{i}") for i in (1, 2, 3)]
    assert [f.judgement for f in roce.judged(three, "3")] == ["fine"]
    for odd, word in (
        (roce_port("gpu04", pfc="none"), "PFC"), (roce_port("gpu04", trust="pcp"), "trust mode"),
        (roce_port("gpu04", gid="IB/RoCE v1"), "RoCE v2"),
    ):  # fmt: skip
        (found,) = roce.judged([*three, odd], None)
        assert (found.judgement, found.subject) == ("fault", "gpu04")
        assert word in found.text
    (found,) = roce.judged(three, "1")[:1]
    assert "GID index 1" in found.text
    assert [f.judgement for f in roce.judged([], None)] == ["fine"]


def test_where_no_tool_tells_pfc_it_is_not_judged() -> None:
    told = roce.judged([roce.Device("gpu01", "mlx5_0", {"3": "RoCE v2"}, {})], None)
    assert [f.judgement for f in told] == ["not judged", "fine"]


@given(
    st.dictionaries(
        st.sampled_from(sorted(DGX)), st.text() | st.from_regex(r"[0-9]{1,400}|-?[0-9]")
    ),
    st.dictionaries(st.sampled_from(sorted(SAYS)), st.text()),
)
def test_nothing_that_a_host_says_raises(texts: dict[str, str], says: dict[str, str]) -> None:
    told(texts, says)


@given(st.dictionaries(st.sampled_from(sorted(port())), st.text() | st.from_regex(r"[0-9]{1,400}")))
def test_nothing_that_a_port_says_raises(files: dict[str, str]) -> None:
    asyncio.run(judged(Told("gpu01", eth0={**port(), **files}), Told("gpu02", eth0=port())))
