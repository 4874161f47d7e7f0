"""What the screen is given: a feed, who judges it, who else listens."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpuwatch.engine import Judge, Sink
from gpuwatch.model.event import AnyEvent
from gpuwatch.tui.transport import Transport

__all__ = ["Session"]


@dataclass(frozen=True, slots=True)
class Session:
    """One look at one job, live or from a recording.

    Attributes:
        title: name of the job.
        nodes: names, in the order of the job file.
        interval_s: between ticks.
        feed: of events; live and replay differ in nothing else but `transport`.
        judge: of each tick.
        sinks: who else takes events and verdicts: the recorder, alerts.
        transport: steers the feed, if it plays a recording.
        recording: says in a few words how recording goes (`rec 12 MB`); None: nothing records.
        theme: name to start with; None: as the terminal can.
        folders: of theme files beside those that come along.
    """

    title: str
    nodes: tuple[str, ...]
    interval_s: float
    feed: AsyncIterator[AnyEvent]
    judge: Judge
    sinks: tuple[Sink, ...] = ()
    transport: Transport | None = None
    recording: Callable[[], str] | None = None
    theme: str | None = None
    folders: tuple[Path, ...] = field(default=())
