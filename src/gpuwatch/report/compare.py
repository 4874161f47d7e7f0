"""Two recordings side by side: what changed for certain, and whether a fix worked."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

import msgspec

from gpuwatch.report.sides import Row, Side
from gpuwatch.report.significance import Difference, difference
from gpuwatch.report.types import required
from gpuwatch.report.words import time_by_word

__all__ = ["Compared", "Comparison", "Recorded", "Renamed", "compare", "schema"]

WORTH = 5.0
"""Per cent of GPU time from which on a wait is worth a fix."""
HALF = 0.5
"""Of a wait: whose loss of so much cannot be ruled out, is not said to be there still."""
_NO_WAIT = {"COMPUTE", "UNKNOWN", "IDLE"}

Outcome = Literal["worked", "partly", "failed", "replaced", "nothing", "unclear"]


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What was compared; `verdicts` is the share of time in each verdict of the job."""

    job: str
    begin: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    nodes: tuple[str, ...]
    gpu_hours: float
    verdicts: dict[str, float]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity on both sides: means of pieces of time, null where it was not read.

    `low` and `high` are the interval, at 99 %, of `after` less `before`; `significant` tells whether
    it leaves out zero and the difference is one to mind. All three are null where too few
    independent pieces of time were seen to tell.
    """

    what: str
    of: str | None
    unit: str
    before: float | None
    after: float | None
    low: float | None
    high: float | None
    significant: bool | None


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    """Two nodes that are taken for one, by their place in the order of names."""

    before: str
    after: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The whole comparison. Times are UTC; every key is always there.

    `outcome` is of what the first side waited on most: `worked` (less than half, and faster), `partly`
    (less, but more than half or not surely faster), `replaced` (less, another wait took its place), `failed` (half of it at least is there still), `nothing` (no
    wait of 5 % of GPU time to fix), `unclear` (it may be chance, or too little was seen to tell).
    """

    format: Literal[1]
    answer: str
    outcome: Outcome
    before: Recorded
    after: Recorded
    rows: tuple[Compared, ...]
    renamed: tuple[Renamed, ...]
    notes: tuple[str, ...]


def compare(before: Side, after: Side) -> Comparison:
    """Compare two sides.

    Args:
        before: without the change.
        after: with it.
    """
    first, second = _recorded(before), _recorded(after)
    renamed: tuple[Renamed, ...] = ()
    notes = []
    if first.nodes != second.nodes:
        pairs = zip(first.nodes, second.nodes, strict=False)
        renamed = tuple(Renamed(before=a, after=b) for a, b in pairs if a != b)
        notes.append("the nodes differ: they are matched by their order")
    if len(first.nodes) != len(second.nodes):
        notes.append(
            f"{len(first.nodes)} nodes before, {len(second.nodes)} after: totals differ by that"
        )
    rows = tuple(_rows(before, after, {pair.before: pair.after for pair in renamed}))
    outcome, answer = _judged(rows)
    return Comparison(
        format=1, answer=answer, outcome=outcome, before=first, after=second, rows=rows,
        renamed=renamed, notes=tuple(notes),
    )  # fmt: skip


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a comparison, with every key required."""
    return required(Comparison)


def _recorded(side: Side) -> Recorded:
    report = side.report
    return Recorded(
        job=report.job,
        begin=report.begin,
        end=report.end,
        nodes=tuple(sorted(report.share)),
        gpu_hours=report.ledger.gpu_hours,
        verdicts=time_by_word(row for row in report.verdicts if row.scope == "job"),
    )


def _rows(before: Side, after: Side, renamed: dict[str, str]) -> Iterator[Compared]:
    """Yield what is compared, in the order of the first side; shares that are small are left out."""
    theirs = dict(after.rows)
    for row, values in before.rows.items():
        same = row
        if row.what == "computing" and row.of in renamed:
            same = row._replace(of=renamed[row.of])
        yield _compared(row, difference(values, _of(same, theirs, after), row.least))
        theirs.pop(same, None)
    taken = set(renamed.values())
    for row, values in theirs.items():
        if not (row.what == "computing" and row.of in taken):
            yield _compared(row, difference(_of(row, {}, before), values, row.least))


def _of(
    row: Row, rows: dict[Row, tuple[float | None, ...]], side: Side
) -> tuple[float | None, ...]:
    """Return a row's values; a wait that never was has a share of zero wherever ranks were judged."""
    if row in rows or row.what != "share":
        return rows.get(row, ())
    judged = next((values for own, values in side.rows.items() if own.what == "share"), ())
    return tuple(None if value is None else 0.0 for value in judged)


def _compared(row: Row, found: Difference) -> Compared:
    return Compared(
        what=row.what, of=row.of, unit=row.unit, before=found.before, after=found.after,
        low=found.low, high=found.high, significant=found.significant,
    )  # fmt: skip


def _judged(rows: tuple[Compared, ...]) -> tuple[Outcome, str]:
    """Return whether what was waited on most before is less now, and a sentence that says so."""
    waits = [r for r in rows if r.what == "share" and r.of is not None and r.of not in _NO_WAIT]
    worst = max(waits, key=lambda row: row.before or 0.0, default=None)
    grown = [
        row
        for row in waits
        if row.significant and (row.after or 0) > (row.before or 0) and (row.after or 0) >= WORTH
    ]
    new = ", ".join(_change(row) for row in grown)
    if worst is None or (worst.before or 0.0) < WORTH:
        said = "The job waited on nothing for long before: there was nothing to fix."
        return "nothing", f"{said} It does now: {new}." if new else said
    change = _change(worst)
    if (
        worst.significant is None
        or worst.before is None
        or worst.after is None
        or worst.low is None
    ):
        return (
            "unclear",
            f"Whether it worked cannot be told: {change}, but too few independent stretches of time were seen.",
        )
    grew = worst.significant and worst.after > worst.before
    if grew or (not worst.significant and worst.low > -HALF * worst.before):
        return "failed", f"It did not work: {change}."
    if not worst.significant:
        return "unclear", f"Whether it worked cannot be told: {change}, which may be chance."
    if grown:
        return "replaced", f"It worked, but another wait took its place: {change}; {new}."
    faster = _faster(rows)
    if faster is None:
        return "partly", f"It helped: {change}; that the job is faster is not certain."
    if worst.after > HALF * worst.before:
        return "partly", f"It helped: {change}; {faster}."
    return "worked", f"It worked: {change}; {faster}."


def _change(row: Compared) -> str:
    return f"{row.of} {row.before or 0.0:.0f} % of GPU time before, {row.after or 0.0:.0f} % after"


def _faster(rows: tuple[Compared, ...]) -> str | None:
    """Return by what the job is surely faster: its own steps, else its computing; None: by nothing."""
    step = next((r for r in rows if r.what == "step"), None)
    if step is not None and step.before is not None and step.after is not None:
        if step.significant and step.after < step.before:
            return f"a step takes {step.after:.3g} s, {step.before:.3g} s before"
        return None
    work = next((r for r in rows if r.what == "share" and r.of == "COMPUTE"), None)
    if work is None or not work.significant or (work.after or 0.0) <= (work.before or 0.0):
        return None
    return f"{work.after:.0f} % of GPU time computes, {work.before:.0f} % before"
