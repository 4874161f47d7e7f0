"""The ledger: what the GPU time went into, what that cost, what the job would gain without it."""

from collections.abc import Mapping

from gpuwatch.job.types import Cost
from gpuwatch.report.types import Ledger
from gpuwatch.tui.paint.numbers import duration, number, percent
from gpuwatch.tui.paint.spans import Line, Span, clip, fit, safe, wrap

__all__ = ["ledger"]

NAME = 22
HOURS = 12
SHARE = 8
MONEY = 16
GAIN = 32
LEAST_BAR = 8
MOST_BAR = 40
WORTH = 1.005
"""A gain that is worth a word."""
BOOKED = """
A rank that waits for another is booked on what that one waits for. What would be gained is the most:
another wait may hide behind the one that goes away."""
USUAL = """
For reference, what is often seen elsewhere: waits for exchanges 30 to 40 % at a thousand GPUs, waits
for data 15 to 25 % where nothing was tuned; the GPUs' real use is often under 60 %."""


def ledger(
    booked: Ledger, hours: float, cost: Cost | None, cells: int, *, whole: bool
) -> list[Line]:
    """Return the page.

    Args:
        booked: what GPU time went into.
        hours: of watching.
        cost: of a GPU hour; None: not known.
        cells: width of the page.
        whole: whether all of the recording has been read.
    """
    reading: Line = () if whole else (("  still reading the recording", "warn"),)
    total = booked.gpu_hours
    if not total or not hours:
        return [(), ((" nothing is booked yet: no rank was judged", "dim"), *reading)]
    gpus = total / hours
    price = "" if cost is None else f" · {cost.gpu_hour:g} {safe(cost.currency)} a GPU hour"
    lines: list[Line] = [
        (),
        (
            (f" {_hours(total)} GPU hours", "strong"),
            (f" in {duration(hours * 3.6e9)}, {number(gpus)} GPUs{price}", "dim"),
            *reading,
        ),
        (),
    ]
    bar = _bar_cells(cells, priced=booked.amount is not None)
    lines.append(_heading(bar, priced=booked.amount is not None))
    gained = booked.gain
    for name, spent in sorted(booked.by.items(), key=lambda entry: (-entry[1], entry[0])):
        lines.append(_row(booked, name, spent, gained, gpus, bar))
    if booked.unseen:
        lines.append(_row(booked, "not seen", booked.unseen, {}, gpus, bar))
    for text in (_price(cost), BOOKED, USUAL):
        lines += [
            (),
            *(
                ((f" {row}", "dim"),)
                for row in wrap(" ".join(text.split()), min(cells - 2, 100), 4)
            ),
        ]
    return [clip(line, cells) for line in lines]


def _price(cost: Cost | None) -> str:
    if cost is None:
        return "For money: cost: {gpu_hour: 2.10, currency: USD} in the job file."
    return "Money is the price of the GPU hours that were not computed in."


def _bar_cells(cells: int, *, priced: bool) -> int:
    room = cells - NAME - HOURS - SHARE - (MONEY if priced else 0) - GAIN - 2
    return min(MOST_BAR, room) if room >= LEAST_BAR else 0


def _heading(bar: int, *, priced: bool) -> Line:
    money = f"{'cost':>{MONEY}}" if priced else ""
    return (
        (f" {fit('', NAME)}{'GPU hours':>{HOURS}}{'share':>{SHARE}}", "dim"),
        (f"{'':{bar + 1 if bar else 0}}{money}", "dim"),
        ("  without it, at most", "dim"),
    )


def _row(
    booked: Ledger, name: str, spent: float, gained: Mapping[str, float], gpus: float, bar: int
) -> Line:
    role = name.partition("/")[0].lower() if name in booked.by else "old"
    share = spent / booked.gpu_hours
    line: list[Span] = [
        (f" {fit(safe(name.replace('/', ' ')), NAME)}", role),
        (f"{_hours(spent):>{HOURS}}{percent(share):>{SHARE}}", "text"),
    ]
    if bar:
        filled = round(share * bar)
        line += [(" " + "━" * filled, role), ("━" * (bar - filled), "rail")]
    if booked.amount is not None:
        paid = booked.amount.get(name)
        money = "" if paid is None else f"{paid:,.2f} {booked.currency}"
        line.append((f"{money:>{MONEY}}", "strong"))
    factor = gained.get(name, 1.0)
    if factor >= WORTH:
        more = (factor - 1) * gpus
        line.append((f"  {factor:.2f}x faster", "strong"))
        line.append((f", as {number(more)} more GPUs" if more >= 1 else "", "dim"))
    return tuple(line)


def _hours(hours: float) -> str:
    return f"{hours:,.1f}" if hours >= 10 else f"{hours:.3f}"
