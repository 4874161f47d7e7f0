"""On which CPUs the job's processes may run: real affinities, and hosts with NUMA nodes."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.kit import named, read, reader, unpack
from gpuwatch.agent.host import Host, Member
from gpuwatch.agent.sources.placement import LOOKS, REST, mask


def member(pid: int, rank: str = "0", role: str = "main", gpu: int | None = 0) -> Member:
    return Member(pid, "slurm:1", rank, role, gpu)


def told(source: Any) -> dict[str, tuple[Any, ...]]:
    found = named("placement", source.read())
    return {k.removeprefix("placement slurm:1 "): tuple(v.values()) for k, v in found.items()}


def test_loaders_that_share_one_cpu_are_told_as_one(tmp_path: Path) -> None:
    host = unpack("slurm-cgroup2", tmp_path)
    host.board.job = (
        member(4100),
        member(4101, role="loader"),
        member(4102, role="loader"),
        member(4200, rank="1", gpu=1),
    )
    host.board.gpu_address = {0: "00000000:3B:00.0", 1: "00000000:5e:00.0"}
    assert told(reader("placement", host)) == {
        "0 main": (1, 4, 4, 1),
        "0 loader": (2, 1, 1, 1),
        "1 main": (1, 4, 4, 0),
    }


@pytest.mark.parametrize("address", [None, "00000000:AF:00.0", "00000000:00:00.0", "../../etc", ""])
def test_a_gpu_on_no_known_node_is_near_to_nothing_and_far_from_nothing(
    address: str | None, tmp_path: Path
) -> None:
    host = unpack("slurm-cgroup2", tmp_path)
    host.board.job = (member(4100),)
    host.board.gpu_address = {} if address is None else {0: address}
    reading = read("placement", host)
    assert named("placement", reading)["placement slurm:1 0 main"]["numa_far"] is None
    assert "placement.numa_far" in reading.missing


def test_real_processes_bound_to_a_real_cpu() -> None:
    first = min(os.sched_getaffinity(0))
    bound = subprocess.Popen(["/bin/sleep", "60"])
    try:
        os.sched_setaffinity(bound.pid, [first])
        host = Host()
        host.board.job = (member(os.getpid()), member(bound.pid, role="loader"))
        found = told(reader("placement", host))
    finally:
        bound.kill()
        bound.wait()
    free = len(os.sched_getaffinity(0))
    assert found == {"0 main": (1, free, free, None), "0 loader": (1, 1, 1, None)}


def test_many_processes_are_looked_at_in_turn_and_changes_are_seen_in_the_next_round(
    tmp_path: Path,
) -> None:
    host = Host(str(tmp_path))
    for pid in range(1, 21):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/status").write_text(f"Cpus_allowed:\t{1 << pid:x}\n")
    host.board.job = tuple(member(pid, role="loader") for pid in range(1, 21))
    source = reader("placement", host)
    counts = [told(source)["0 loader"][:3] for _ in range(3)]
    assert counts == [(LOOKS, LOOKS, 1), (2 * LOOKS, 2 * LOOKS, 1), (20, 20, 1)]
    for pid in range(1, 21):
        (tmp_path / f"proc/{pid}/status").write_text("Cpus_allowed:\tff,ffffffff\n")
    assert told(source)["0 loader"][:3] == (20, 20, 1)
    for _ in range(REST + 3):
        last = told(source)["0 loader"]
    assert last[:3] == (20, 40, 40)


def test_a_process_that_ended_is_left_out_and_a_job_that_ended_leaves_nothing(
    tmp_path: Path,
) -> None:
    host = unpack("slurm-cgroup2", tmp_path)
    host.board.job = (member(4100), member(4999, role="loader"))
    source = reader("placement", host)
    assert list(told(source)) == ["0 main"]
    host.board.job = ()
    assert told(source) == {}


def test_more_roles_than_are_told_are_counted(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    for pid in range(1, 41):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/status").write_text("Cpus_allowed:\t1\n")
    host.board.job = tuple(member(pid, str(pid)) for pid in range(1, 41))
    source = reader("placement", host)
    for _ in range(5):
        reading = source.read()
    assert len(reading.rows) == 32
    assert reading.missing["placement.rank"] == "8 more roles of ranks"


@given(st.integers(0, 2**300))
def test_masks_are_read_as_the_kernel_writes_them(bits: int) -> None:
    digits = f"{bits:x}"
    digits = "0" * (-len(digits) % 8) + digits
    text = ",".join(digits[i : i + 8] for i in range(0, len(digits), 8))
    assert mask(text.encode() + b"\n") == bits


@given(st.binary(max_size=40))
@example(b"-1")
@example(b"1_1")
@example(b"0xff")
def test_no_bytes_of_a_mask_raise(text: bytes) -> None:
    assert mask(text) >= 0
