"""Verdicts: the words, and the records that the judge hands to every sink."""

from typing import Literal, get_args

import msgspec

__all__ = [
    "CAUSES",
    "LETTERS",
    "STATES",
    "Candidate",
    "Culprit",
    "Finding",
    "JobVerdict",
    "Missing",
    "Recurring",
    "Shares",
    "State",
    "Verdict",
]

State = Literal[
    "COMPUTE", "NETWORK", "STORAGE", "CPU", "MEMORY", "PEER", "GPU", "HOST-LINK", "HUNG", "IDLE",
    "STARTUP", "UNKNOWN",
]  # fmt: skip
STATES: tuple[State, ...] = get_args(State)

CAUSES: dict[State, tuple[str, ...]] = {
    "COMPUTE": ("imbalance",),
    "NETWORK": ("loss", "bandwidth", "link", "congestion", "softirq", "fallback", "path"),
    "STORAGE": ("read", "metadata", "object", "checkpoint", "offload"),
    "CPU": ("data-prep", "main-thread", "pinned", "in-rank", "numa", "quota", "system"),
    "MEMORY": ("reclaim", "swap"),
    "PEER": (),
    "GPU": ("throttled", "fault", "shared"),
    "HOST-LINK": ("pcie", "nvlink"),
    "HUNG": (),
    "IDLE": ("demand",),
    "STARTUP": ("compile", "storage"),
    "UNKNOWN": (),
}
"""Every cause of every state; None is always allowed too."""

LETTERS: dict[State, str] = {
    "COMPUTE": "C", "NETWORK": "N", "STORAGE": "D", "CPU": "U", "MEMORY": "M", "PEER": "P",
    "GPU": "G", "HOST-LINK": "L", "HUNG": "H", "IDLE": "i", "STARTUP": "s", "UNKNOWN": "?",
}  # fmt: skip
"""One letter a state, for strips and maps."""


class Finding(msgspec.Struct, frozen=True, gc=False):
    """A piece of evidence: a value against a threshold. `text` is made from the typed facts."""

    metric: str
    value: float | None
    unit: str
    threshold: float | None
    text: str


class Missing(msgspec.Struct, frozen=True, gc=False):
    """A signal that the verdict would have used and could not read, and why."""

    signal: str
    reason: str


class Culprit(msgspec.Struct, frozen=True, gc=False):
    """Who is to blame: `id` as a person would name it, on these nodes."""

    kind: Literal["node", "rank", "gpu", "port", "path", "mount", "job", "unknown"]
    id: str
    nodes: tuple[str, ...] = ()


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """Another verdict that the evidence allows."""

    state: State
    cause: str | None
    confidence: float


class Shares(msgspec.Struct, frozen=True, gc=False):
    """What a GPU (or the mean of several) did with its time in the window, each 0 to 1.

    `unknown` is the share that could not be told; the five sum to 1. `confidence` falls when the
    levels that the mixture was taken from are from a table and not from this GPU's own minutes.
    """

    compute: float
    spin: float
    starved: float
    idle: float
    unknown: float
    levels: Literal["none", "table", "baseline", "learned", "gpm"] = "none"


class Verdict(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What one job, node or rank waits on.

    Times are viewer's monotonic microseconds, as `Event.arrived_us`. `episode_us` is when this
    state and cause began; `suspected_us` and `confirmed_us` are None until then.
    """

    scope: Literal["job", "node", "rank"]
    node: str | None = None
    rank: str | None = None
    group: str | None = None
    state: State = "UNKNOWN"
    cause: str | None = None
    culprits: tuple[Culprit, ...] = ()
    waiting: tuple[str, ...] = ()
    episode_us: int = 0
    suspected_us: int | None = None
    confirmed_us: int | None = None
    confidence: float = 0.0
    support: tuple[Finding, ...] = ()
    against: tuple[Finding, ...] = ()
    missing: tuple[Missing, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    shares: Shares | None = None
    text: str = ""


class Recurring(msgspec.Struct, frozen=True, gc=False):
    """A loss too short to be confirmed by itself, confirmed by coming back."""

    scope: Literal["job", "node", "rank"]
    node: str | None
    state: State
    cause: str | None
    count: int
    length_s: float
    period_s: float | None
    share: float


class JobVerdict(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The verdicts of one tick: the job's, each node's, each rank's (in node and rank order)."""

    job: Verdict
    nodes: tuple[Verdict, ...] = ()
    ranks: tuple[Verdict, ...] = ()
    recurring: tuple[Recurring, ...] = ()
    slowdown: float | None = None
