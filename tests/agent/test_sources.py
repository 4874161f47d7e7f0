"""Sources against hostile bytes, public conformance texts, psutil and this machine's kernel."""

import contextlib
import functools
import importlib
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.kit import HOSTS, SHARED, SOURCES, all_of, named, read, reader, unpack, unpack_ttar
from gpuwatch.agent import lines
from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, LABEL, Absent, Metric, Reading, fill, number

FILES = {
    "clock": ("/proc/uptime",),
    "cpu": ("/proc/stat", "/proc/self/status"),
    "memory": ("/proc/meminfo", "/proc/vmstat"),
    "pressure": ("/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"),
    "tcp": ("/proc/net/snmp", "/proc/net/netstat"),
    "own": ("/proc/self/stat",),
    "nic": (
        "/proc/net/dev",
        "/proc/net/route",
        "/sys/class/net/eno1/speed",
        "/sys/class/net/eno1/statistics/rx_bytes",
        "/sys/class/net/eno1/iflink",
        "/sys/class/net/eno1/uevent",
    ),
    "disk": ("/proc/diskstats",),
    "mounts": ("/proc/self/mountinfo", "/proc/self/mountstats"),
    "kworkers": (
        "/proc/2/task/2/children",
        "/proc/2/stat",
        "/proc/11/stat",
        "/proc/13/stat",
        "/proc/13/schedstat",
    ),
}
SHARED_ABSENT = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"the public conformance texts are not at {SHARED}"
)


@functools.cache
def ethernet() -> Path:
    root = Path(tempfile.mkdtemp(prefix="gpuwatch-host-"))
    unpack("ethernet", root)
    return root


def well_formed(source: str, reading: Reading) -> None:
    rows = importlib.import_module(f"gpuwatch.agent.sources.{source}").ROWS
    for scope, labels, values in reading.rows:
        declared = [row for row in rows if row.scope == scope]
        assert len(labels) == sum(row.kind == LABEL for row in declared)
        kinds = [row for row in declared if row.kind != LABEL]
        for row, value in zip(kinds, values, strict=True):
            assert row.sane(value)
            assert value is None or isinstance(value, int if row.type == "int" else (int, float))


def mangled(original: bytes) -> st.SearchStrategy[bytes]:
    """Bytes of any kind, and the true text with a piece replaced: closer to what parsers expect."""
    cut = st.integers(0, len(original))
    return st.binary(max_size=400) | st.builds(
        lambda a, b, piece: original[: min(a, b)] + piece + original[max(a, b) :],
        cut,
        cut,
        st.sampled_from([b"", b" ", b"\n", b"\0", b"-1", b"9" * 30, b"nan", b"\xff\xf0)"])
        | st.binary(max_size=20),
    )


@pytest.mark.parametrize("source", sorted(FILES))
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_bytes_raise_anything_but_absent(source: str, data: st.DataObject) -> None:
    root = ethernet()
    path = data.draw(st.sampled_from(FILES[source]))
    file = root / path.lstrip("/")
    original = file.read_bytes()
    host = Host(str(root))
    try:
        source_reader = reader(source, host)
        for _ in range(2):
            file.write_bytes(data.draw(mangled(original)))
            with contextlib.suppress(Absent):
                well_formed(source, source_reader.read())
    finally:
        file.write_bytes(original)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", sorted(file.stem for file in HOSTS.glob("*.host")))
def test_counters_of_a_still_host_stand_still(source: str, name: str, tmp_path: Path) -> None:
    host = unpack(name, tmp_path)
    source_reader = reader(source, host)
    readings: list[Reading | str] = []
    for _ in range(2):
        try:
            readings.append(source_reader.read())
        except Absent as absent:
            readings.append(str(absent))
    first, second = readings
    assert first
    if isinstance(first, str) or isinstance(second, str):
        assert first == second
        return
    assert [row[:2] for row in first.rows] == [row[:2] for row in second.rows]
    assert first.missing == second.missing
    for (_, _, before), (_, _, now) in zip(first.rows, second.rows, strict=True):
        assert all(b in (a, None) for a, b in zip(before, now, strict=True)), (
            "or it is not its turn"
        )


@given(st.binary(max_size=60), st.binary(min_size=1, max_size=8).filter(lambda k: b"\n" not in k))
def test_after_is_what_splitting_lines_gives(text: bytes, key: bytes) -> None:
    expected = next((x[len(key) :] for x in text.split(b"\n") if x.startswith(key)), None)
    assert lines.after(text, key) == expected


@given(st.sets(st.integers(0, 500), min_size=1))
def test_cpu_lists_count_as_many_as_are_in_them(cpus: set[int]) -> None:
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    text = ",".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs)
    assert lines.cpus(text.encode() + b"\n") == len(cpus)


@pytest.mark.parametrize("text", [b"", b"x", b"1-", b"-1", b"3-1", b"1,,2", b"9" * 30])
def test_no_cpu_list_is_none(text: bytes) -> None:
    assert lines.cpus(text) is None


def test_fill_is_driven_by_locators() -> None:
    row = Metric("a_bytes", "node", COUNTER, "int", "B", "x y", "A.", scale=2)
    assert fill((row, row._replace(locator="gone")), {"x y": b"21"}) == (42, None)
    assert number(b"nan", row) is None


def test_a_counter_more_is_one_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from gpuwatch.agent.sources import cpu, disk, memory, nic, pressure, tcp

    host = unpack("virtio", tmp_path)
    (tmp_path / "sys/class/net/ens3/statistics/multicast").write_text("321\n")
    added = (
        (cpu, Metric("softirqs", "node", COUNTER, "int", "1", "softirq 0", "All.")),
        (memory, Metric("cached", "node", COUNTER, "int", "B", "meminfo Cached", ".", scale=1024)),
        (pressure, Metric("cpu_full_us", "node", COUNTER, "int", "us", "cpu full", "Full.")),
        (tcp, Metric("opens", "node", COUNTER, "int", "1", "snmp Tcp ActiveOpens", "Opens.")),
        (tcp, Metric("udp_in", "node", COUNTER, "int", "1", "snmp Udp InDatagrams", "UDP.")),
        (nic, Metric("multicast", "nic", COUNTER, "int", "1", "statistics/multicast", "Many.")),
        (disk, Metric("flushed", "disk", COUNTER, "int", "1", "field 16", "Flushes.")),
    )
    for module, row in added:
        monkeypatch.setattr(module, "ROWS", (*module.ROWS, row))
    found = {}
    for source in ("cpu", "memory", "pressure", "tcp", "nic", "disk"):
        for values in named(source, read(source, host)).values():
            found.update(values)
    expected = (4411, 900100 * 1024, 0, 812, 190, 321, 2303)
    assert tuple(found[row.name] for _, row in added) == expected


@SHARED_ABSENT
def test_conformance_with_procfs_texts(tmp_path: Path) -> None:
    unpack_ttar(SHARED / "procfs.ttar", tmp_path)
    told = all_of(Host(str(tmp_path / "fixtures")))
    node = told["cpu"]["node"]
    assert (node["cpu_user_ms"], node["cpu_iowait_ms"], node["cpus"]) == (3018540, 35520, 8)
    assert (node["context_switches"], node["forks"], node["procs_blocked"]) == (38014093, 26442, 1)
    assert told["memory"]["node"]["memory_total_bytes"] == 15666184 * 1024
    assert told["pressure"]["node"]["pressure_cpu_some_us"] == 15
    assert told["nic"]["nic eth0"]["speed_mbps"] == 1000
    assert told["disk"]["disk sda disk"]["reads"] == 25354637


@SHARED_ABSENT
def test_conformance_with_node_exporter_texts(tmp_path: Path) -> None:
    (tmp_path / "proc").symlink_to(SHARED / "node_exporter/proc")
    host = Host(str(tmp_path))
    tcp = named("tcp", read("tcp", host))["node"]
    assert (tcp["tcp_in_segs"], tcp["tcp_retrans_segs"]) == (57252008, 227)
    disks = named("disk", read("disk", host))
    assert {name.split()[1] for name in disks if name.endswith(" disk")} == {
        *("sda", "sdb", "sdc", "vda", "mmcblk0", "nvme0n1", "fd0"),
    }
    assert disks["disk sda disk"]["write_bytes"] == 505697032 * 512
    assert disks["disk dm-0 mapped"]["queue_ms"] == 1206301256
    assert not any(entity.startswith("disk sda1 ") for entity in disks)


def test_own_cost_grows_with_what_is_spent() -> None:
    source = reader("own", Host())
    before = named("own", source.read())["node"]["agent_cpu_ms"]
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    after = named("own", source.read())["node"]
    assert 20 <= after["agent_cpu_ms"] - before <= 2000
    rss = psutil.Process().memory_info().rss
    assert abs(after["agent_memory_bytes"] - rss) < rss / 2
