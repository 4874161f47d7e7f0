"""The answer in a few sentences: what the job waited on, who is to blame, since when, the price."""

from datetime import datetime, tzinfo

from gpuwatch.model.verdict import Recurring
from gpuwatch.report.types import Report, Stretch
from gpuwatch.report.words import WAITS, duration, hours, money, time_by_word, waits_of, word

__all__ = ["answer", "worst"]

UNKNOWN_WORTH = 0.2
"""Share of time that is not known from which on it is told in the same breath."""

_NO_WAIT = {"IDLE", "STARTUP"}
WELL = 0.8
"""Share of time in compute from which on nothing held a job up."""


def worst(report: Report) -> list[Stretch]:
    """Return the stretches of what held the job up most, in order.

    What was confirmed goes before what was only suspected, and a confirmed wait before the time in
    which a job has not begun to work, or has ended.
    """
    waits = waits_of(report)
    spent = time_by_word(waits)
    if not spent:
        return []
    sure = {word(row.state, row.cause) for row in waits if row.confirmed_at}
    sure |= {word(again.state, again.cause) for again in report.recurring}
    quiet = {word(row.state, row.cause) for row in waits if row.state in _NO_WAIT}
    most = max(spent, key=lambda name: (name in sure - quiet, name in sure, spent[name]))
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
    return (
        f"The job {_did(report, rows)} for {duration(seconds)}, {share:.0%} of the time,"
        f" {_times(report, rows, zone)}{_blamed(report, rows)} ({_sure(report, rows)})."
    )


def _did(report: Report, rows: list[Stretch]) -> str:
    """Return what the job did; what was never confirmed it may have done."""
    state, cause = rows[0].state, rows[0].cause
    did, why = WAITS[state], "" if cause is None else f" ({cause})"
    if (state, cause) == ("COMPUTE", "imbalance"):
        did, why = "waited for ranks that had more to compute", ""
    if _is_sure(report, rows):
        return did + why
    return "may have " + did.replace("was ", "been ", 1) + why


def _sure(report: Report, rows: list[Stretch]) -> str:
    """Return how sure it is, and what else it may have been."""
    longest = max(rows, key=lambda row: row.end - row.begin)
    again = _came_back(report, longest)
    if any(row.confirmed_at for row in rows):
        said = ["confirmed"]
    elif again is not None:
        said = [f"confirmed as it came back, {again.count} times"]
    else:
        said = ["suspected, never confirmed"]
    if longest.confidence is not None:
        said.append(f"confidence {longest.confidence:.2f}")
    said += [f"or {word(rival.state, rival.cause)}" for rival in longest.candidates]
    return ", ".join(said)


def _is_sure(report: Report, rows: list[Stretch]) -> bool:
    return any(row.confirmed_at for row in rows) or _came_back(report, rows[0]) is not None


def _came_back(report: Report, row: Stretch) -> Recurring | None:
    same = (
        again for again in report.recurring if (again.state, again.cause) == (row.state, row.cause)
    )
    return next(same, None)


def _times(report: Report, rows: list[Stretch], zone: tzinfo | None) -> str:
    first, last = (_instant(at, report, zone) for at in (rows[0].begin, rows[-1].end))
    if len(rows) > 1:
        return f"in {len(rows)} stretches from {first} to {last}"
    if rows[0].end == report.end:
        return f"since {first}, to the end"
    return f"from {first} to {last}"


def _blamed(report: Report, rows: list[Stretch]) -> str:
    longest = max(rows, key=lambda row: row.end - row.begin)
    if longest.state in _NO_WAIT:
        return ""
    named = [culprit.id for culprit in longest.culprits if culprit.kind not in ("unknown", "job")]
    if named:
        perhaps = "" if _is_sure(report, rows) else "perhaps "
        return f"; {perhaps}to blame: {', '.join(named)}"
    if any(culprit.kind == "job" for culprit in longest.culprits):
        return "; it is of the whole job"
    return "; who is to blame is not known"


def _price(report: Report, row: Stretch) -> str:
    name = word(row.state, row.cause)
    spent = report.ledger.by.get(name)
    if not spent:
        return ""
    paid = money(report, name)
    cost = f" and {paid}" if paid else ""
    gain = None if row.state in _NO_WAIT else report.ledger.gain.get(name)
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
