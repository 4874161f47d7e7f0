"""What the screen reads of a recording beside playing it: all verdicts, and where to begin."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpuwatch.model.event import Tick
from gpuwatch.tui.past import Judged

if TYPE_CHECKING:
    from gpuwatch.recording.reader import Chunk

__all__ = ["first_wait", "judged"]

_WELL = ("COMPUTE", "IDLE", "UNKNOWN")


def judged(chunks: Iterable["Chunk"]) -> Iterator[Judged]:
    """Yield, part by part, all ticks with their verdicts. Each part is read when it is asked for."""
    for chunk in chunks:
        ticks = {e.event_no: e for e in chunk.events if isinstance(e, Tick)}
        yield [(ticks[s.event_no], s.verdict) for s in chunk.shown if s.event_no in ticks]


def first_wait(chunks: Iterable["Chunk"]) -> int | None:
    """Return wall-clock microseconds of the first tick at which the job waited; None if none."""
    for part in judged(chunks):
        for tick, verdict in part:
            if verdict.job.state not in _WELL:
                return tick.wall_us
    return None
