"""What a cause is given, and what it answers with."""

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.agent.waits import STORAGE
from gpuwatch.model.verdict import Candidate, Finding, Missing, State
from gpuwatch.model.view import Window
from gpuwatch.verdict.features import NO_ROLE, Host, Role, Threads
from gpuwatch.verdict.gpu import Gpu
from gpuwatch.verdict.thresholds import Thresholds

__all__ = [
    "NOTHING", "STARTING_CAP", "Assessment", "Context", "Kind", "Peers", "Signal", "asleep", "assessment", "computes", "gate", "input_lost",
    "lacks_input", "number", "once", "once_a_node", "percent", "ramp", "resting", "starting", "starves", "waiting",
    "waiting_cap", "waits",
]  # fmt: skip

DOUBT_CAP = 0.5
"""Confidence at most where the GPU's shares are doubtful: no power limit, no memory utilisation."""
UNDETERMINED_CAP = 0.6
"""Confidence at most where a GPU may exchange data or compute at a low power."""
_RESTING = (0.1, 0.25)
"""Share of loaders' time at rest: below they never keep up, beyond they do."""
STARTING_CAP = 0.6
"""Loaders that work for a GPU that never did may as well be starting up."""
TABLE_CAP = 0.9
"""Confidence at most where a GPU's levels are from a table, not from its own good minutes."""


_Found = TypeVar("_Found")


class Kind(NamedTuple):
    """What is told apart: a state and its cause."""

    state: State
    cause: str | None


class Peers(msgspec.Struct, frozen=True, gc=False):
    """What a node's judgement takes from the others.

    Attributes:
        nodes: fresh nodes of the job.
        ranks: by group, how many ranks the whole job has: seen, or as its environment says.
        speeds: by port name, the negotiated speeds of that port on all nodes, in Mb/s.
        up: by port name, on how many nodes the link is up.
        standing: nothing moves on any of the job's nodes that is fresh.
        homes: whose an address is: the node of the job that alone says so.
        fastest_ms: shortest round trip now between two of its nodes; None where none is known.
        lost: share of time that the job loses by its own log's steps; 0 where none tells.
        still_s: seconds without a step, by the job's own log; None where it tells of none.
        spinning: some GPU of the job is busy meanwhile, so it spins.
        blamed: nodes that the job's verdict names for a fault, as it stood before this tick.
        blamed_for: state of that verdict.
        limits: by GPU model, the power limits of all its GPUs on all nodes, in watts.
    """

    nodes: int
    ranks: Mapping[str, int]
    speeds: Mapping[str, tuple[float, ...]]
    up: Mapping[str, int]
    standing: bool = False
    spinning: bool = False
    homes: Mapping[str, str] = {}
    fastest_ms: float | None = None
    lost: float = 0.0
    still_s: float | None = None
    blamed: frozenset[str] = frozenset()
    blamed_for: State = "UNKNOWN"
    limits: Mapping[str, tuple[float, ...]] = {}


class Context(msgspec.Struct, frozen=True, gc=False):
    """All that a cause may look at: one rank (None where ranks are not seen), its GPU, its node.

    `held` tells whether anybody has a context on the GPU, `absent` why a source, or
    source.metric, could not be read; `fast` and `slow` are windows of the node, for what only few
    causes ask for, `card` names its GPU there; `loader_cores` is what all loaders of the rank's
    job use on the node, None where that is not known; `elsewhere` that the job's fault is on other
    nodes, `at_an_end` that it is of the network and this node's, or at an end of its path. `known`
    and `known_of_node` keep what several causes ask for: the latter is the same for
    all ranks of a node.
    """

    gpu: Gpu
    rank: Threads | None
    host: Host
    peers: Peers
    held: bool
    ranks: int
    absent: Mapping[str, str]
    thresholds: Thresholds
    fast: Window
    slow: Window
    card: Labels | None = None
    loader_cores: float | None = None
    elsewhere: bool = False
    at_an_end: bool = False
    known_of_node: dict[Any, Any] = {}
    known: dict[Any, Any] = {}

    def role(self, name: str) -> Role:
        """Return a role of the rank; one of which nothing is known when there is none."""
        return self.rank.role(name) if self.rank else NO_ROLE


def once(look: Callable[[Context], _Found]) -> Callable[[Context], _Found]:
    """Work out once for a rank what several causes ask of it."""

    @wraps(look)
    def known(context: Context) -> _Found:
        found: _Found
        try:
            found = context.known[look]
        except KeyError:
            found = context.known[look] = look(context)
        return found

    return known


def once_a_node(look: Callable[[Context], _Found]) -> Callable[[Context], _Found]:
    """Work out once for all ranks of a node what depends on nothing of a rank."""

    @wraps(look)
    def known(context: Context) -> _Found:
        found: _Found
        try:
            found = context.known_of_node[look]
        except KeyError:
            found = context.known_of_node[look] = look(context)
        return found

    return known


class Signal(msgspec.Struct, frozen=True, gc=False):
    """A signal that a cause rests on: without it, `weight` of its confidence is gone."""

    subject: str
    readable: bool
    weight: float


class Assessment(msgspec.Struct, frozen=True, gc=False):
    """What one cause says of one rank.

    `score` is of the evidence, for less against; `coverage` the share of it that was readable;
    `cap` the confidence that is possible at most. `text` ends a sentence about the rank. `place`
    is what it waits for, where that is outside all nodes (a server, a store), or what fails it on
    its node: a port.
    """

    state: State
    cause: str | None
    score: float
    coverage: float = 1.0
    cap: float = 1.0
    support: tuple[Finding, ...] = ()
    against: tuple[Finding, ...] = ()
    missing: tuple[Missing, ...] = ()
    text: str = ""
    place: str | None = None

    @property
    def confidence(self) -> float:
        """Return the score as far as it may be believed, 0 to 1."""
        score = self.score
        sure = (1.0 if score > 1 else score if score > 0 else 0.0) * self.coverage
        return min(self.cap, sure)

    def candidate(self) -> Candidate:
        """Return this as another verdict that the evidence allows."""
        return Candidate(self.state, self.cause, round(self.confidence, 3))


NOTHING = Assessment("UNKNOWN", None, 0.0)
"""What a cause says that has nothing to say."""


def assessment(
    context: Context,
    kind: Kind,
    score: float,
    *,
    text: str,
    support: tuple[Finding | None, ...],
    against: tuple[Finding | None, ...] = (),
    signals: tuple[Signal, ...] = (),
    cap: float = 1.0,
    place: str | None = None,
) -> Assessment:
    """Join what a cause found; None among the findings is what could not be read."""
    unread = [s for s in signals if not s.readable]
    if context.gpu.doubt:
        cap = min(cap, DOUBT_CAP)
    elif context.gpu.shares.levels not in ("learned", "gpm"):
        cap = min(cap, TABLE_CAP)
    return Assessment(
        *kind,
        score,
        max(0.0, 1.0 - sum([s.weight for s in unread])) if unread else 1.0,
        cap,
        tuple([f for f in support if f is not None]),
        tuple([f for f in against if f is not None]),
        tuple([Missing(s.subject, reason(context, s.subject)) for s in unread]),
        text,
        place,
    )


def reason(context: Context, subject: str) -> str:
    """Return why a source, or source.metric, has no value."""
    source = subject.partition(".")[0]
    why = context.absent.get(subject) or context.absent.get(source)
    return why or "no reading in this window"


def ramp(value: float | None, clean: float, bad: float) -> float:
    """Return 0 at `clean` and below, 1 at `bad` and beyond, linear between; 0 without a value."""
    if value is None:
        return 0.0
    if value >= bad:
        return 1.0
    return 0.0 if value <= clean else (value - clean) / (bad - clean)


def gate(lost: float, thresholds: Thresholds) -> float:
    """Return how much a share of lost GPU time opens the question what it was lost to."""
    return ramp(lost, thresholds.lost / 2, thresholds.lost)


@once
def waiting(context: Context) -> float:
    """Return the share in which a GPU may wait for others: spun, and busy at undetermined power.

    Moving data in a collective draws a power between spinning and computing. Without any reading
    of the GPU, a main thread that sits in a socket is all that is left.
    """
    gpu, main = context.gpu, context.role("main").waits
    if gpu.util is None and gpu.power_w is None:
        return main.share("socket") if main else 0.0
    undetermined = gpu.shares.unknown if context.ranks > 1 and gpu.power_w is not None else 0.0
    return gpu.shares.spin + undetermined


def waiting_cap(context: Context) -> float:
    """Return the confidence at most of what rests on `waiting`: less where spinning is not sure."""
    return 1.0 if context.gpu.shares.spin >= context.thresholds.lost else UNDETERMINED_CAP


@once
def input_lost(context: Context) -> float:
    """Return the share of GPU time that was lost to input or output.

    Utilisation is an average over up to a second, so a GPU that is fed in dribbles reads busy at
    less power, as if it spun; then the main thread tells, when it was blocked in what data come
    from and not in a collective. In a pipe or futex it waits for loaders only if these do not
    rest: a main thread sits in a futex as well while autograd's thread launches.
    """
    shares = context.gpu.shares
    waits = context.role("main").waits
    blocked = 0.0
    if waits:
        queued = waits.share("pipe", "futex") * (1 - ramp(resting(context), *_RESTING))
        blocked = waits.share(*STORAGE) + queued
    if context.gpu.util is None:
        return blocked
    return max(shares.starved, min(shares.starved + shares.spin, blocked))


@once
def resting(context: Context) -> float:
    """Return the share in which loaders had nothing to do: their queues are full; 1 without any.

    While the main thread waits for one of them they are not: batches are taken in order, so the
    others have done theirs and wait as well.
    """
    loaders = context.role("loader").waits
    if loaders is None:
        return 1.0
    return loaders.share("futex", "pipe", "sleep") * (1 - _expecting(context))


def _expecting(context: Context) -> float:
    """Return the share in which the main thread waits for its loaders.

    It sits in a futex as well while autograd's thread launches, but not while its GPU is idle.
    """
    waits = context.role("main").waits
    if waits is None:
        return 0.0
    return waits.share("pipe", "futex") if waits.starved else waits.share("pipe")


def asleep(context: Context) -> bool:
    """Tell whether the GPU is seen to do nothing."""
    util = context.gpu.util
    return util is not None and util < context.thresholds.gpu_idle


def starting(context: Context) -> bool:
    """Tell whether a rank may be starting up: its GPU does nothing, and never was seen to.

    What it reads, and what holds up its threads, is then no wait of a step: it imports, loads a
    checkpoint, compiles, builds an index.
    """
    return asleep(context) and not context.gpu.worked


def waits(context: Context) -> bool:
    """Tell whether a GPU waits for others enough to ask what holds these up."""
    return gate(waiting(context), context.thresholds) > 0


def lacks_input(context: Context) -> bool:
    """Tell whether a GPU lost enough to input or output to ask what holds that up."""
    return gate(input_lost(context), context.thresholds) > 0


def starves(context: Context) -> bool:
    """Tell whether a GPU does nothing for long enough to ask what it waits for."""
    return gate(context.gpu.shares.starved, context.thresholds) > 0


def computes(context: Context) -> bool:
    """Tell whether a GPU computes for long enough to ask whether that is all it does."""
    t = context.thresholds
    return ramp(context.gpu.shares.compute, t.lost, t.compute) > 0


def percent(
    metric: str, share: float | None, threshold: float | None, words: str
) -> Finding | None:
    """Make a finding of a share; `words` say what of, the numbers are added."""
    if share is None:
        return None
    value = _significant(share * 100)
    text = f"{words} {_short(value)} %"
    if threshold is None:
        return Finding(metric, value, "%", None, text)
    limit, told = _limit(threshold)
    side = "over" if share >= threshold else "under"
    return Finding(metric, value, "%", limit, f"{text}, {side} {told} %")


def number(
    metric: str, value: float | None, unit: str, threshold: float | None, words: str
) -> Finding | None:
    """Make a finding of a quantity; `words` say what of, the numbers are added."""
    if value is None:
        return None
    text = f"{words} {_short(value)} {unit}".rstrip()
    if threshold is None:
        return Finding(metric, _significant(value), unit, None, text)
    side = "over" if value >= threshold else "under"
    told = f"{text}, {side} {_short(threshold)} {unit}".rstrip()
    return Finding(metric, _significant(value), unit, _significant(threshold), told)


@lru_cache(maxsize=256)
def _limit(share: float) -> tuple[float, str]:
    """Return a threshold in percent, and in words: there are few of them."""
    limit = _significant(share * 100)
    return limit, _short(limit)


_WHOLE = frozenset(range(101))
"""Whole percents, as most thresholds are: they have no more digits."""


def _significant(value: float) -> float:
    """Four digits: what a judgement rests on is not known better, and a recording keeps it small."""
    return float(value) if value in _WHOLE else float(f"{value:.4g}")


def _short(value: float) -> str:
    """Two significant digits below ten, whole numbers from there."""
    if abs(value) >= 10:
        return f"{value:.0f}"
    return f"{value:.2g}" if value >= 0.01 else f"{value:.1g}"
