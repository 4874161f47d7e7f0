"""CPU/numa: a rank may run only on CPUs that are far from its GPU, and its GPU starves.

Far memory and a far PCIe root make launches and copies slower, seldom by more than a fifth: that a
rank is far proves little unless all that are far starve, and none that is near does. Near ones may be
busy in waiting for it: that one rank alone is far and late may be chance.
"""

from gpuwatch.verdict.causes import pcie
from gpuwatch.verdict.causes.data_prep import busy
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    once,
    once_a_node,
    percent,
    ramp,
)
from gpuwatch.verdict.features.numa import Placed, placed

NAME = Kind("CPU", "numa")
_BETTER = (0.05, 0.2)
"""How much more the GPUs of all near ranks are in use than that of any far one."""
_FAR_ALONE = 0.6
"""What being far is worth before any rank that is near does better."""
_SEVERAL_CAP = 0.8
"""Several are far, and late, for one reason, which may be another on that side of the node."""
_ONE_CAP = 0.6
"""That one alone is far and late may be chance."""
_FAR_CAP = 0.4
"""No rank of the node is near, or those do no better: why it is slow may be anything."""


@once
def severity(context: Context) -> float:
    """Return how surely being far is what a rank is slower by than others, 0 to 1."""
    return ramp(_better(context), *_BETTER)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, starved = context.thresholds, context.gpu.shares.starved
    opened = gate(starved, t)
    own = _own(context) if opened else None
    work = _works(context) if own and own.far else 0.0
    if own is None or work == 0:
        return NOTHING
    sure = severity(context)
    cpus = "" if own.cpus is None else f" {own.cpus:.0f}"
    return assessment(
        context,
        NAME,
        opened * work * (_FAR_ALONE + (0.95 - _FAR_ALONE) * sure),
        text=f"may run only on{cpus} CPUs that are far from its GPU"
        + (", and is slower than all ranks that are near" if sure else ""),
        support=(
            percent("gpu.starved", starved, t.lost, "GPU starved"),
            percent("placement.better", _better(context), _BETTER[1], "GPUs of near ranks in use more, by"),
            percent("thread_group.main.run", context.role("main").run, None, "main thread on a CPU"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("threads.wchan", context.role("main").waits is not None, 0.1),),
        cap=_cap(context) if sure else _FAR_CAP,
    )  # fmt: skip


def _works(context: Context) -> float:
    """Return how surely the host's part of a step is what the GPU starves for, 0 to 1."""
    t, link = context.thresholds, pcie.links(context).get(context.card or ())
    loaders = ramp(busy(context), t.loader_busy / 2, t.loader_busy)
    main = ramp(context.role("main").run, t.main_busy / 2, t.main_busy)
    return max(main, loaders, ramp(link.used if link else None, 0.1, 0.4))


def _better(context: Context) -> float | None:
    """Return by how much the GPUs of near ranks are in use more; None where there is none to compare."""
    own = _own(context)
    if own is None or not own.far or own.util is None:
        return None
    near = [p.util for p in _ours(context) if not p.far and p.util is not None]
    far = [p.util for p in _ours(context) if p.far and p.util is not None]
    return min(near) - max(far) if near else None


def _cap(context: Context) -> float:
    several = sum(p.far for p in _ours(context)) > 1
    return _SEVERAL_CAP if several else _ONE_CAP


def _ours(context: Context) -> list[Placed]:
    """Return where the ranks of the same job are: others work at a pace of their own."""
    group = context.rank.group if context.rank else None
    return [p for (g, _), p in _placed(context).items() if g == group]


def _own(context: Context) -> Placed | None:
    rank = context.rank
    return _placed(context).get((rank.group, rank.rank)) if rank else None


@once_a_node
def _placed(context: Context) -> dict[tuple[str, str], Placed]:
    return placed(context.fast)


__all__ = ["NAME", "assess", "severity"]
