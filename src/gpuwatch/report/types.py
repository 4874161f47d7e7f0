"""The report as data: what `report --json` and `snapshot --json` print, and its schema."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from gpuwatch.model.verdict import Candidate, Culprit, Finding, Missing, Recurring, State

__all__ = [
    "Change",
    "Changes",
    "Gap",
    "Happening",
    "Hourly",
    "Ledger",
    "Moved",
    "Peak",
    "Report",
    "Stretch",
    "Words",
    "required",
    "schema",
]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict as long as its state, cause and culprits stayed the same.

    Evidence is that of the tick at which it was surest. The stretches of one scope (the job, one
    node, one rank) follow each other without gap or overlap; where nothing was judged, the state
    is UNKNOWN and `missing` says why.
    """

    scope: Literal["job", "node", "rank"]
    node: str | None
    rank: str | None
    group: str | None
    begin: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    state: State
    cause: str | None
    culprits: tuple[Culprit, ...]
    waiting: tuple[str, ...]
    suspected_at: datetime | None
    confirmed_at: datetime | None
    confidence: float | None
    support: tuple[Finding, ...] = msgspec.field(name="for")
    against: tuple[Finding, ...]
    missing: tuple[Missing, ...]
    candidates: tuple[Candidate, ...]


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """GPU time by what it went into; a victim's wait is booked on its culprit's cause.

    `gpu_hours` is the sum of `by` and of `unseen`, in which no rank could be judged. `amount` is
    what all but COMPUTE cost; null, as is `currency`, where no price of a GPU hour is given. `gain` is
    by which factor the job would be faster without a wait, by its slowdown where that is known, and at
    most: another wait may hide behind it.
    """

    gpu_hours: float
    by: dict[str, float]
    unseen: float
    amount: dict[str, float] | None
    currency: str | None
    gain: dict[str, float] = {}


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """Hours of the day, UTC, in which a level was high on `days` days at least.

    `end` is the hour in which it is over; `ratio` is to the day's median, null where that is zero.
    """

    begin: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")
    level: float
    ratio: float | None
    days: int


class Hourly(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity by hour of day: 24 levels from 00:00 UTC on, null where too little was seen.

    `quantity` is `peer_rtt` (ms), `retransmits` (%) or `storage_latency` (ms), of all nodes together;
    `entity` the mount or the disk. `days` is on how many days an hour was seen, at most.
    """

    quantity: str
    entity: str | None
    unit: str
    levels: tuple[float | None, ...]
    median: float | None
    days: int
    peak: Peak | None


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """A link that changed, a fault, a marker."""

    at: datetime
    node: str | None
    kind: str
    text: str


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which a node (null: the whole job) was not seen, and why."""

    node: str | None
    begin: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    reason: str


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict says, without its evidence."""

    state: State
    cause: str | None
    culprits: tuple[Culprit, ...]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold that is another; values as in `Report.thresholds`."""

    name: str
    before: float
    after: float


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch in which a verdict says something else under other thresholds."""

    scope: Literal["job", "node", "rank"]
    node: str | None
    rank: str | None
    group: str | None
    begin: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    before: Words
    after: Words


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What other thresholds change, against the same recording judged by its own.

    `ledger` is, by state and cause, how many GPU hours more (or less) are booked on it; `amount`
    what these cost, null where no price is given.
    """

    thresholds: tuple[Moved, ...]
    verdicts: tuple[Change, ...]
    ledger: dict[str, float]
    amount: dict[str, float] | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report. Times are UTC; unknown numbers are null; every key is always there.

    `format` grows when a program that reads the older one would be misled. `share` is, for each
    node, the share of the time in each state and cause. `thresholds` are those that it was judged
    with, by name: shares of 1, seconds, plain numbers. `changes` is null unless other thresholds than
    the recording's were given. `hours` is empty for less than six hours.
    """

    format: Literal[1]
    job: str
    begin: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    interval_s: float
    verdicts: tuple[Stretch, ...]
    recurring: tuple[Recurring, ...]
    share: dict[str, dict[str, float]]
    ledger: Ledger
    slowdown: float | None
    events: tuple[Happening, ...]
    gaps: tuple[Gap, ...]
    thresholds: dict[str, float]
    changes: Changes | None
    hours: tuple[Hourly, ...] = ()


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a report, with every key required."""
    return required(Report)


def required(document: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a document, with every key required and no other."""
    whole = msgspec.json.schema(document)
    for definition in whole["$defs"].values():
        if "properties" in definition:
            definition["required"] = list(definition["properties"])
            definition["additionalProperties"] = False
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | whole
