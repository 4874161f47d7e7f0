"""The report for a person: the answer first, then when, then what it cost."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo

from gpuwatch.model.text import sanitize
from gpuwatch.report.types import Gap, Report, Stretch

__all__ = ["text"]

ROWS = 30
"""Longest stretches, events and gaps that are told; JSON has them all."""


def text(report: Report, zone: tzinfo | None = None) -> str:
    """Return the report as plain text.

    Args:
        report: what to tell.
        zone: of the times; None: this machine's.
    """
    return "\n".join(sanitize(line, 400) for line in _lines(report, zone)) + "\n"


def _lines(report: Report, zone: tzinfo | None) -> Iterator[str]:
    begin, end = report.begin.astimezone(zone), report.end.astimezone(zone)
    spent = (end - begin).total_seconds()
    until = f"{end:%H:%M:%S %Z}" if end.date() == begin.date() else f"{end:%Y-%m-%d %H:%M:%S %Z}"
    yield f"{report.job}: {begin:%Y-%m-%d %H:%M:%S} to {until}, {duration(spent)}"
    slow = "" if report.slowdown is None else f"; {report.slowdown:.1f}x slower than its best"
    job = [row for row in report.verdicts if row.scope == "job"]
    yield f"spent in: {_shares(_time_by_word(job))}{slow}"
    yield ""
    form = "%H:%M:%S" if end.date() == begin.date() else "%Y-%m-%d %H:%M:%S"
    yield from _stretches(job, zone, form)
    for again in report.recurring:
        period = "" if again.period_s is None else f", every {duration(again.period_s)}"
        yield (
            f"recurring: {_word(again.state, again.cause)} on {again.node or 'the job'},"
            f" {again.count} times, {again.length_s:.1f} s each{period}: {again.share:.1%} of time"
        )
    yield ""
    width = max((len(node) for node in report.share), default=0)
    yield from (f"{node:{width}}  {_shares(parts)}" for node, parts in report.share.items())
    yield from _ledger(report)
    yield from _gaps(report.gaps, zone, form)


def duration(seconds: float) -> str:
    """Return seconds in the two largest units that matter."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.0f} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    return f"{whole // 3600} h {whole // 60 % 60} m"


def _word(state: str, cause: str | None) -> str:
    return state if cause is None else f"{state}/{cause}"


def _time_by_word(rows: Iterable[Stretch]) -> dict[str, float]:
    spent: dict[str, float] = {}
    for row in rows:
        name = _word(row.state, row.cause)
        spent[name] = spent.get(name, 0.0) + (row.end - row.begin).total_seconds()
    total = sum(spent.values())
    return {name: seconds / total for name, seconds in spent.items()} if total else {}


def _shares(parts: Mapping[str, float]) -> str:
    largest = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {share:.0%}" for name, share in largest)


def _stretches(rows: list[Stretch], zone: tzinfo | None, form: str) -> Iterator[str]:
    longest = sorted(rows, key=lambda row: row.begin - row.end)[:ROWS]
    for row in sorted(longest, key=lambda row: row.begin):
        blamed = ", ".join(culprit.id for culprit in row.culprits)
        sure = "" if row.confidence is None else f"  confidence {row.confidence:.2f}"
        length = duration((row.end - row.begin).total_seconds())
        at = f"{row.begin.astimezone(zone):{form}}"
        line = f"{at}  {length:>9}  {_word(row.state, row.cause):22} {blamed:20}"
        yield f"{line}{sure}".rstrip()
        yield from (f"{'':{len(at) + 13}}  {fact.text}" for fact in row.support[:2] if fact.text)
    if len(rows) > ROWS:
        yield f"and {len(rows) - ROWS} shorter stretches"


def _ledger(report: Report) -> Iterator[str]:
    ledger = report.ledger
    if not ledger.gpu_hours:
        return
    yield ""
    yield f"{ledger.gpu_hours:.2f} GPU hours, {ledger.unseen:.2f} of them unseen"
    for name, hours in sorted(ledger.by.items(), key=lambda entry: -entry[1]):
        price = ""
        if ledger.amount is not None and name in ledger.amount:
            price = f"{ledger.amount[name]:12.2f} {ledger.currency}"
        yield f"  {name:22} {hours:10.2f} {hours / ledger.gpu_hours:7.1%}{price}"


def _gaps(gaps: tuple[Gap, ...], zone: tzinfo | None, form: str) -> Iterator[str]:
    if gaps:
        yield ""
    for gap in gaps[:ROWS]:
        length = duration((gap.end - gap.begin).total_seconds())
        at = f"{gap.begin.astimezone(zone):{form}}"
        yield f"{at}  {length:>9}  {gap.node or 'job'} not seen: {gap.reason}"
    if len(gaps) > ROWS:
        yield f"and {len(gaps) - ROWS} more gaps"
