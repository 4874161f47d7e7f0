"""What every command that watches live nodes shares: feed, judge, recorder, who was reached."""

import asyncio
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import platformdirs

from gpuwatch import __version__
from gpuwatch.cli.alerts import Alerts
from gpuwatch.cli.baseline import levels_of
from gpuwatch.cli.jobs import described, nodes_of
from gpuwatch.engine.collector import settle
from gpuwatch.engine.run import Sink, run
from gpuwatch.errors import GpuwatchError, UnreachableError
from gpuwatch.feed.live import Live, Roster
from gpuwatch.job import slurm
from gpuwatch.job.given import named_nodes
from gpuwatch.job.types import Job
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Link, Sample, Tick
from gpuwatch.model.progress import expressions_of
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.recording import Limits, Recorder, Session, create
from gpuwatch.transport.node import Node
from gpuwatch.transport.transports import Transports
from gpuwatch.verdict.judge import Judge, State
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Attendance", "Watch", "folder_of", "until_done"]

SOME_UNREACHABLE = 4


class Attendance:
    """A sink that knows which nodes ever sent a sample, which do now, and why others did not."""

    def __init__(self, names: Sequence[str]) -> None:
        self._came: set[str] = set()
        self._here: set[str] = set()
        self._reasons: dict[str, str] = dict.fromkeys(names, "no answer yet")
        self._given_up: set[str] = set()

    def event(self, event: AnyEvent) -> None:
        """Take one event."""
        if isinstance(event, Sample):
            self._came.add(event.node)
            self._here.add(event.node)
        elif isinstance(event, Link):
            self._reasons.setdefault(event.node, "no answer yet")
            if event.state != "streaming":
                self._here.discard(event.node)
            if event.state == "ended" and event.reason is not None:
                self._reasons.pop(event.node, None)
            elif event.reason is not None:
                hint = f" ({event.hint})" if event.hint else ""
                self._reasons[event.node] = f"{event.reason}{hint}"
            if event.state == "refused":
                self._given_up.add(event.node)

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        """Take nothing of it."""

    @property
    def size(self) -> int:
        """How many nodes the job has, reached or not."""
        return len(self._reasons)

    @property
    def came(self) -> int:
        """How many nodes have sent a sample."""
        return len(self._came)

    @property
    def here(self) -> int:
        """How many nodes send samples now."""
        return len(self._here)

    @property
    def settled(self) -> bool:
        """Whether each node has sent a sample, or will not."""
        return self._came | self._given_up >= self._reasons.keys()

    @property
    def hopeless(self) -> bool:
        """Whether no node has ever come, and none will."""
        return self.settled and not self._came

    def exit_code(self) -> int:
        """Return the exit code that follows from who was reached, telling who was not.

        Raises:
            UnreachableError: no node at all.
        """
        absent = {name: why for name, why in self._reasons.items() if name not in self._came}
        told = "; ".join(f"{name}: {why}" for name, why in list(absent.items())[:3])
        more = f"; and {len(absent) - 3} more" if len(absent) > 3 else ""
        if absent and not self._came:
            raise UnreachableError(f"no node could be reached: {told}{more}")
        if absent:
            line = (
                f"gpuwatch: {len(absent)} of {self.size} nodes could not be reached: {told}{more}"
            )
            print("".join(c if c.isprintable() else "?" for c in line), file=sys.stderr)
            return SOME_UNREACHABLE
        return 0


class Watch:
    """One job, watched: made inside the event loop."""

    def __init__(
        self,
        job: Job,
        folder: Path | None,
        transports: Transports | None = None,
        baseline: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Take a job, where it is recorded (None: nowhere), what was prepared to reach it, levels."""
        self.job = job
        self.names = tuple(node.name for node in job.nodes)
        self._baseline = dict(baseline)
        self.judge = Judge(Thresholds(**job.thresholds), State(baseline=self._baseline))
        self.attendance = Attendance(self.names)
        self.feed = Live(nodes_of(job), job.interval_s, transports, _roster_of(job))
        self.recorder: Recorder | None = None
        self._folder = folder

    @classmethod
    async def opened(
        cls, job: Job, folder: Path | None, transports: Transports | None = None
    ) -> "Watch":
        """Return a watch that begins with the levels of the job's good run, if it names one.

        The recording is read beside the event loop: it may be long, and a screen stands already.

        Raises:
            InputError: it tells no levels, or is no recording.
        """
        path = job.baseline
        levels = {} if path is None else await asyncio.to_thread(levels_of, path)
        return cls(job, folder, transports, levels)

    def start(self, wall_us: int, mono_us: int) -> tuple[Sink, ...]:
        """Begin the recording, if there is to be one; return who takes events."""
        if self._folder is None:
            return self.listeners()
        return (self.record(self._folder, wall_us, mono_us), *self.listeners())

    def listeners(self) -> tuple[Sink, ...]:
        """Return who takes events beside a recorder."""
        settle()
        if self.job.alerts.bell or self.job.alerts.exec:
            return (self.attendance, Alerts(self.job, self._folder, self.feed.note))
        return (self.attendance,)

    def record(self, folder: Path, wall_us: int, mono_us: int) -> Recorder:
        """Begin the recording."""
        facts = Session(
            job=self.job.name,
            nodes=self.names,
            interval_s=self.job.interval_s,
            started_wall_us=wall_us,
            started_mono_us=mono_us,
            version=__version__,
            thresholds=dict(Thresholds(**self.job.thresholds).as_dict()),
            baseline=self._baseline,
            job_file=described(self.job),
        )
        kept = self.job.record
        keep_us = None if kept.keep is None else kept.keep * 1e6
        limits = Limits(max_bytes=kept.max_size, keep_us=keep_us)
        self.recorder = create(folder, facts, state=self.judge.state, limits=limits)
        return self.recorder

    def engine(self, sinks: Sequence[Sink]) -> "asyncio.Task[None]":
        """Start the engine; it ends when `close` was called and all is taken."""
        cluster = Cluster(self.names, self.job.interval_s, expressions_of(described(self.job)))
        return asyncio.create_task(run(self.feed, cluster, self.judge, sinks))

    async def close(self, engine: "asyncio.Task[None]") -> None:
        """End links, take what still waits, seal the recording."""
        await self.feed.close()
        try:
            await engine
        finally:
            await self.release()

    async def release(self) -> None:
        """End links and seal the recording, whatever became of the engine."""
        await self.feed.close()
        if self.recorder is not None:
            await asyncio.to_thread(self.recorder.close)

    def check_recorded(self) -> None:
        """Raise what keeps the recording from being whole, once it is closed.

        Raises:
            GpuwatchError: the disk refused to the end.
        """
        if self.recorder is None or (status := self.recorder.status).paused_reason is None:
            return
        last = status.acknowledged_event_no
        raise GpuwatchError(
            f"{self._folder}: not recorded to the end, only up to event {last}:"
            f" {status.paused_reason}"
        )


def _roster_of(job: Job) -> Roster | None:
    """Return what asks Slurm which nodes the job has now; None: it has those that were named."""
    if job.slurm_id is None:
        return None
    job_id = job.slurm_id

    async def ask() -> tuple[Node, ...]:
        addresses = await asyncio.to_thread(slurm.running, job_id)
        return nodes_of(msgspec.structs.replace(job, nodes=named_nodes(addresses)))

    return ask


def folder_of(job: Job, now: datetime | None = None) -> Path:
    """Return a new recording's place: in the job file's folder, else the user's state folder."""
    base = job.record.dir or platformdirs.user_state_path("gpuwatch")
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", job.name).strip(".-")[:80] or "job"
    return base / name / f"{now or datetime.now(UTC):%Y%m%dT%H%M%SZ}"


@contextmanager
def _stopped_by_signals(stop: asyncio.Event) -> Iterator[list[int]]:
    """Let SIGINT and SIGTERM set `stop`, and yield the list of those that came."""
    loop, came = asyncio.get_running_loop(), list[int]()

    def take(number: int) -> None:
        came.append(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, take, number)
    try:
        yield came
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def until_done(
    engine: "asyncio.Task[Any]", stop: asyncio.Event, seconds: float | None
) -> bool:
    """Wait until `stop` is set, a signal comes, the time is over, or the engine fails.

    Returns:
        Whether a signal ended it.
    """
    with _stopped_by_signals(stop) as came:
        waiting = asyncio.create_task(stop.wait())
        await asyncio.wait({engine, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    return bool(came)
