"""Ranks and waits of real processes, blocked for real, seen through the live kernel."""

import contextlib
import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.agent.host import Host, Options
from gpuwatch.agent.sources.threads import ROWS, Reader

WORKLOAD = Path(__file__).with_name("workload.py")
SECRET = "hunter2-do-not-tell"
SLEEPERS = {
    "pipe": "pipe", "futex": "futex", "unix": "socket", "tcp": "socket", "poll": "poll",
    "epoll": "poll", "sleep": "sleep",
}  # fmt: skip
NOBODY = 65534

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Job:
    """A running workload.py, whose mark is in its arguments."""

    def __init__(self, folder: Path, *kinds: str, env: dict[str, str] | None = None, uid: int = 0) -> None:  # fmt: skip
        self.mark = f"job-{uuid.uuid4().hex}"
        script = folder / "train.py"
        shutil.copy(WORKLOAD, script)
        other: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": []} if uid else {}
        self._process = subprocess.Popen(
            ["/usr/bin/python3", str(script), self.mark, *kinds, f"--api-key={SECRET}"],
            env={"RANK": "3", "LOCAL_RANK": "1", "API_KEY": SECRET, **(env or {})},
            stdout=subprocess.PIPE,
            **other,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


@contextlib.contextmanager
def job(*kinds: str, env: dict[str, str] | None = None, uid: int = 0) -> Iterator[Job]:
    folder = Path(f"/tmp/gpuwatch-job-{uuid.uuid4().hex}")
    folder.mkdir(mode=0o755)
    running = Job(folder, *kinds, env=env, uid=uid)
    try:
        yield running
    finally:
        running.end()
        shutil.rmtree(folder)


def watch(match: str | None) -> Reader:
    return Reader(Host(options=Options(match=match)))


def tables(reader: Reader) -> dict[str, Any]:
    """Read once; rows by scope, as dictionaries."""
    reading = reader.read()
    found: dict[str, Any] = {"thread_group": [], "thread_wait": [], "missing": reading.missing}
    for scope, labels, values in reading.rows:
        names = [row.name for row in ROWS if row.scope == scope]
        found[scope].append(dict(zip(names, (*labels, *values), strict=True)))
    return found


def until(reader: Reader, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Sample and read until something holds."""
    deadline = time.monotonic() + 15
    found = tables(reader)
    while not holds(found):
        assert time.monotonic() < deadline, f"never came; last: {found}"
        reader.sample()
        time.sleep(0.02)
        found = tables(reader)
    return found


def waits(found: dict[str, Any], role: str) -> dict[str, int]:
    """Samples by family of one role."""
    counts: dict[str, int] = {}
    for row in found["thread_wait"]:
        if row["role"] == role:
            counts[row["wait"]] = counts.get(row["wait"], 0) + row["wait_samples"]
    return counts


@pytest.mark.parametrize("by_stack", [pytest.param(True, marks=root_only), False])
def test_where_blocked_loaders_wait(by_stack: bool) -> None:
    with job(*SLEEPERS) as running:
        reader = watch(running.mark)
        reader._access.stack = by_stack

        def settled(found: dict[str, Any]) -> bool:
            return waits(found, "loader").keys() >= set(SLEEPERS.values())

        found = until(reader, settled)
        before, forked = waits(found, "loader"), waits(found, "main")
        for _ in range(40):
            reader.sample()
        found = tables(reader)
        after = waits(found, "loader")
        threads = {"pipe": 1, "futex": 1, "socket": 2, "poll": 2, "sleep": 1}
        for wait, count in threads.items():  # those that sleep on are counted up to 4 samples later
            assert abs(after[wait] - before[wait] - 40 * count) <= 4 * count
        # What the main thread did while it forked came before.
        grown = {wait for wait, n in waits(found, "main").items() if n > forked.get(wait, 0)}
        assert grown == {"process"}
        assert found["missing"] == {}
        [main] = [row for row in found["thread_group"] if row["role"] == "main"]
        assert main["group"] == f"match:{running.mark}"
        assert (main["rank"], main["pid"], main["threads"], main["gpu"]) == ("3", running.pid, 1, 1)
        [loaders] = [row for row in found["thread_group"] if row["role"] == "loader"]
        assert (loaders["threads"], loaders["sampled_threads"], loaders["pid"]) == (
            7,
            7,
            running.pid,
        )
        reader.close()
        assert reader.host.kept == 1  # /proc/stat


def test_a_spinning_loader_runs_or_is_ready() -> None:
    with job("spin") as running:
        reader = watch(running.mark)
        began = time.monotonic()
        found = until(reader, lambda f: sum(waits(f, "loader").values()) >= 30)
        [loader] = [row for row in found["thread_group"] if row["role"] == "loader"]
        passed_ns = (time.monotonic() - began) * 1e9
        assert waits(found, "loader").keys() <= {"run", "ready"}
        assert waits(found, "loader")["run"] > 0
        assert 0 < loader["run_ns"] <= passed_ns * 1.1
        assert loader["run_ns"] + loader["delay_ns"] >= passed_ns * 0.5


def test_a_direct_reader_waits_for_a_block_device() -> None:
    with job("direct") as running:
        reader = watch(running.mark)
        found = until(reader, lambda f: "block-read" in waits(f, "loader"))
        found = until(reader, lambda f: f["thread_group"][1]["storage_read_bytes"] > 0)
        assert found["thread_group"][1]["role"] == "loader"


def test_checkpoint_process_has_its_role() -> None:
    with job("checkpoint", "pipe") as running:
        found = until(
            watch(running.mark),
            lambda f: waits(f, "checkpoint").get("sleep") and waits(f, "loader").get("pipe"),
        )
        roles = {row["role"]: row["threads"] for row in found["thread_group"]}
        assert roles == {"main": 1, "loader": 1, "checkpoint": 1}


def test_gpu_state_splits_waits() -> None:
    with job("pipe", env={"CUDA_VISIBLE_DEVICES": "4,6"}) as running:
        reader = watch(running.mark)
        until(reader, lambda f: waits(f, "loader").get("pipe"))
        for util in (10, 90, None):
            reader.host.board.gpu_util = {6: util}
            reader.sample()
        found = tables(reader)
        states = [r["while_gpu"] for r in found["thread_wait"] if r["role"] == "loader"]
        assert set(states) == {"idle", "busy", "unknown"}
        assert {row["gpu"] for row in found["thread_group"]} == {6}


def test_gpu_of_nvml_wins_and_finds_the_job_without_match() -> None:
    with job("pipe", env={"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}) as running:
        reader = watch(None)
        reader.host.board.gpu_pids = {running.pid: (5,)}
        found = tables(reader)
        assert [(r["group"], r["rank"], r["gpu"], r["role"]) for r in found["thread_group"]] == [
            ("rdzv:10.0.0.1:29500", "3", 5, "main"),
            ("rdzv:10.0.0.1:29500", "3", 5, "loader"),
        ]


@pytest.mark.parametrize(
    ("env", "group", "rank"),
    [
        ({"SLURM_JOB_ID": "77", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "slurm:77", "3"),
        ({"RANK": ""}, None, "local:1"),
        ({"RANK": "[/b]", "LOCAL_RANK": "x;y"}, None, "pid"),
    ],
)
def test_names_of_ranks(env: dict[str, str], group: str | None, rank: str) -> None:
    with job(env=env) as running:
        found = tables(watch(running.mark))
        [main] = found["thread_group"]
        assert main["group"] == (group or f"match:{running.mark}")
        assert main["rank"] == (f"pid:{running.pid}" if rank == "pid" else rank)
        assert 0 <= main["age_s"] <= 60  # it was just started


def test_a_rank_that_ended_is_gone_and_a_new_one_found() -> None:
    with job("pipe") as first:
        reader = watch(first.mark)
        until(reader, lambda f: waits(f, "loader"))
        first.end()
        found = until(reader, lambda f: not f["thread_group"])
        assert found["missing"]["threads"].startswith("no process of the job")


def test_own_processes_are_no_job() -> None:
    with job() as running:
        reader = watch(running.mark)
        reader.host.board.own_pids.add(running.pid)
        assert tables(reader)["thread_group"] == []


def test_counters_never_decrease_over_ends_and_starts() -> None:
    env = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    with job("spin", env=env) as first:
        reader = watch(first.mark)
        before = until(reader, lambda f: waits(f, "loader").get("run", 0) >= 5)
        first.end()
        until(reader, lambda f: not f["thread_group"])
    with job("spin", env=env) as second:
        reader._census._match = watch(second.mark)._census._match
        after = until(reader, lambda f: f["thread_group"])
        assert waits(after, "loader")["run"] >= waits(before, "loader")["run"]


def test_nothing_secret_is_in_a_reading() -> None:
    with job() as running:
        assert SECRET.encode() in Path(f"/proc/{running.pid}/cmdline").read_bytes()
        assert SECRET.encode() in Path(f"/proc/{running.pid}/environ").read_bytes()
        reader = watch(running.mark)
        reader.sample()
        reading = reader.read()
        assert reading.rows
        assert SECRET not in repr(reading)


def as_user(uid: int, look: Callable[[], Any]) -> Any:
    """Call something in a process of another user and return its answer."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        answer: Any = "it raised"
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            answer = look()
        finally:
            os.write(theirs, json.dumps(answer).encode())
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answers:
        text = answers.read()
    os.waitpid(pid, 0)
    return json.loads(text)


@root_only
def test_another_user_sees_states_and_says_what_it_may_not_read() -> None:
    with job("pipe", "spin") as running:

        def look() -> Any:
            reader = watch(running.mark)
            return until(reader, lambda f: len(waits(f, "loader")) >= 2)

        found = as_user(NOBODY, look)
        assert waits(found, "loader").keys() <= {"unknown", "run", "ready"}
        assert found["missing"]["threads.wchan"] == "not permitted (uid 0)"
        assert found["missing"]["threads.io"] == "not permitted"
        [main] = [row for row in found["thread_group"] if row["role"] == "main"]
        assert main["rank"] == f"pid:{running.pid}"  # the environment is hidden
        assert main["storage_read_bytes"] is None


@root_only
def test_the_jobs_own_user_reads_wchan() -> None:
    with job("pipe", "futex", uid=NOBODY) as running:

        def look() -> Any:
            reader = watch(running.mark)
            return until(reader, lambda f: waits(f, "loader").keys() >= {"pipe", "futex"})

        found = as_user(NOBODY, look)
        assert found["missing"] == {}
        assert {row["rank"] for row in found["thread_group"]} == {"3"}
