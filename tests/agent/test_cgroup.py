"""Quota, CPUs and memory of the job's cgroups: real ones of this kernel, and whole fake hosts."""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.kit import named, read, reader, unpack
from gpuwatch.agent import cgroups
from gpuwatch.agent.host import Host, Member, Options
from gpuwatch.agent.metric import Absent
from gpuwatch.agent.sources import threads

V1 = Path("/sys/fs/cgroup")
QUOTA_US, PERIOD_US, LIMIT = 5_000, 100_000, 64 << 20

needs_v1 = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(V1 / "cpu/cpu.cfs_quota_us", os.W_OK),
    reason="needs root and a writable cgroup v1 hierarchy at /sys/fs/cgroup/cpu",
)


def rank(pid: int, number: str = "0", role: str = "main", group: str = "slurm:1") -> Member:
    return Member(pid, group, number, role, None)


def rows(host: Host, *job: Member) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return what the source tells, by labels, of a host with this job."""
    host.board.job = job
    reading = read("cgroup", host)
    return {k.removeprefix("cgroup "): v for k, v in named("cgroup", reading).items()}, dict(
        reading.missing
    )


@contextlib.contextmanager
def spinning_under_quota() -> Iterator[tuple[str, int]]:
    """Confine a process that spins: the quota stands above its own cgroup, as a job's above a task."""
    path = f"/gpuwatch-test-{uuid.uuid4().hex}"
    folders = [V1 / name / path[1:] for name in ("cpu", "cpuacct", "memory", "cpuset")]
    for folder in folders:
        (folder / "task_0").mkdir(parents=True)
    (folders[0] / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    (folders[0] / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
    (folders[2] / "memory.limit_in_bytes").write_text(str(LIMIT))
    for folder in (folders[3], folders[3] / "task_0"):
        (folder / "cpuset.mems").write_text("0")
        (folder / "cpuset.cpus").write_text("0")
    process = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    try:
        for folder in folders:
            (folder / "task_0/cgroup.procs").write_text(str(process.pid))
        yield path + "/task_0", process.pid
    finally:
        process.kill()
        process.wait()
        for folder in folders:
            for each in (folder / "task_0", folder):
                remove(each)


def remove(folder: Path) -> None:
    """Remove a cgroup, which a process that just ended may keep for a moment."""
    until = time.monotonic() + 5
    while True:
        try:
            folder.rmdir()
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.01)
        else:
            return


@needs_v1
def test_d67_a_real_quota_above_a_real_process_is_told_and_its_throttling_counted() -> None:
    with spinning_under_quota() as (path, pid):
        host = Host()
        host.board.job = (rank(pid, "3"),)
        source = reader("cgroup", host)

        def now() -> dict[str, Any]:
            return named("cgroup", source.read())[f"cgroup {path} slurm:1 3"]

        first = last = now()
        until = time.monotonic() + 10
        while last["throttled_periods"] < first["throttled_periods"] + 5:
            assert time.monotonic() < until, last
            time.sleep(0.05)
            last = now()
    assert first["quota_cpus"] == QUOTA_US / PERIOD_US
    assert first["cpus_allowed"] == first["ranks"] == 1
    assert first["memory_limit_bytes"] == LIMIT
    stopped_us = last["throttled_us"] - first["throttled_us"]
    assert stopped_us > 5 * (PERIOD_US - QUOTA_US) / 2
    assert 0 < last["cpu_usage_us"] - first["cpu_usage_us"] < stopped_us
    assert last["periods"] - first["periods"] >= 5
    ended = now()
    assert (ended["throttled_us"], ended["cpu_usage_us"], ended["periods"]) == (None, None, None)


def test_the_job_that_was_found_is_the_job_whose_cgroup_and_cpus_are_told() -> None:
    mark = f"job-{uuid.uuid4().hex}"
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", "print(flush=True); input()", mark],
        env={"RANK": "3", "SLURM_JOB_ID": "77"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout
        assert process.stdin
        process.stdout.readline()
        host = Host(options=Options(match=mark))
        source = threads.Reader(host)
        until = time.monotonic() + 10
        while not host.board.job:  # among very many processes it is found at a later scan
            assert time.monotonic() < until
            source.read()
            time.sleep(0.02)
        ((_, labels, values),) = (r for r in read("cgroup", host).rows if r[1][1] is not None)
        ((_, placed, _),) = read("placement", host).rows
    finally:
        process.communicate(b"\n")
    assert labels[1:] == ("slurm:77", "3")
    assert placed == ("slurm:77", "3", "main")
    assert values[0] == 1


def test_a_slurm_step_of_cgroup_v2_is_limited_from_above(tmp_path: Path) -> None:
    host = unpack("slurm-cgroup2", tmp_path)
    told, missing = rows(host, rank(4100), rank(4101, role="loader"), rank(4200, "1"))
    step = "/system.slice/slurmstepd.scope/job_1/step_0/user/"
    agents = "/user.slice/user-1000.slice/session-3.scope None None"
    assert list(told) == [f"{step}task_0 slurm:1 0", f"{step}task_1 slurm:1 1", agents]
    first, second, own = told.values()
    assert (first["quota_cpus"], first["periods"]) == (6.0, 500)
    assert (first["throttled_periods"], first["throttled_us"]) == (302, 90001000)
    assert (first["cpu_usage_us"], second["cpu_usage_us"]) == (44000000, 43000000)
    assert (first["cpus_allowed"], second["cpus_allowed"], own["cpus_allowed"]) == (4, 8, 16)
    assert (first["memory_limit_bytes"], own["memory_limit_bytes"]) == (60000000000, None)
    assert (first["memory_bytes"], first["memory_file_bytes"]) == (50000000000, 18000000000)
    assert (first["refaults"], first["oom_kills"]) == (4242, 1)
    assert (own["ranks"], own["quota_cpus"], own["throttled_us"]) == (0, None, None)
    assert (first["pressure_io_full_us"], first["pressure_memory_some_us"]) == (4002, None)
    assert "cgroup.above" not in missing


def test_limits_stay_as_they_were_until_their_turn_and_counters_are_missing(tmp_path: Path) -> None:
    host = unpack("slurm-cgroup2", tmp_path)
    host.board.job = (rank(4100),)
    source = reader("cgroup", host)
    told = [next(iter(named("cgroup", source.read()).values())) for _ in range(6)]
    assert [values["refaults"] for values in told] == [4242, None, None, None, None, 4242]
    assert [values["pressure_io_full_us"] is None for values in told] == [False, *[True] * 4, False]
    for values in told:
        assert (values["memory_limit_bytes"], values["quota_cpus"]) == (60000000000, 6.0)
        assert values["cpu_usage_us"] == 44000000


def test_k25_a_slurm_step_of_cgroup_v1(tmp_path: Path) -> None:
    told, missing = rows(unpack("cgroup1-rhel8", tmp_path), rank(4100))
    task = told["/slurm/uid_1000/job_1/step_0/task_0 slurm:1 0"]
    assert (task["quota_cpus"], task["periods"], task["throttled_periods"]) == (1.5, 48, 42)
    assert (task["throttled_us"], task["cpu_usage_us"]) == (1234567, 5000000)
    assert (task["cpus_allowed"], task["memory_limit_bytes"]) == (4, 8589934592)
    assert (task["memory_bytes"], task["memory_anon_bytes"]) == (4000000000, 2400000000)
    assert (task["oom_kills"], task["refaults"], task["pressure_cpu_some_us"]) == (2, None, None)
    assert "psi=1" in missing["cgroup.pressure"]


def test_the_machine_s_counts_are_not_told_for_a_cgroup_whose_controller_is_not_used(
    tmp_path: Path,
) -> None:
    told, missing = rows(unpack("cgroup1-rhel8", tmp_path))
    (own,) = told.values()
    assert (own["cpu_usage_us"], own["memory_bytes"]) == (None, 12000000)
    assert (own["quota_cpus"], own["memory_limit_bytes"]) == (None, None)
    assert missing["cgroup.cpu_usage_us"] == "no cgroup of its own counts CPU time"


def test_k21_k23_a_container_is_at_its_quota_on_a_host_that_is_idle(tmp_path: Path) -> None:
    host = unpack("kubernetes", tmp_path)
    told, missing = rows(host, rank(7))
    inside = told["/ slurm:1 0"]
    assert (inside["quota_cpus"], inside["cpus_allowed"]) == (2.0, 8)
    assert (inside["periods"], inside["throttled_periods"]) == (100, 97)
    assert (inside["memory_limit_bytes"], inside["refaults"]) == (2000000000, 55)
    assert (inside["pressure_io_some_us"], inside["pressure_cpu_some_us"]) == (9, None)
    assert missing["cgroup.above"].startswith("this is a container")
    node = named("cpu", read("cpu", host))["node"]
    assert (node["cpus"], node["container"], node["lxcfs"]) == (8, 1, 0)


def test_a_process_outside_of_the_container_keeps_its_limits_to_itself(tmp_path: Path) -> None:
    told, missing = rows(unpack("kubernetes", tmp_path), rank(8))
    outside = told["/../cri-containerd-0123.scope slurm:1 0"]
    assert (outside["quota_cpus"], outside["memory_bytes"]) == (None, None)
    assert outside["cpus_allowed"] == 8
    assert missing["cgroup.quota_cpus"] == "its cgroups are not visible here"


def test_k21_lxcfs_is_told_and_no_cgroups_are_absent(tmp_path: Path) -> None:
    host = unpack("cpu-only", tmp_path)
    with pytest.raises(Absent, match="no cgroups"):
        read("cgroup", host)
    node = named("cpu", read("cpu", host))["node"]
    assert (node["lxcfs"], node["container"], node["cpus"]) == (1, None, 2)


def test_ranks_that_share_a_cgroup_share_a_row(tmp_path: Path) -> None:
    host = unpack("kubernetes", tmp_path)
    shutil.copytree(tmp_path / "proc/7", tmp_path / "proc/9")
    told, _ = rows(host, rank(7, "0"), rank(9, "1"))
    assert {k: v["ranks"] for k, v in told.items()} == {"/ slurm:1 None": 2}
    told, _ = rows(host, rank(7, "0"), rank(9, "0", group="slurm:2"))
    assert {k: v["ranks"] for k, v in told.items()} == {"/ None None": 2}


def test_more_cgroups_than_are_told_are_counted(tmp_path: Path) -> None:
    host = unpack("kubernetes", tmp_path)
    for pid in range(100, 112):
        (tmp_path / f"proc/{pid}").mkdir()
        (tmp_path / f"proc/{pid}/cgroup").write_text(f"0::/task_{pid}\n")
    told, missing = rows(host, *(rank(pid, str(pid)) for pid in range(100, 112)))
    assert len(told) == 9
    assert missing["cgroup.cgroup"] == "4 more cgroups of the job"


def test_processes_that_are_moved_to_another_cgroup_are_followed(tmp_path: Path) -> None:
    host = unpack("kubernetes", tmp_path)
    pids = range(100, 104)
    for pid in pids:
        (tmp_path / f"proc/{pid}").mkdir()
        (tmp_path / f"proc/{pid}/cgroup").write_text("0::/before\n")
    host.board.job = tuple(rank(pid, str(pid)) for pid in pids)
    source = reader("cgroup", host)

    def told() -> set[str]:
        return {entity.split()[1] for entity in named("cgroup", source.read())}

    assert "/before" in told()
    (tmp_path / "proc/102/cgroup").write_text("0::/after\n")
    assert "/after" in set.union(*(told() for _ in pids))
    shutil.rmtree(tmp_path / "proc/102")
    assert all("/after" in told() for _ in pids)


def test_a_limit_that_is_changed_and_a_cgroup_that_ends_are_seen(tmp_path: Path) -> None:
    host = unpack("kubernetes", tmp_path)
    source = reader("cgroup", host)
    source.read()
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("50000 100000\n")
    quotas = [named("cgroup", source.read())["cgroup / None None"]["quota_cpus"] for _ in range(5)]
    assert (quotas[0], quotas[-1]) == (2.0, 0.5)
    shutil.rmtree(tmp_path / "sys/fs/cgroup")
    rest = [named("cgroup", source.read())["cgroup / None None"] for _ in range(5)][-1]
    assert (rest["quota_cpus"], rest["memory_bytes"]) == (None, None)


@pytest.mark.parametrize(
    ("root", "path", "first"),
    [
        ("/", "/kubepods/burstable/pod1/c1", "/cg/kubepods/burstable/pod1/c1"),
        ("/kubepods/burstable/pod1/c1", "/kubepods/burstable/pod1/c1", "/cg"),
        ("/docker/c1", "/docker/c1/init.scope", "/cg/init.scope"),
        ("/docker/c1", "/docker/c10", None),
        ("/..", "/../sibling", "/cg/sibling"),
        ("/..", "/", None),
        ("/", "/../other", None),
        ("/", "/a/../../etc", None),
        ("/", "/", "/cg"),
    ],
)
def test_a_mount_shows_its_part_of_a_hierarchy(root: str, path: str, first: str | None) -> None:
    mount = cgroups.Mount("/cg", root, frozenset(["memory"]))
    found = cgroups.folders("memory", {"memory": path}, [mount])
    assert (found[0] if found else None) == first
    assert not found or found[-1] == "/cg"


def test_a_mount_point_with_a_space_is_unescaped() -> None:
    line = rb"31 22 0:26 /a\134b /sys/fs/my\040cgroup rw - cgroup2 cgroup2 rw" + b"\n"
    assert cgroups.mounts(line) == [
        cgroups.Mount("/sys/fs/my cgroup", "/a\\b", frozenset(["unified"]))
    ]


def test_a_cgroup_that_was_removed_is_called_by_its_name() -> None:
    assert cgroups.paths(b"0::/job_1 (deleted)\n") == {"unified": "/job_1"}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        (b"max 100000\n", None),
        (b"-1 100000", None),
        (b"150000 100000\n", 1.5),
        (b"1 0", None),
        (b"0 1", None),
        (b"", None),
    ],
)
def test_quotas(text: bytes, cpus: float | None) -> None:
    assert cgroups.quota(text) == cpus


@given(
    st.lists(st.from_regex(r"[a-z_.:\\ ()\u00e9-]{1,12}", fullmatch=True), min_size=1, max_size=40)
)
def test_paths_of_any_names_lead_below_the_mount_and_up_to_it(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    groups = cgroups.paths(f"0::{path}\n".encode())
    found = cgroups.folders("unified", groups, [cgroups.Mount("/cg", "/", frozenset(["unified"]))])
    if {".", ".."} & set(parts):
        assert found == []
    elif not path.endswith(" (deleted)"):
        assert found[0] == "/cg" + path
        assert len(found) == min(len(parts) + 1, cgroups.MAX_DEPTH)
        assert all(below.startswith(above) for below, above in itertools.pairwise(found))


@given(
    text=st.binary(max_size=200),
    where=st.sampled_from(["mountinfo", "cgroup", "file"]),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_no_bytes_raise_anything_but_absent(
    text: bytes, where: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("host")
    host = unpack("kubernetes", root)
    files = {
        "mountinfo": ["proc/self/mountinfo"],
        "cgroup": ["proc/7/cgroup", "proc/self/cgroup", "proc/7/status"],
        "file": [f"sys/fs/cgroup/{file.name}" for file in (root / "sys/fs/cgroup").iterdir()],
    }
    file = root / data.draw(st.sampled_from(sorted(files[where])))
    original = file.read_bytes()
    cut = data.draw(st.integers(0, len(original)))
    file.write_bytes(original[:cut] + text + original[data.draw(st.integers(cut, len(original))) :])
    host.board.job = (rank(7),)
    with contextlib.suppress(Absent):
        assert all(len(values) == 19 for _, _, values in read("cgroup", host).rows)
    shutil.rmtree(root)
