"""What the screen is given: a feed, who judges it, who else listens."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpuwatch.engine import Judge, Sink
from gpuwatch.job.types import Cost
from gpuwatch.model.event import AnyEvent
from gpuwatch.model.progress import Expressions
from gpuwatch.tui.past import Portion
from gpuwatch.tui.transport import Transport

__all__ = ["Said", "Session"]


class Said(NamedTuple):
    """How recording goes, in a few words; `ill` where it does not go."""

    words: str
    ill: bool = False


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
        recording: says how recording goes (`rec 12 MB`); None: nothing records.
        played: what a recording that is played is called in the header.
        whole: reads a recording through, as `past.Past.read` wants it; None: nothing was recorded.
        note: takes a note that a person writes, as an event of this moment; None: none is taken.
        retry: tries nodes again that cannot be reached, and returns how many; None: nothing can be.
        cost: of a GPU hour; None: not known.
        group: says which group of the map a node is in; None: its name's pattern does.
        theme: name to start with; None: as the terminal can.
        folders: of theme files beside those that come along.
        ascii: whether the terminal draws ASCII alone.
        expressions: what finds steps in the job's log; None: the job file names none.
    """

    title: str
    nodes: tuple[str, ...]
    interval_s: float
    feed: AsyncIterator[AnyEvent] | Transport
    judge: Judge
    sinks: tuple[Sink, ...] = ()
    recording: Callable[[], Said] | None = None
    played: str = "replay"
    whole: Callable[[], Iterator[Portion]] | None = None
    note: Callable[[str], None] | None = None
    retry: Callable[[], int] | None = None
    cost: Cost | None = None
    group: Callable[[str], str | None] | None = None
    theme: str | None = None
    folders: tuple[Path, ...] = ()
    ascii: bool = False
    expressions: Expressions | None = None

    @property
    def transport(self) -> Transport | None:
        """The feed, if it plays a recording."""
        return self.feed if isinstance(self.feed, Transport) else None
