"""Whose processes and GPUs are the job's, on whole hosts that others use as well."""

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent.kit import FaultyHost, agent, all_of, read, unpack
from gpuwatch.agent.host import Options
from gpuwatch.agent.metric import Absent
from gpuwatch.agent.ranks import Census
from gpuwatch.agent.sources import nvml

STRANGERS = (8001, 8002)


def ranks(host: FaultyHost) -> dict[int, tuple[str, str, int | None]]:
    """Return pid to group, rank and GPU."""
    found = Census(host, lambda: 1e6).ranks()
    return {rank.main.pid: (rank.group, rank.rank, rank.gpu) for rank in found}


def hide(root: Path, host: FaultyHost, way: str) -> None:
    """Hide the stranger's processes as a mount of /proc with this option does (proc(5))."""
    for pid in STRANGERS:
        folder = root / f"proc/{pid}"
        if way == "hidepid=2":
            shutil.rmtree(folder)
        elif way == "hidepid=1":
            paths = [folder, *folder.rglob("*")]
            host.faults |= {f"/{path.relative_to(root)}": errno.EPERM for path in paths}


@pytest.mark.parametrize("way", ["hidepid=0", "hidepid=1", "hidepid=2"])
@pytest.mark.parametrize("holders", [{}, {7001: (1,), 8001: (0,), 9999: (2,)}])
def test_a_strangers_job_is_not_ours_however_processes_are_hidden(
    way: str, holders: dict[int, tuple[int, ...]], tmp_path: Path
) -> None:
    """NVML names the pids of all; one of them is nobody here."""
    host = unpack("shared", tmp_path)
    hide(tmp_path, host, way)
    host.board.gpu_pids = holders
    assert ranks(host) == {7001: ("session:7001-100000", "0", 1)}


def test_a_match_that_fits_a_strangers_job_as_well_means_the_one_that_can_be_read(
    tmp_path: Path,
) -> None:
    host = unpack("shared", tmp_path, Options(match="train.py"))
    assert set(ranks(host)) == {7001}
    shutil.rmtree(tmp_path / "proc/7001")
    told = all_of(host)["threads"]
    mains = [entity for entity in told if " main 8001 " in entity]
    assert mains == ["thread_group match:train.py pid:8001 main 8001 None"]
    assert told[mains[0]]["storage_read_bytes"] is None
    assert told["missing"]["threads.io"] == "not permitted"
    assert "secret" not in repr(told)


def test_e35_in_a_container_the_host_s_pids_of_nvml_are_nobody(tmp_path: Path) -> None:
    """22 is a loader here, and on the host, which NVML speaks of, someone else's."""
    host = unpack("container-with-sshd", tmp_path)
    reader_ = nvml.Reader(host)
    reader_.take(["count", 1, "570"], 1)
    reader_.take(["processes", [[0, 28290, 7], [0, 22, 8], [0, 21, 9]]], 1)
    rows, missing = reader_._reading()
    assert [labels for scope, labels, _ in rows if scope == "gpu_process"] == [(0, 21)]
    assert missing["nvml.pid"] == "2 of another pid namespace"
    reader_.sample()
    assert ranks(host) == {21: ("session:20-500100", "0", 0)}


def test_two_jobs_of_one_user_stay_apart(tmp_path: Path) -> None:
    host = unpack("two-jobs", tmp_path)
    assert ranks(host) == {
        3001: ("rdzv:ws5:29500", "0", 0), 3002: ("rdzv:ws5:29500", "1", 1),
        4001: ("rdzv:ws5:29501", "0", 2), 4002: ("rdzv:ws5:29501", "1", 3),
    }  # fmt: skip
    one = unpack("two-jobs", tmp_path / "one", Options(match="job1.py"))
    assert set(ranks(one)) == {4001, 4002}


def test_e32_k25_a_chip_without_nvml_and_a_kernel_without_pressure(tmp_path: Path) -> None:
    host = unpack("jetson-like", tmp_path, Options(match="infer.py"))
    told = all_of(host)
    assert "thread_group match:infer.py pid:900 main 900 None" in told["threads"]
    with pytest.raises(Absent, match="no /proc/pressure"):
        read("pressure", host)


@pytest.mark.parametrize("name", ["dgx-h100-ib", "jetson-like", "container-with-sshd", "two-jobs"])
def test_a_real_agent_on_the_whole_host(name: str, tmp_path: Path) -> None:
    """No source fails there, and what is absent says why."""
    unpack(name, tmp_path)
    config: dict[str, Any] = {"interval_s": 0.1, "silence_s": 20}
    with agent(config, root=str(tmp_path)) as running:
        running.wait_for("data", 4)
        reasons = running.reasons()
        assert not [why for why in reasons.values() if why.startswith("failed")], reasons
        assert running.node()["cpu_user_ms"] > 0
        assert all(reasons.values())
