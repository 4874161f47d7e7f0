"""One rank: every cause is asked, the likeliest stands first."""

from collections.abc import Iterable, Sequence

import msgspec

from gpuwatch.model.verdict import Missing, Shares
from gpuwatch.verdict.causes import asked, peer
from gpuwatch.verdict.evidence import (
    Assessment,
    Context,
    asleep,
    once_a_node,
    percent,
    ramp,
    reason,
)
from gpuwatch.verdict.paths import Path, of_rank

__all__ = ["LOCAL", "Opinion", "judge", "mean", "name_of", "unknown"]

LOCAL = ("STORAGE", "CPU", "GPU", "HOST-LINK", "MEMORY")
"""States that have their cause on the node itself: what they cost is no waiting for others."""
_SOURCES = ("nvml", "threads", "tcp", "nic", "disk", "cpu")
"""Sources that verdicts rest on: what of these could not be read is always told."""
_HELD = 0.7
"""How much of the confidence that a rank computes a sure cause of waiting takes."""
_TELLING = 0.5
"""Share of GPU time that must be known before a rank can be said not to wait."""


class Opinion(msgspec.Struct, frozen=True, gc=False):
    """What one tick says of a rank or a node, before time has its say.

    `ranking` has the likeliest first and is never empty; `wait` is the share in which it waited
    for others, None where that is not known; `low` names the ranks that the rest waits for;
    `disorder` is the node's, as in `features.Host`; `paths` are its ways to other nodes of the job;
    `easing` as in `gpu.Gpu`.
    """

    node: str
    rank: str | None
    group: str | None
    ranking: tuple[Assessment, ...]
    wait: float | None
    shares: Shares | None
    missing: tuple[Missing, ...] = ()
    low: tuple[str, ...] = ()
    gpu: int | None = None
    disorder: float | None = None
    paths: tuple[Path, ...] = ()
    easing: bool = False


def name_of(node: str, rank: str) -> str:
    """Return a rank as a person would name it."""
    kind, _, number = rank.partition(":")
    return f"{kind} {number} of {node}" if number else f"rank {rank} of {node}"


def judge(node: str, rank: str, group: str | None, gpu: int | None, context: Context) -> Opinion:
    """Judge one rank by all causes."""
    found = [a for cause in asked(context) if (a := cause.assess(context)).score > 0]
    found = _rest(found, _slowed(context))
    found.sort(key=lambda a: -a.confidence)
    return Opinion(
        node,
        rank,
        group,
        (*found, unknown(context)),
        _wait(context, found),
        context.gpu.shares,
        _missing(context),
        gpu=gpu,
        disorder=context.host.disorder,
        paths=of_rank(node, context),
        easing=context.gpu.easing,
    )


@once_a_node
def _missing(context: Context) -> tuple[Missing, ...]:
    return tuple(
        Missing(subject, why)
        for subject, why in context.absent.items()
        if subject.partition(".")[0] in _SOURCES
    )


def _rest(found: Sequence[Assessment], slowed: float) -> list[Assessment]:
    """Believe the less that a rank computes, the surer it is that something holds it up."""
    held = max([slowed, *(a.confidence for a in found if a.state in (*LOCAL, "NETWORK"))])
    return [
        msgspec.structs.replace(a, score=a.score * (1 - _HELD * held))
        if a.state == "COMPUTE"
        else a
        for a in found
    ]


def _slowed(context: Context) -> float:
    """Return how surely the job is slow, by its own log, for others than this rank, which spins."""
    t, lost = context.thresholds, context.peers.lost
    slow = ramp(lost, t.slowdown, 2 * t.slowdown)
    return slow * peer.opening(context) if slow else 0.0


def unknown(context: Context) -> Assessment:
    """Return what is said when no cause stands out: what was seen, and what was not."""
    gpu, shares, lost = context.gpu, context.gpu.shares, context.thresholds.lost
    parts = (
        ("gpu.unknown", shares.unknown, None, "GPU time that could not be told"),
        ("gpu.spin", shares.spin, lost, "GPU spins"),
        ("gpu.starved", shares.starved, lost, "GPU starved"),
    )
    support = [found for part in parts if part[1] and (found := percent(*part))]
    support.sort(key=lambda f: -(f.value or 0.0))
    return Assessment(
        "UNKNOWN",
        None,
        0.0,
        support=tuple(support),
        missing=(
            ()
            if gpu.util is not None and gpu.power_w is not None
            else (Missing("nvml", reason(context, "nvml")),)
        ),
        text=f"shows no clear cause: {_why(context)}",
    )


def mean(shares: Sequence[Shares | None]) -> Shares | None:
    """Return the mean of several GPUs' shares; None of none."""
    known = [s for s in shares if s is not None]
    if not known:
        return None
    return Shares(
        compute=_mean(s.compute for s in known),
        spin=_mean(s.spin for s in known),
        starved=_mean(s.starved for s in known),
        idle=_mean(s.idle for s in known),
        unknown=_mean(s.unknown for s in known),
        levels=min((s.levels for s in known), key=_TRUST.index),
    )


_TRUST = ("none", "table", "baseline", "learned", "gpm")


def _mean(values: Iterable[float]) -> float:
    """Return a mean that does not depend on the order."""
    ordered = sorted(values)
    return sum(ordered) / len(ordered)


def _wait(context: Context, found: Sequence[Assessment]) -> float | None:
    shares = context.gpu.shares
    if not context.held or shares.unknown >= _TELLING:
        return None
    local = max((a.confidence for a in found if a.state in LOCAL), default=0.0)
    return shares.spin * (1 - local)


def _why(context: Context) -> str:
    if context.gpu.doubt:
        return context.gpu.doubt
    loaders = context.role("loader").waits
    if context.gpu.shares.starved >= context.thresholds.lost and loaders:
        polls = loaders.share("poll")
        if polls >= context.thresholds.storage_wait:
            return (
                f"its GPU is starved and its loaders sleep in poll {polls * 100:.0f} % of the time, which"
                " may be an object store or full queues"
            )
    if context.rank is not None and asleep(context):
        return "its GPU does nothing, as while starting up, compiling or evaluating"
    if context.rank is None and context.held:
        return "its GPU is in use and none of the job's ranks was found"
    return "nothing is over its threshold for long enough"
