"""The report for a person: the answer first, then when, what it cost, and what to do."""

from collections.abc import Iterator, Mapping
from datetime import datetime, tzinfo

from gpuwatch.model.text import sanitize
from gpuwatch.report.answer import answer
from gpuwatch.report.types import Changes, Gap, Hourly, Report, Stretch
from gpuwatch.report.words import (
    duration,
    hours,
    money,
    peak_words,
    said,
    shares,
    time_by_word,
    word,
)
from gpuwatch.verdict.advice import Advice, Known, advise, known, medium
from gpuwatch.verdict.thresholds import Thresholds, shown

__all__ = ["text"]

ROWS = 30
"""Longest stretches, events and gaps that are told; JSON has them all."""
WORTH = 1.005
"""A gain that is worth a word."""
CAUSES = 5
"""Causes that something is said to be done about: those that most time went into."""


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
    yield answer(report, zone)
    yield f"spent in: {shares(time_by_word(job))}{slow}"
    yield from _thresholds(report.thresholds)
    yield ""
    form = "%H:%M:%S" if end.date() == begin.date() else "%Y-%m-%d %H:%M:%S"
    if report.changes is not None:
        yield from _changes(report.changes, zone, form)
        yield ""
    yield from _stretches(job, zone, form)
    for again in report.recurring:
        period = "" if again.period_s is None else f", every {duration(again.period_s)}"
        yield (
            f"recurring: {word(again.state, again.cause)} on {again.node or 'the job'},"
            f" {again.count} times, {again.length_s:.1f} s each{period}: {again.share:.1%} of time"
        )
    yield ""
    width = max((len(node) for node in report.share), default=0)
    yield from (f"{node:{width}}  {shares(parts)}" for node, parts in report.share.items())
    yield from _ledger(report)
    yield from _hours(report.hours, end)
    yield from _gaps(report.gaps, zone, form)
    yield from _steps(report, job)


def _stretches(rows: list[Stretch], zone: tzinfo | None, form: str) -> Iterator[str]:
    longest = sorted(rows, key=lambda row: row.begin - row.end)[:ROWS]
    for row in sorted(longest, key=lambda row: row.begin):
        blamed = ", ".join(culprit.id for culprit in row.culprits)
        sure = "" if row.confidence is None else f"  confidence {row.confidence:.2f}"
        length = duration((row.end - row.begin).total_seconds())
        at = f"{row.begin.astimezone(zone):{form}}"
        line = f"{at}  {length:>9}  {word(row.state, row.cause):22} {blamed:20}"
        yield f"{line}{sure}".rstrip()
        yield from (f"{'':{len(at) + 13}}  {fact.text}" for fact in row.support[:2] if fact.text)
    if len(rows) > ROWS:
        yield f"and {len(rows) - ROWS} shorter stretches"


def _thresholds(used: Mapping[str, float]) -> Iterator[str]:
    """Tell which thresholds are not the defaults."""
    defaults = Thresholds().as_dict()
    others = (f"{n} {shown(n, v)}" for n, v in used.items() if n in defaults and v != defaults[n])
    if told := ", ".join(others):
        yield f"judged with {told}"


def _changes(changes: Changes, zone: tzinfo | None, form: str) -> Iterator[str]:
    """Tell what other thresholds change for the job and its nodes; JSON has the ranks as well."""
    moved = (f"{m.name} {shown(m.name, m.after)}, not {shown(m.name, m.before)}"
             for m in changes.thresholds)  # fmt: skip
    yield f"What changes by {', '.join(moved) or 'the same thresholds'}"
    rows = [change for change in changes.verdicts if change.scope != "rank"]
    for row in sorted(sorted(rows, key=lambda r: r.begin - r.end)[:ROWS], key=lambda r: r.begin):
        length = duration((row.end - row.begin).total_seconds())
        at = f"{row.begin.astimezone(zone):{form}}"
        whose = "the job" if row.node is None else row.node
        yield f"{at}  {length:>9}  {whose:12} {said(row.before)} -> {said(row.after)}"
    if len(rows) > ROWS:
        yield f"and {len(rows) - ROWS} shorter stretches"
    if not rows:
        yield "no verdict of the job or of a node"
    for name, more in changes.ledger.items():
        price = ""
        if changes.amount is not None and name in changes.amount:
            price = f"  {changes.amount[name]:+.2f}"
        yield f"  {name:22} {more:+10.4f} GPU hours{price}"


def _ledger(report: Report) -> Iterator[str]:
    ledger = report.ledger
    if not ledger.gpu_hours:
        return
    yield ""
    yield f"{hours(ledger.gpu_hours)} GPU hours; a wait is booked on the cause of who is waited for"
    rows = sorted(ledger.by.items(), key=lambda entry: -entry[1])
    for name, spent in [*rows, ("not seen", ledger.unseen)]:
        gain = ledger.gain.get(name, 1.0)
        faster = f"  without it about {gain:.2f}x as fast" if gain >= WORTH else ""
        yield f"{_entry(report, name, spent, money(report, name) or '')}{faster}".rstrip()
    paid = "" if ledger.amount is None else f"{sum(ledger.amount.values()):,.2f} {ledger.currency}"
    yield _entry(report, "all", ledger.gpu_hours, paid).rstrip()


def _entry(report: Report, name: str, spent: float, paid: str) -> str:
    return f"  {name:22} {hours(spent):>10} {spent / report.ledger.gpu_hours:7.1%}{paid:>16}"


def _hours(rows: tuple[Hourly, ...], end: datetime) -> Iterator[str]:
    """Tell what comes back at an hour of the day, in the zone of the time given."""
    told = [row for row in rows if row.peak is not None]
    if told:
        yield ""
    yield from (f"by hour of day: {line}" for row in told if (line := peak_words(row, end)))


def _gaps(gaps: tuple[Gap, ...], zone: tzinfo | None, form: str) -> Iterator[str]:
    if gaps:
        yield ""
    for gap in gaps[:ROWS]:
        length = duration((gap.end - gap.begin).total_seconds())
        at = f"{gap.begin.astimezone(zone):{form}}"
        yield f"{at}  {length:>9}  {gap.node or 'job'} not seen: {gap.reason}"
    if len(gaps) > ROWS:
        yield f"and {len(gaps) - ROWS} more gaps"


def _steps(report: Report, job: list[Stretch]) -> Iterator[str]:
    """Tell what to do, once a cause: those that lasted, then those that came back."""
    told: dict[tuple[str, str | None], tuple[Known, tuple[Advice, ...]]] = {}
    for row in _worth_a_step(job):
        facts = known(row)
        told[row.state, row.cause] = facts, advise(row.state, row.cause, medium(row), facts)
    for again in report.recurring:
        facts = Known(node=again.node)
        told.setdefault(
            (again.state, again.cause), (facts, advise(again.state, again.cause, None, facts))
        )
    said = [(kind, facts, steps) for kind, (facts, steps) in told.items() if steps][:CAUSES]
    if said:
        yield ""
        yield "What to do"
    for kind, facts, steps in said:
        yield word(*kind) + (f" on {facts.node}" if facts.node else "")
        yield from (line for step in steps for line in _step(step))


def _worth_a_step(job: list[Stretch]) -> list[Stretch]:
    """Return the longest stretch of each cause that was at least suspected, most time first."""
    spent, longest = time_by_word(job), {}
    for row in sorted(job, key=lambda row: row.end - row.begin):
        if row.suspected_at is not None and row.state != "UNKNOWN":
            longest[word(row.state, row.cause)] = row
    longest.pop("COMPUTE", None)
    return [longest[name] for name in sorted(longest, key=lambda name: -spent[name])]


def _step(step: Advice) -> Iterator[str]:
    lines = [step.text] if step.command is None else [step.command, step.text]
    yield f"  {step.kind:10}  {lines[0]}"
    yield from (f"{'':14}{line}" for line in lines[1:])
