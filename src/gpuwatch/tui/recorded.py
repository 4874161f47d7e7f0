"""What the screen reads of a recording beside playing it: all verdicts, and where to begin."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpuwatch.model.event import Tick
from gpuwatch.tui.past import Judged

if TYPE_CHECKING:
    from gpuwatch.recording.reader import Chunk, Recording

__all__ = ["first_wait", "judged"]

_WELL = ("COMPUTE", "IDLE", "UNKNOWN")


def judged(chunks: Iterable["Chunk"]) -> Iterator[Judged]:
    """Yield, part by part, all ticks with their verdicts. Each part is read when it is asked for."""
    for chunk in chunks:
        ticks = {e.event_no: e for e in chunk.events if isinstance(e, Tick)}
        yield [(ticks[s.event_no], s.verdict) for s in chunk.shown if s.event_no in ticks]


def first_wait(recording: "Recording") -> int | None:
    """Return wall-clock microseconds of when the job first waited for long enough to be suspected.

    Asked of the few rows that tell of changes, as a recording may be days long; None where there is
    none, or where they cannot be read.
    """
    import polars as pl

    well = pl.col("state").is_in(_WELL) | (pl.col("scope") != "job")
    waits = recording.table("verdict").filter(~well, "suspected")
    try:
        first = waits.select(pl.col("t").min().cast(pl.Int64)).collect().item()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    return None if first is None else int(first)
