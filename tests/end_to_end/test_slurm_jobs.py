"""A Slurm job that is resized, requeued and ends while it is recorded, as squeue tells of it."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import gpuwatch.recording
from gpuwatch.cli.watch import Watch
from gpuwatch.job.file import read
from gpuwatch.model.event import AnyEvent, Fault, Link, Sample, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.verdict.thresholds import parse
from sshd import processes_with

US = 1_000_000
SQUEUE = '#!/bin/sh\ncat "$0.nodes"\n'
JOB = """\
slurm: 123456
ssh: {{transport: command, command: [env, 'MARK={mark}', 'NODE={{node}}', sh, -c, '{{agent}}']}}
interval: 200ms
"""


class Slurm:
    """A job of Slurm's, whose nodes are what a test says; each node is an agent on this machine."""

    def __init__(self, folder: Path) -> None:
        self._squeue = folder / "squeue"
        self._squeue.write_text(SQUEUE)
        self._squeue.chmod(0o755)
        self._mark = f"MARK={uuid.uuid4().hex}"
        self.file = folder / "job.yaml"
        self.file.write_text(JOB.format(mark=self._mark.removeprefix("MARK=")))

    def has(self, nodes: str) -> None:
        """Let squeue tell of these nodes from now on."""
        new = self._squeue.with_suffix(".new")
        new.write_text(f"{nodes}\n")
        new.replace(f"{self._squeue}.nodes")

    def kill(self, node: str = "") -> None:
        """End what runs on a node, or on each: with a job, its processes go."""
        pids = set(processes_with(self._mark))
        for pid in pids & set(processes_with(f"NODE={node}")) if node else pids:
            os.kill(pid, signal.SIGKILL)


class Seen:
    """A sink that lets a test wait for what it wants to see, in the order in which it comes."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self._taken = 0
        self._news = asyncio.Event()

    def event(self, event: AnyEvent) -> None:
        self.events.append(event)
        self._news.set()

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None: ...

    async def until(self, wanted: Callable[[AnyEvent], bool]) -> AnyEvent:
        """Return the next event that is wanted."""
        while True:
            while self._taken < len(self.events):
                event = self.events[self._taken]
                self._taken += 1
                if wanted(event):
                    return event
            self._news.clear()
            await self._news.wait()

    async def told(self, text: str) -> AnyEvent:
        """Return the next event in which Slurm tells of this."""
        return await self.until(
            lambda e: isinstance(e, Fault) and e.source == "slurm" and text in e.text
        )

    async def samples(self, *nodes: str) -> None:
        """Wait until each of these nodes has sent a sample, from now on."""
        missing = set(nodes)
        while missing:
            event = await self.until(lambda e: isinstance(e, Sample) and e.node in missing)
            missing.discard(getattr(event, "node", ""))


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Slurm(tmp_path)


@asynccontextmanager
async def recorded(slurm: Slurm, folder: Path) -> AsyncIterator[Seen]:
    """Record the job for as long as a block lasts."""
    seen = Seen()
    watch = Watch(read(slurm.file, parse), folder)
    engine = watch.engine((*watch.start(time.time_ns() // 1000, time.monotonic_ns() // 1000), seen))
    try:
        yield seen
    finally:
        await watch.close(engine)


def told_of(recording: Path) -> list[str]:
    """Return what a recording says of the job's nodes."""
    return [
        e.text
        for e in gpuwatch.recording.open(recording).events()
        if isinstance(e, Fault) and e.source == "slurm"
    ]


async def test_a_resize_lets_nodes_join_and_leave_a_running_recording(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.feed.live.ASK_EVERY_S", 0.1)
    slurm.has("gpu[1-2]")
    async with recorded(slurm, tmp_path / "R") as seen:
        await seen.samples("gpu1", "gpu2")
        slurm.has("gpu[1-3]")
        await seen.told("joined: gpu3")
        await seen.samples("gpu1", "gpu3")
        slurm.has("gpu[2-3]")
        slurm.kill("gpu1")
        await seen.told("left: gpu1")
        await seen.samples("gpu2", "gpu3")
    assert told_of(tmp_path / "R") == ["joined: gpu3", "left: gpu1"]
    table = gpuwatch.recording.open(tmp_path / "R").table("node").collect()
    assert set(table["node"]) == {"gpu1", "gpu2", "gpu3"}


async def test_a_job_that_ends_is_told_once_within_5_s_and_a_requeue_takes_it_up_again(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes drop at once, so it is asked at once; then each minute, which is shortened here."""
    slurm.has("gpu[1-3]")
    async with recorded(slurm, tmp_path / "R") as seen:
        await seen.samples("gpu1", "gpu2", "gpu3")
        monkeypatch.setattr("gpuwatch.feed.live.ASK_EVERY_S", 0.1)
        slurm.has("")
        slurm.kill()
        first = await seen.until(lambda e: isinstance(e, Link) and e.state == "lost")
        ended = await seen.told("the job has ended, or waits to run again")
        assert ended.arrived_us - first.arrived_us < 5 * US
        slurm.has("gpu[3-4]")
        await seen.told("joined: ")
        await seen.samples("gpu3", "gpu4")
    assert [text.partition(";")[0] for text in told_of(tmp_path / "R")] == [
        "the job has ended, or waits to run again", "joined: gpu3, gpu4",
    ]  # fmt: skip
    lost = [e for e in seen.events if isinstance(e, Link) and e.arrived_us > ended.arrived_us]
    assert "lost" not in {e.state for e in lost if e.reason != "the job has ended, or waits"}
