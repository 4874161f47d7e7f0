"""What the screen reads of a recording beside playing it: all verdicts, and where to begin."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpuwatch.report.told import Told
from gpuwatch.tui.past import Portion

if TYPE_CHECKING:
    from gpuwatch.recording.reader import Recording

__all__ = ["first_wait", "told"]

TICKS = 600
"""That are read at once."""

_WELL = ("COMPUTE", "IDLE", "UNKNOWN")


def told(recording: "Recording") -> Iterator[Portion]:
    """Yield what all ticks said, some at once. They are read when they are asked for."""
    ticks = Told(recording.told(()), range(2**63)).said()
    while portion := list(islice(ticks, TICKS)):
        yield portion


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
