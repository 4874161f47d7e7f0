"""The writer of a recording: a sink with its own threads that never holds up the engine.

Events wait in a bounded queue. One thread appends them to the log and makes them durable each
second; a second one seals closed logs. While the disk refuses or does not answer, the queue
fills; what then no longer fits is counted, and told in the recording by a fault in its place.
"""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from gpuwatch.errors import RecordingError
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.recording import session, wal
from gpuwatch.recording.limits import USUAL, Limits
from gpuwatch.recording.manifest import Manifest
from gpuwatch.recording.record import JudgeState, Shown
from gpuwatch.recording.sealer import Sealer
from gpuwatch.recording.store import LOCK
from gpuwatch.recording.writer import Writer

__all__ = ["Recorder", "Status", "create"]

_SLOW = "the disk does not keep up"


class Status(msgspec.Struct, frozen=True):
    """How the recording stands.

    Attributes:
        bytes: on disk, logs and segments.
        segments: sealed so far.
        acknowledged_event_no: up to here all is durable; -1 before the first.
        paused_reason: what keeps it from being written or sealed, in words; None while all is well.
        lost_events: that came while the queue was full.
    """

    bytes: int
    segments: int
    acknowledged_event_no: int
    paused_reason: str | None
    lost_events: int


class _Loss(msgspec.Struct):
    """Events that found no room: the first, the last, how many, and why."""

    first: AnyEvent
    last: AnyEvent
    reason: str
    count: int = 1

    def fault(self) -> Fault:
        """Tell the loss in place of the first lost event, whose number is free."""
        seconds = max(0, self.last.arrived_us - self.first.arrived_us) / 1e6
        return Fault(
            event_no=self.first.event_no,
            arrived_us=self.first.arrived_us,
            wall_us=self.first.wall_us,
            node=None,
            source="recording",
            text=f"{self.count} events in {seconds:.1f} s were not recorded: {self.reason}",
        )


def create(
    directory: Path,
    facts: session.Session,
    state: Callable[[], bytes] | None = None,
    limits: Limits = USUAL,
) -> "Recorder":
    """Begin a recording in a directory that does not hold one yet.

    Args:
        directory: made, with its parents, when it is not there.
        facts: of the session.
        state: returns the judge's state; called from `judged` and `close` only.
        limits: of logs, segments and the queue.

    Raises:
        RecordingError: when the directory holds a recording or anything else, or cannot be
            written.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = {path.name for path in directory.iterdir()} - {LOCK}
        if held and session.FILE not in held:
            raise RecordingError(f"{directory}: is not empty", "name another directory")
        lock = _lock(directory)
        try:
            writer = _begin(directory, facts, limits)
        except BaseException:
            os.close(lock)
            raise
    except OSError as error:
        raise RecordingError(f"{directory}: cannot record here: {error.strerror}") from None
    return Recorder(directory, lock, writer, state, limits)


def _begin(directory: Path, facts: session.Session, limits: Limits) -> Writer:
    if (directory / session.FILE).exists():
        raise RecordingError(f"{directory}: holds a recording already", "name another directory")
    (directory / "wal").mkdir(mode=0o700, exist_ok=True)
    (directory / "seg").mkdir(mode=0o700, exist_ok=True)
    first = wal.Log(wal.path(directory, 1))
    lines = Manifest(directory)
    session.store(directory, facts)
    session.sync_directory(directory.parent)
    return Writer(directory, first, Sealer(directory, lines, limits), 2 * limits.seal_bytes)


def _lock(directory: Path) -> int:
    """Take the writer's lock; the kernel lets go of it when the writer dies."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RecordingError(
            f"{directory}: another gpuwatch records here", "name another directory"
        ) from None
    return descriptor


class Recorder:
    """Writes what it is given; made by `create`. To be called from one thread."""

    def __init__(
        self,
        directory: Path,
        lock: int,
        writer: Writer,
        state: Callable[[], bytes] | None,
        limits: Limits,
    ) -> None:
        self.directory = directory
        self._lock = lock
        self._writer = writer
        self._state = state
        self._limits = limits
        self._loss: _Loss | None = None
        self._lost_events = 0
        self._standing: dict[tuple[str, type], Hello | Link] = {}
        self._began_us: int | None = None
        self._last_tick: Tick | None = None
        self._closed = False

    @property
    def status(self) -> Status:
        """How it stands, at once."""
        reason = self._writer.reason or self._writer.sealer.reason
        if reason is None and self._full:
            reason = _SLOW
        return Status(
            bytes=self._writer.log_bytes + self._writer.sealer.bytes,
            segments=self._writer.sealer.segments,
            acknowledged_event_no=self._writer.acknowledged_event_no,
            paused_reason=reason,
            lost_events=self._lost_events,
        )

    def event(self, event: AnyEvent) -> None:
        """Take one event, in order."""
        if self._closed:
            return
        if isinstance(event, Hello | Link):
            self._standing[event.node, type(event)] = event
        if self._full:
            self._lose(event)
            return
        self._tell_loss()
        if self._began_us is None:
            self._began_us = event.arrived_us
        self._writer.put(event)

    def judged(self, tick: Tick, _view: View, verdict: JobVerdict) -> None:
        """Take the verdict of the tick that came just before; end the log when it is time."""
        if self._closed or self._loss is not None:
            return
        self._last_tick = tick
        self._writer.put(Shown(event_no=tick.event_no, wall_us=tick.wall_us, verdict=verdict))
        began_us = tick.arrived_us if self._began_us is None else self._began_us
        old = tick.arrived_us - began_us >= self._limits.seal_us
        if old or self._writer.log_bytes >= self._limits.seal_bytes:
            self._end_log(tick)

    @property
    def _full(self) -> bool:
        # Behind an event come a tick's verdict and a judge state: there is always room for them.
        return self._writer.waiting >= self._limits.queue - 3

    def close(self) -> None:
        """Write and seal what is left, and let go; blocks for the disk, not for a dead one."""
        if self._closed:
            return
        self._closed = True
        if self._last_tick is not None:
            self._end_log(self._last_tick)
        self._tell_loss()
        self._writer.close()
        os.close(self._lock)

    def _end_log(self, tick: Tick) -> None:
        """Put the judge's state, with which a log ends, and what stands besides."""
        self._began_us = self._last_tick = None
        self._writer.put(
            JudgeState(
                event_no=tick.event_no,
                arrived_us=tick.arrived_us,
                wall_us=tick.wall_us,
                state=self._state() if self._state is not None else b"",
                standing=tuple(self._standing.values()),
            )
        )

    def _lose(self, event: AnyEvent) -> None:
        self._lost_events += 1
        if self._loss is None:
            self._loss = _Loss(event, event, self._writer.reason or _SLOW)
        else:
            self._loss.last = event
            self._loss.count += 1

    def _tell_loss(self) -> None:
        if self._loss is not None:
            self._writer.put(self._loss.fault())
            self._loss = None
