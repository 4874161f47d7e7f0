"""GPU/shared: another job's process works on the same GPU, and both are slower for it.

A context alone costs memory, not time: the other has to work as well, and this rank's GPU has to be
at work, not waiting. Ranks of one job may share a GPU on purpose, and take turns. A process that is
no rank may be a rank's own helper: an asynchronous checkpoint has a context of its own.
"""

from gpuwatch.agent.metric import Label
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    assessment,
    number,
    once_a_node,
    percent,
    ramp,
)
from gpuwatch.verdict.features.sharing import Guest, Sharing, sharing

NAME = Kind("GPU", "shared")
_WORKS = (0.05, 0.3)
"""Part of a CPU that a process's main thread uses while it gives a GPU work."""
_OWN_CAP = 0.5
"""Ranks of one job may share a GPU on purpose."""
_OTHER_CAP = 0.6
"""A rank that works, and has a context here, may do its work on another GPU."""
_UNKNOWN_CAP = 0.4
"""A process that is no rank may be a rank's own helper, and do nothing."""
_MUCH_BYTES = (1e9, 4e9)
"""Memory that a context alone does not take: it is about half a gigabyte."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, rank, shares = context.thresholds, context.rank, context.gpu.shares
    works = ramp(shares.compute, t.lost, t.compute)
    seen = _seen(context).get(context.card[0]) if works and context.card else None
    if rank is None or seen is None or seen.split:
        return NOTHING
    others = [g for g in seen.ranks if (g.group, g.rank) != (rank.group, rank.rank)]
    if len(others) == len(seen.ranks):
        return NOTHING
    guest = max(others, key=lambda g: (g.group != rank.group, g.busy or 0.0, g.rank), default=None)
    known = _known(context, guest, works) if guest else NOTHING
    return known if known.score > 0 else _unknown(context, seen, works)


def _known(context: Context, guest: Guest, works: float) -> Assessment:
    own = context.rank is not None and guest.group == context.rank.group
    whose = f"rank {guest.rank} of the same job" if own else f"rank {guest.rank} of another job"
    return assessment(
        context,
        NAME,
        0.85 * works * ramp(guest.busy, *_WORKS),
        text=f"shares its GPU with {whose}, which works as well",
        support=(
            percent("gpu_process.busy", guest.busy, _WORKS[1], "the other's main thread on a CPU"),
            percent("gpu.compute", context.gpu.shares.compute, context.thresholds.compute, "GPU computes"),
        ),
        against=(percent("gpu.spin", context.gpu.shares.spin, context.thresholds.lost, "GPU spins"),),
        cap=_OWN_CAP if own else _OTHER_CAP,
    )  # fmt: skip


def _unknown(context: Context, seen: Sharing, works: float) -> Assessment:
    held = seen.others_bytes
    many = "a process" if seen.others == 1 else f"{seen.others} processes"
    return assessment(
        context,
        NAME,
        works * ramp(held, *_MUCH_BYTES),
        text=f"has {many} on its GPU that {'is' if seen.others == 1 else 'are'} no rank, with"
        f" {(held or 0.0) / 2**30:.1f} GiB of its memory",
        support=(
            number("gpu_process.others", (held or 0.0) / 2**30, "GiB", _MUCH_BYTES[1] / 2**30, "held by others"),
            percent("gpu.compute", context.gpu.shares.compute, context.thresholds.compute, "GPU computes"),
        ),
        against=(percent("gpu.spin", context.gpu.shares.spin, context.thresholds.lost, "GPU spins"),),
        cap=_UNKNOWN_CAP,
    )  # fmt: skip


@once_a_node
def _seen(context: Context) -> dict[Label, Sharing]:
    return sharing(context.fast)


__all__ = ["NAME", "assess"]
