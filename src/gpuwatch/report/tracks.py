"""What a page's pictures show: lanes of verdicts and lines of what was measured, no more than fit."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from gpuwatch.model.verdict import LETTERS, State
from gpuwatch.report.pictures import DASHES, Band, Lane, Line, Shade, Span
from gpuwatch.report.series import Bins, Series
from gpuwatch.report.types import Report, Stretch
from gpuwatch.report.words import waits_of

__all__ = ["Drawn", "Tracks", "blamed", "drawn", "shades", "tracks"]

MOST_LANES = 64
MOST_CLEAR = 12
"""Lines that stand out, and"""
MOST_OTHERS = 6
"""others: more are drawn as their range."""
PIECES = 300
"""Of a lane; what is shorter than one of them is drawn as what took most of its time."""


class Tracks(NamedTuple):
    """Lanes, and of how many nodes and ranks there was no room for one."""

    lanes: list[Lane]
    left_out: int


class Drawn(NamedTuple):
    """Lines with who they are: those that stand out, each by its dash; the others, or their range."""

    lines: list[Line]
    clear: dict[str, int]
    others: list[str]
    band: Band | None


def tracks(report: Report, span: Span) -> Tracks:
    """Return the job's lane, then each node with its ranks; of many, those that waited most."""
    rows: dict[tuple[str | None, ...], list[Stretch]] = {}
    for row in report.verdicts:
        rows.setdefault(
            (row.node, row.rank, row.group if row.scope == "rank" else None), []
        ).append(row)
    rows = _joined(rows)
    keys = sorted(rows, key=lambda key: tuple(part or "" for part in key))
    if len(keys) > MOST_LANES:
        keys = [key for key in keys if key[1] is None]
    if len(keys) > MOST_LANES:
        worst = sorted(keys[1:], key=lambda key: _working(rows[key]))[: MOST_LANES - 1]
        keys = [keys[0], *sorted(worst)]
    lanes = [Lane(_name(key), key[1] is None, tuple(_pieces(rows[key], span))) for key in keys]
    return Tracks(lanes, len(rows) - len(keys))


def _joined(
    rows: dict[tuple[str | None, ...], list[Stretch]],
) -> dict[tuple[str | None, ...], list[Stretch]]:
    """Return lanes with those of a rank joined that was of one group after the other."""
    named: dict[tuple[str | None, ...], list[tuple[str | None, ...]]] = {}
    for key in rows:
        named.setdefault(key[:2], []).append(key)
    found: dict[tuple[str | None, ...], list[Stretch]] = {}
    for keys in named.values():
        there = sorted(
            (row for key in keys for row in rows[key] if row.confidence is not None),
            key=lambda row: row.begin,
        )
        apart = all(before.end <= after.begin for before, after in pairwise(there))
        found |= {keys[0]: there} if len(keys) > 1 and apart else {key: rows[key] for key in keys}
    return found


def shades(report: Report, span: Span) -> list[Shade]:
    """Return the times in which the job waited."""
    return [
        Shade(_seconds(row.begin, span), _seconds(row.end, span), row.state.lower())
        for row in waits_of(report)
    ][:PIECES]


def blamed(rows: Iterable[Stretch]) -> set[str]:
    """Return the nodes that are to blame for some stretches: not those that share what is slow."""
    return {
        node
        for row in rows
        for culprit in row.culprits
        if culprit.kind in ("node", "rank", "gpu", "port", "path")
        for node in culprit.nodes
    }


def drawn(found: Sequence[Series], bins: Bins, span: Span, guilty: set[str], ink: str) -> Drawn:
    """Return lines: those to blame in an ink and above the others, of which many become a range.

    Where no node is to blame the highest stand out.

    Args:
        found: what was measured.
        bins: when.
        span: of the picture.
        guilty: nodes that are to blame.
        ink: of these.
    """
    some = [series for series in found if any(value is not None for value in series.values)]
    ordered = sorted(some, key=lambda s: (s.node in guilty, _highest(s)))
    clear = [s for s in ordered if s.node in guilty][-MOST_CLEAR:] if guilty else ordered[-DASHES:]
    others = [series for series in ordered if series not in clear]
    names = sorted(map(_called, clear))
    dashes = {name: min(number, DASHES - 1) for number, name in enumerate(names)}
    times = _times(bins, span)
    made = (
        []
        if len(others) > MOST_OTHERS
        else [_line(series, times, "dim", None) for series in others]
    )
    made += [_line(series, times, ink, dashes[_called(series)]) for series in clear]
    band = _band(others, times) if len(others) > MOST_OTHERS else None
    return Drawn(made, dashes, sorted(map(_called, others)), band)


def _line(series: Series, times: list[float], ink: str, dash: int | None) -> Line:
    return Line(tuple(zip(times, series.values, strict=True)), ink, dash)


def _band(some: Sequence[Series], times: list[float]) -> Band:
    """Return the lowest, the middle and the highest of some series; None where none was read."""
    points = []
    for at, column in zip(times, zip(*(s.values for s in some), strict=True), strict=True):
        known = [value for value in column if value is not None]
        points.append((at, (min(known), median(known), max(known)) if known else None))
    return Band(tuple(points), "dim")


def _times(bins: Bins, span: Span) -> list[float]:
    """Return the middle of each bin, in seconds from the start of a picture."""
    first = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=bins.begin_us)
    start_s, width_s = _seconds(first, span), bins.width_us / 1e6
    return [start_s + (number + 0.5) * width_s for number in range(bins.number)]


def _called(series: Series) -> str:
    return " ".join(filter(None, (series.node, series.entity)))


def _highest(series: Series) -> float:
    return max(value for value in series.values if value is not None)


def _name(key: tuple[str | None, ...]) -> str:
    node, rank, _ = key
    if node is None:
        return "job"
    name = node if rank is None else f"rank {rank}"
    return name if len(name) <= 16 else f"{name[:15]}\N{HORIZONTAL ELLIPSIS}"


def _working(rows: list[Stretch]) -> float:
    return sum((r.end - r.begin).total_seconds() for r in rows if r.state == "COMPUTE")


def _seconds(at: datetime, span: Span) -> float:
    return (at - span.begin).total_seconds()


def _pieces(rows: list[Stretch], span: Span) -> Iterator[tuple[float, float, str, str]]:
    """Yield what is drawn of a lane; states are joined that follow each other."""
    spans = [(_seconds(r.begin, span), _seconds(r.end, span), r.state) for r in rows]
    if len(spans) > PIECES:
        spans = list(_coarse(spans, span.seconds))
    begin, end, state = spans[0]
    for next_begin, next_end, following in spans[1:]:
        if following == state and next_begin <= end:
            end = next_end
            continue
        yield begin, end, state.lower(), LETTERS[state]
        begin, end, state = next_begin, next_end, following
    yield begin, end, state.lower(), LETTERS[state]


def _coarse(
    spans: list[tuple[float, float, State]], seconds: float
) -> Iterator[tuple[float, float, State]]:
    """Yield equal pieces, each of the state that took most of its time."""
    width, place = seconds / PIECES, 0
    for number in range(PIECES):
        begin, end = number * width, (number + 1) * width
        spent: dict[State, float] = {}
        while place < len(spans):
            first, last, state = spans[place]
            spent[state] = spent.get(state, 0.0) + min(last, end) - max(first, begin)
            if last >= end:
                break
            place += 1
        yield begin, end, max(spent, key=lambda state: spent[state])
