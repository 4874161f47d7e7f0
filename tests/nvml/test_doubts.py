"""What the GPU source makes of odd GPUs and odd nodes, on fake hosts."""

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import Reading
from gpuwatch.agent.nvml.buffers import Buffers, Summary
from gpuwatch.agent.nvml.doubts import LOUD_FOR
from gpuwatch.agent.nvml.kernel_log import KernelLog
from gpuwatch.agent.nvml.locator import IS_LOST, NOT_SUPPORTED
from gpuwatch.agent.sources.nvml import NAMES, ROWS, VALUES, Reader

GPU_NAMES = [row.name for row in ROWS if row.scope == "gpu" and row.kind != "label"]


def answers(otherwise: str = "", **told: Any) -> list[Any]:
    """Raw answers of one GPU: the least that each may be, or one reason for all."""
    least = {row.name: 0 if row.low <= 0 else math.ceil(row.low / row.scale) for row in VALUES}
    return [told.get(name, otherwise or least[name]) for name in NAMES]


def read(
    reader: Reader, *gpus: list[Any], unheard: str = ""
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """What a full poll becomes: rows of GPUs, and what is missing."""
    told = [[i, f"GPU-{i}", "NVIDIA H100", gpu] for i, gpu in enumerate(gpus)]
    reader.take(["count", len(gpus), "570"], 1)
    reader.take(["full", told, 0.0, unheard], 1)
    return gpu_rows(reader._reading())


def gpu_rows(reading: Reading) -> tuple[list[dict[str, Any]], dict[str, str]]:
    rows = [
        {"labels": labels, **dict(zip(GPU_NAMES, values, strict=True))}
        for scope, labels, values in reading.rows
        if scope == "gpu"
    ]
    return rows, reading.missing


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal:       128000000 kB\nMemFree:   2 kB\nMemAvailable:   28000000 kB\n"
    )
    return Host(str(tmp_path))


def test_unified_memory_is_the_hosts(host: Host) -> None:
    """E29: GB10."""
    gpu = answers(
        power_w=11170, memory_used_bytes=NOT_SUPPORTED, memory_total_bytes=NOT_SUPPORTED,
        power_limit_w=NOT_SUPPORTED,
    )  # fmt: skip
    [row], missing = read(Reader(host), gpu)
    assert row["memory_total_bytes"] == 128_000_000 * 1024
    assert row["memory_used_bytes"] == 100_000_000 * 1024
    assert (row["util_pct"], row["power_w"], row["gpu_lost"]) == (0, 11.17, 0)
    assert missing == {
        "nvml.memory_total_bytes": "unified with the host's memory: from /proc/meminfo",
        "nvml.power_limit_w": NOT_SUPPORTED,
    }


def test_a_jetson_tells_its_load_elsewhere(tmp_path: Path, host: Host) -> None:
    """E32: NVML says nothing; the kernel tells the load per mille."""
    [row], missing = read(Reader(host), answers(NOT_SUPPORTED))
    assert (row["util_pct"], row["gpu_lost"]) == (None, 0)
    assert missing == {"nvml.gpu0": NOT_SUPPORTED}
    load = tmp_path / "sys/class/devfreq/17000000.gpu/device/load"
    load.parent.mkdir(parents=True)
    load.write_text("734\n")
    reader = Reader(host)
    [row], missing = read(reader, answers(NOT_SUPPORTED))
    assert row["util_pct"] == 73.4
    assert missing == {"nvml.gpu0": NOT_SUPPORTED}
    reader.take(["util", [[0, NOT_SUPPORTED]]], 1)
    assert reader.host.board.gpu_util == {0: 73.4}


def test_idle_at_the_power_of_work_is_not_believed(host: Host) -> None:
    """E33: WSL; a GPU that has just stopped is believed."""
    reader = Reader(host)
    odd = answers(power_w=180_000, power_limit_w=250_000)
    for _ in range(LOUD_FOR - 1):
        [row], missing = read(reader, odd)
        assert (row["util_pct"], missing) == (0, {})
    [row], missing = read(reader, odd)
    assert (row["util_pct"], row["util_mean_pct"], row["power_w"]) == (None, None, 180)
    assert missing == {"nvml.util_pct": "0 % at high power: not to be believed"}
    reader.take(["util", [[0, 0]]], 1)
    assert reader.host.board.gpu_util == {0: None}
    in_step = answers(util_mean_pct=70, power_w=180_000, power_limit_w=250_000)
    [row], missing = read(reader, in_step)
    assert (row["util_pct"], row["util_mean_pct"], missing) == (0, 70, {})
    [row], missing = read(reader, answers(util_pct=97, power_w=180_000, power_limit_w=250_000))
    assert (row["util_pct"], missing) == (97, {})


def test_what_cannot_be_is_a_bad_sample(host: Host) -> None:
    """E09, E11, E38: each metric on its own; none of it is zero."""
    gpu = answers(util_pct=808334905, power_w=10**9, gpm_sm_pct=101.5, temperature_c=-400, xid=3)
    [row], missing = read(Reader(host), gpu)
    assert {row[n] for n in ("util_pct", "power_w", "gpm_sm_pct", "temperature_c")} == {None}
    assert set(missing.values()) == {"bad sample"}
    assert len(missing) == 4


def test_fewer_gpus_than_the_driver_has_are_noted(tmp_path: Path, host: Host) -> None:
    """E38."""
    for address in ("0000:17:00.0", "0000:3d:00.0"):
        (tmp_path / "proc/driver/nvidia/gpus" / address).mkdir(parents=True)
    _, missing = read(Reader(host), answers())
    assert missing == {"nvml.gpu_count": "1 of the driver's 2 GPUs"}


def test_the_row_of_a_gpu_that_is_gone_keeps_its_name(host: Host) -> None:
    """E20: the others move up, so it takes the index that is left."""
    reader = Reader(host)
    read(reader, answers(), answers(), answers())
    reader.take(["xids", [[1, 79]]], 2)
    reader.take(["count", 2, "570"], 3)
    told = [[0, "GPU-0", "NVIDIA H100", answers()], [1, "GPU-2", "NVIDIA H100", answers()]]
    reader.take(["full", told, 0.0, ""], 3)
    rows, missing = gpu_rows(reader._reading())
    assert [row["labels"][:2] for row in rows] == [(0, "GPU-0"), (1, "GPU-2"), (2, "GPU-1")]
    assert [(row["gpu_lost"], row["xid"], row["xids"]) for row in rows] == [
        (0, 0, 0), (0, 0, 0), (1, 79, 1),
    ]  # fmt: skip
    assert missing["nvml.gpu2"] == "no longer listed by the driver"


def test_a_gpu_that_fails_otherwise_is_not_called_lost(host: Host) -> None:
    [row], missing = read(Reader(host), answers("Unknown Error"))
    assert (row["gpu_lost"], missing) == (None, {"nvml.gpu0": "Unknown Error"})
    [row], _ = read(Reader(host), answers(IS_LOST))
    assert row["gpu_lost"] == 1


def test_no_word_of_errors_is_told(host: Host) -> None:
    [row], missing = read(Reader(host), answers(), unheard=NOT_SUPPORTED)
    assert (row["xid"], row["xids"], missing) == (None, None, {"nvml.xid": NOT_SUPPORTED})


def test_the_kernel_log_tells_errors_that_nvml_cannot(tmp_path: Path, host: Host) -> None:
    """Xid 79: the GPU is off the bus. What was logged before the agent began does not count."""
    uuid = "GPU-aabbccdd-0000-1111-2222-333344445555"
    card = tmp_path / "proc/driver/nvidia/gpus/0000:3b:00.0/information"
    card.parent.mkdir(parents=True)
    card.write_text(f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid}\nBus Type: \t PCIe\n")
    log = tmp_path / "dev/kmsg"
    log.parent.mkdir()
    line = "4,{},77,-;NVRM: Xid (PCI:0000:{}:00): {}, pid=1234, name=python, secret\n"
    log.write_text(line.format(1, "3B", 31))
    reader = Reader(host)
    with log.open("a") as file:
        file.write(line.format(2, "3B", 79) + "6,3,78,-;eth0: link up\n" + line.format(4, "af", 13))
    reader.take(["count", 1, "570"], 1)
    reader.take(["full", [[0, uuid, "NVIDIA H100", answers(IS_LOST)]], 0.0, ""], 1)
    reader.take(["xids", [[0, 79]]], 1)  # of the same error
    for found in reader._log.take():
        reader._xids.count(found[0], "log", found[1])
    [row], missing = gpu_rows(reader._reading())
    assert (row["gpu_lost"], row["xid"], row["xids"]) == (1, 79, 1)
    assert missing == {"nvml.gpu0": IS_LOST}
    assert host.board.gpu_address == {0: "0000:3b:00.0"}
    reader.close()


@given(st.binary())
def test_any_kernel_log_is_read(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "dev").mkdir()
        (Path(root) / "dev/kmsg").touch()
        log = KernelLog(Host(root))
        (Path(root) / "dev/kmsg").write_bytes(data + b"NVRM: Xid (PCI:0000:3b:00): 79,")
        assert log.take() == []  # no such GPU here
        log.close()


def processes(reader: Reader, listed: list[Any]) -> tuple[list[Any], dict[str, str]]:
    reader.take(["processes", listed], 1)
    _, missing = read(reader, answers())
    rows, _ = reader._reading()
    return [(labels, values) for scope, labels, values in rows if scope == "gpu_process"], missing


def test_processes_that_are_gone_are_left_out(tmp_path: Path, host: Host) -> None:
    """E13, E36: dead ones in the list, and one that ends after it was listed."""
    (tmp_path / "proc/42").mkdir()
    (tmp_path / "proc/43").mkdir()
    reader = Reader(host)
    listed = [[0, 42, 7], [0, 43, None], [0, 99, 5]]
    assert processes(reader, listed) == ([((0, 42), (7,)), ((0, 43), (None,))], {})
    (tmp_path / "proc/43").rmdir()
    _, _ = read(reader, answers())
    assert reader._reading().missing == {}
    assert reader.host.board.gpu_pids == {42: (0,)}


def test_numbers_of_another_pid_namespace_are_not_ours(tmp_path: Path, host: Host) -> None:
    """E35: a number may be another program's here; who has a GPU open is meant."""
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532211]")
    for pid, file in ((42, "/dev/nvidia0"), (28290, "/dev/null")):
        (tmp_path / f"proc/{pid}/fd").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/fd/3").symlink_to(file)
    listed = [[0, 42, 7], [0, 28290, 8], [0, 31000, 9]]
    rows, missing = processes(Reader(host), listed)
    assert rows == [((0, 42), (7,))]
    assert missing == {"nvml.pid": "2 of another pid namespace"}


@given(st.lists(st.tuples(st.integers(0, 2**63), st.integers(0, 2**32)), max_size=30))
def test_any_samples_give_a_sane_summary_or_a_reason(samples: list[tuple[int, float]]) -> None:
    """E09, E13: stale times and illegal values are dropped, not averaged."""
    buffers = Buffers(None, [], 1)
    summary = buffers.sum_up(0, 1, list(samples))
    if isinstance(summary, Summary):
        assert 0 <= summary.low <= summary.mean <= summary.high <= 100
    else:
        assert summary in ("no new sample", "bad sample")
    again = buffers.sum_up(0, 1, list(samples))
    assert again in (summary, "no new sample")
