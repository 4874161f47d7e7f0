"""How much of their time GPUs computed, node by node, in equal bins, as the verdicts tell it."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.recording import Shown
from gpuwatch.report.series import Bins, Series, collected

if TYPE_CHECKING:
    import polars as pl

__all__ = ["computing", "told"]

TOLD = 0.5
"""Share of the time that may be unknown where a share of computing is told."""


def computing(rows: "pl.LazyFrame", bins: Bins) -> list[Series]:
    """Return the share of time in compute of each node, in per cent.

    Args:
        rows: of a recording's table `activity`.
        bins: of wall-clock time.

    Raises:
        RecordingError: the rows cannot be read.
    """
    import polars as pl

    place = (pl.col("t").dt.epoch("us") - bins.begin_us) // bins.width_us
    means = collected(
        rows.filter(pl.col("unknown") <= TOLD)
        .group_by("node", place.alias("bin"))
        .agg(pl.col("compute").mean() * 100)
        .filter(pl.col("bin").is_between(0, bins.number, closed="left"))
    )
    found: defaultdict[str, list[float | None]] = defaultdict(lambda: [None] * bins.number)
    for node, number, percent in means.select("node", "bin", "compute").iter_rows():
        found[node][number] = percent
    return [Series(node, None, tuple(values)) for node, values in sorted(found.items())]


def told(judged: Iterable[tuple[Tick, JobVerdict]]) -> "pl.LazyFrame":
    """Return what whole verdicts tell, as a recording's table `activity` has it."""
    import polars as pl

    from gpuwatch.recording.frames import frames
    from gpuwatch.recording.schema import schema

    shown = (Shown(event_no=t.event_no, wall_us=t.wall_us, verdict=v) for t, v in judged)
    return frames(shown).get("activity", pl.DataFrame(schema=schema("activity"))).lazy()
