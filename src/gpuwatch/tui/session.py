"""What the screen is given: a feed, who judges it, who else listens."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.engine import Judge, Sink
from gpuwatch.model.event import AnyEvent
from gpuwatch.model.progress import Expressions
from gpuwatch.tui.transport import Transport

__all__ = ["Session"]


@dataclass(frozen=True, slots=True)
class Session:
    """One look at one job, live or from a recording.

    Attributes:
        title: name of the job.
        nodes: names, in the order of the job file.
        interval_s: between ticks.
        feed: events as they come, or a transport, that plays a recording: nothing else tells
            live and replay apart.
        judge: of each tick.
        sinks: who else takes events and verdicts: the recorder, alerts.
        recording: says in a few words how recording goes (`rec 12 MB`); None: nothing records.
        played: what a recording that is played is called in the header.
        changes: returns the moments at which a recording's verdict changed, as `changes.changes`.
        theme: name to start with; None: as the terminal can.
        folders: of theme files beside those that come along.
        expressions: what finds steps in the job's log; None: the job file names none.
    """

    title: str
    nodes: tuple[str, ...]
    interval_s: float
    feed: AsyncIterator[AnyEvent] | Transport
    judge: Judge
    sinks: tuple[Sink, ...] = ()
    recording: Callable[[], str] | None = None
    played: str = "replay"
    changes: Callable[[], Awaitable[Sequence[int]]] | None = None
    theme: str | None = None
    folders: tuple[Path, ...] = ()
    expressions: Expressions | None = None

    @property
    def transport(self) -> Transport | None:
        """The feed, if it plays a recording."""
        return self.feed if isinstance(self.feed, Transport) else None
