"""Words and numbers that the report's text, its page and a comparison share."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from gpuwatch.model.verdict import State
from gpuwatch.report.types import Hourly, Report, Stretch, Words

__all__ = [
    "WAITS",
    "duration",
    "hours",
    "money",
    "peak_words",
    "said",
    "shares",
    "time_by_word",
    "waits_of",
    "word",
]

WAITS: Mapping[State, str] = {
    "COMPUTE": "computed", "NETWORK": "waited on the network", "STORAGE": "waited on storage",
    "CPU": "waited on CPUs", "MEMORY": "waited on memory", "PEER": "waited for its peers",
    "GPU": "was held back by a GPU", "HOST-LINK": "waited on a link inside a node",
    "HUNG": "stood still", "IDLE": "was idle", "STARTUP": "was starting up",
    "UNKNOWN": "did what is not known",
}  # fmt: skip
"""What a job did in each state."""


def duration(seconds: float) -> str:
    """Return seconds in the two largest units that matter."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.0f} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    return f"{whole // 3600} h {whole // 60 % 60} m"


def hours(spent: float) -> str:
    """Return GPU hours to three digits, or to the hour where there are many."""
    return f"{spent:,.0f}" if spent >= 100 else f"{spent:.3g}"


def word(state: str, cause: str | None) -> str:
    """Return state and cause as one word: `STORAGE/read`."""
    return state if cause is None else f"{state}/{cause}"


def said(words: Words) -> str:
    """Return what a verdict says, with who is to blame."""
    blamed = ", ".join(culprit.id for culprit in words.culprits)
    return word(words.state, words.cause) + (f" ({blamed})" if blamed else "")


def time_by_word(rows: Iterable[Stretch]) -> dict[str, float]:
    """Return which share of the time of some stretches went into each state and cause."""
    spent: dict[str, float] = {}
    for row in rows:
        name = word(row.state, row.cause)
        spent[name] = spent.get(name, 0.0) + (row.end - row.begin).total_seconds()
    total = sum(spent.values())
    return {name: seconds / total for name, seconds in spent.items()} if total else {}


def shares(parts: Mapping[str, float]) -> str:
    """Return shares in words, the largest first."""
    largest = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {share:.0%}" for name, share in largest)


def money(report: Report, name: str) -> str | None:
    """Return what was paid for a state and cause; None where no price is known, or for work."""
    amount = report.ledger.amount
    if amount is None or name not in amount:
        return None
    return f"{amount[name]:,.2f} {report.ledger.currency}"


def waits_of(report: Report) -> list[Stretch]:
    """Return the job's stretches of waiting that were at least suspected, in order."""
    return [
        row
        for row in report.verdicts
        if row.scope == "job"
        and row.suspected_at is not None
        and (row.state, row.cause) != ("COMPUTE", None)
        and row.state != "UNKNOWN"
    ]


NAMES = {
    "peer_rtt": "round trip to peers",
    "retransmits": "TCP segments sent again",
    "storage_latency": "storage latency",
}
"""Quantities that are told by hour of day."""


def peak_words(row: Hourly, at: datetime) -> str:
    """Return what is high at an hour of the day, in the zone of `at`; empty where nothing is."""
    if row.peak is None:
        return ""
    name = NAMES.get(row.quantity, row.quantity) + (
        "" if row.entity is None else f" on {row.entity}"
    )
    begin, end = (
        at.astimezone(UTC).replace(hour=hour, minute=0).astimezone(at.tzinfo)
        for hour in (row.peak.begin, row.peak.end)
    )
    much = f"{row.peak.level:.3g} {row.unit}"
    if row.peak.ratio is not None:
        much += f", {row.peak.ratio:.1f}x its median,"
    return f"{name} is {much} between {begin:%H:%M} and {end:%H:%M}, on {row.peak.days} days"
