"""One side of a comparison: a report, and its quantities in equal pieces of time."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gpuwatch.model.expression import Expression
from gpuwatch.model.progress import expressions_of
from gpuwatch.report.activity import computing
from gpuwatch.report.ledger import Bookings
from gpuwatch.report.series import QUANTITIES, Bins, collected, measured
from gpuwatch.report.timeline import Moments, Said
from gpuwatch.report.types import Report

if TYPE_CHECKING:
    from gpuwatch.recording.reader import Recording

__all__ = ["PIECES", "PIECE_S", "Observer", "Row", "Side", "pieces"]

PIECE_S = 10.0
"""Length of a piece at least;"""
PIECES = 360
"""of a long recording there are so many."""

Values = tuple[float | None, ...]


class Row(NamedTuple):
    """What is compared: `what` of `of`, in a unit; a difference of `least` is minded."""

    what: str
    of: str | None
    unit: str
    least: float


class Side(NamedTuple):
    """A report, and the values of each row, one a piece of time."""

    report: Report
    rows: Mapping[Row, Values]


def pieces(begin_us: int, end_us: int) -> Bins:
    """Return the pieces of a time; what is left over at its end is in none."""
    span_us = end_us - begin_us
    width_us = round(max(PIECE_S * 1e6, span_us / PIECES))
    return Bins(begin_us, width_us, max(1, span_us // width_us))


class Observer:
    """Takes what ticks tell, for the rows of one side.

    Args:
        bins: of wall-clock time.
        interval_s: between ticks.
    """

    def __init__(self, bins: Bins, interval_s: float) -> None:
        self._bins = bins
        self._moments = Moments(interval_s)
        self._bookings = Bookings()
        self._spent: list[defaultdict[str, float]] = [
            defaultdict(float) for _ in range(bins.number)
        ]
        self._slow: list[list[float]] = [[] for _ in range(bins.number)]

    def watched(self, said: Iterable[Said]) -> Iterator[Said]:
        """Yield what ticks said as it comes, taking each in on the way."""
        for one in said:
            place = (one.wall_us - self._bins.begin_us) // self._bins.width_us
            inside = 0 <= place < self._bins.number
            if inside and one.slowdown is not None:
                self._slow[place].append(one.slowdown)
            for moment in self._moments.take(one):
                if moment.said is None:
                    continue
                self._bookings.say(moment.said.changed)
                for name, ranks in self._bookings.count.items() if inside else ():
                    self._spent[place][name] += ranks * moment.hours
            yield one

    def side(self, report: Report, recording: "Recording") -> Side:
        """Return the side, once all ticks were taken.

        Args:
            report: of the same ticks.
            recording: that they are of.

        Raises:
            RecordingError: it cannot be read.
        """
        rows: dict[Row, Values] = {
            Row("share", name, "%", 2.0): self._share(name) for name in report.ledger.by
        }
        rows[Row("step", None, "s", 0.0)] = _steps(recording, self._bins)
        rows[Row("slowdown", None, "x", 0.0)] = tuple(
            sum(found) / len(found) if found else None for found in self._slow
        )
        for series in computing(recording.table("activity"), self._bins):
            rows[Row("computing", series.node, "%", 2.0)] = series.values
        for quantity in QUANTITIES:
            for series in measured(recording, quantity, self._bins, by_node=False):
                row = Row(quantity.name, series.entity, quantity.unit, quantity.floor / 2)
                rows[row] = series.values
        return Side(report, rows)

    def _share(self, name: str) -> Values:
        totals = [sum(spent.values()) for spent in self._spent]
        return tuple(
            spent.get(name, 0.0) / total * 100 if total else None
            for spent, total in zip(self._spent, totals, strict=True)
        )


def _steps(recording: "Recording", bins: Bins) -> Values:
    """Return how long a step takes, in seconds, as the job's log tells it."""
    found: list[float | None] = [None] * bins.number
    asked = expressions_of(recording.session.job_file)
    if asked is None:
        return tuple(found)
    import polars as pl

    rows = collected(
        recording.table("progress")
        .filter((pl.col("expression") == "step") & (pl.col("node") == asked.node))
        .select(pl.col("t").dt.epoch("us"), "line")
    )
    expression, last = Expression(asked.step), None
    steps: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for at_us, line in rows.iter_rows():
        place = (at_us - bins.begin_us) // bins.width_us
        if line == last or not 0 <= place < bins.number:
            continue
        last = line
        step = expression.number(line)
        if step is not None:
            steps[place].append((at_us, step))
    for place, seen in steps.items():
        (begin_us, first), (end_us, final) = seen[0], seen[-1]
        if final > first:
            found[place] = (end_us - begin_us) / 1e6 / (final - first)
    return tuple(found)
