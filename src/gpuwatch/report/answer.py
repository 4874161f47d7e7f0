"""The answer in a few sentences: what the job waited on, who is to blame, since when, the price."""

from datetime import datetime, tzinfo

from gpuwatch.report.types import Report, Stretch
from gpuwatch.report.words import WAITS, duration, hours, money, time_by_word, waits_of, word

__all__ = ["answer", "worst"]

UNKNOWN_WORTH = 0.2
"""Share of time that is not known from which on it is told in the same breath."""

WELL = 0.8
"""Share of time in compute from which on nothing held a job up."""


def worst(report: Report) -> list[Stretch]:
    """Return the stretches of the wait that most of the job's time went into, in order."""
    waits = waits_of(report)
    spent = time_by_word(waits)
    if not spent:
        return []
    most = max(spent, key=lambda name: spent[name])
    return [row for row in waits if word(row.state, row.cause) == most]


def answer(report: Report, zone: tzinfo | None) -> str:
    """Return what a reader wants to know first.

    Args:
        report: of which.
        zone: of the times; None: this machine's.
    """
    rows = worst(report)
    said = [_waited(report, rows, zone), _price(report, rows[0])] if rows else [_well(report)]
    unknown = time_by_word(r for r in report.verdicts if r.scope == "job").get("UNKNOWN", 0.0)
    if unknown >= UNKNOWN_WORTH:
        said.append(f"What it did in {unknown:.0%} of the time is not known.")
    return " ".join(filter(None, said))


def _waited(report: Report, rows: list[Stretch], zone: tzinfo | None) -> str:
    seconds = sum((row.end - row.begin).total_seconds() for row in rows)
    share = seconds / (report.end - report.begin).total_seconds()
    longest = max(rows, key=lambda row: row.end - row.begin)
    cause = "" if longest.cause is None else f" ({longest.cause})"
    times = _times(report, rows, zone)
    sure = "confirmed" if any(row.confirmed_at for row in rows) else "suspected, never confirmed"
    odds = "" if longest.confidence is None else f", confidence {longest.confidence:.2f}"
    return (
        f"The job {WAITS[longest.state]}{cause} for {duration(seconds)}, {share:.0%} of the time,"
        f" {times}{_blamed(longest)} ({sure}{odds})."
    )


def _times(report: Report, rows: list[Stretch], zone: tzinfo | None) -> str:
    first, last = (_instant(at, report, zone) for at in (rows[0].begin, rows[-1].end))
    if len(rows) > 1:
        return f"in {len(rows)} stretches from {first} to {last}"
    if rows[0].end == report.end:
        return f"since {first}, to the end"
    return f"from {first} to {last}"


def _blamed(row: Stretch) -> str:
    named = [culprit.id for culprit in row.culprits if culprit.kind not in ("unknown", "job")]
    if named:
        return f"; to blame: {', '.join(named)}"
    if any(culprit.kind == "job" for culprit in row.culprits):
        return "; it is of the whole job"
    return "; who is to blame is not known"


def _price(report: Report, row: Stretch) -> str:
    name = word(row.state, row.cause)
    spent = report.ledger.by.get(name)
    if not spent:
        return ""
    paid = money(report, name)
    cost = f" and {paid}" if paid else ""
    gain = report.ledger.gain.get(name)
    faster = f"; without it the job would run about {gain:.2f}x as fast" if gain else ""
    return f"It took {hours(spent)} GPU hours{cost}{faster}."


def _well(report: Report) -> str:
    spent = time_by_word(row for row in report.verdicts if row.scope == "job")
    computed = spent.get("COMPUTE", 0.0)
    if computed >= WELL:
        return f"Nothing held the job up: it computed {computed:.0%} of the time."
    return f"No wait was suspected for long enough to be named; it computed {computed:.0%} of the time."


def _instant(at: datetime, report: Report, zone: tzinfo | None) -> str:
    local, begin, end = (when.astimezone(zone) for when in (at, report.begin, report.end))
    form = "%H:%M:%S %Z" if begin.date() == end.date() else "%Y-%m-%d %H:%M:%S %Z"
    return f"{local:{form}}"
