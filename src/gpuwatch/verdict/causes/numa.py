"""CPU/numa: a rank may run only on CPUs that are far from its GPU, and its GPU starves.

Far memory and a far PCIe root make launches and copies slower, seldom by more than a fifth: that a
rank is far proves little unless ranks of the same node that are near do better.
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
"""How much busier GPUs are whose ranks are near."""
_FAR_ALONE = 0.6
_CONTRAST_CAP = 0.8
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
    better, sure = _better(context), severity(context)
    cpus = "" if own.cpus is None else f" {own.cpus:.0f}"
    return assessment(
        context,
        NAME,
        opened * work * (_FAR_ALONE + (0.95 - _FAR_ALONE) * sure),
        text=f"may run only on{cpus} CPUs that are far from its GPU"
        + (f": ranks that are near keep theirs {better * 100:.0f} % busier" if better else ""),
        support=(
            percent("gpu.starved", starved, t.lost, "GPU starved"),
            percent("placement.better", better, _BETTER[1], "GPUs of near ranks busier by"),
            percent("thread_group.main.run", context.role("main").run, None, "main thread on a CPU"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("threads.wchan", context.role("main").waits is not None, 0.1),),
        cap=_CONTRAST_CAP if sure else _FAR_CAP,
    )  # fmt: skip


def _works(context: Context) -> float:
    """Return how surely the host's part of a step is what the GPU starves for, 0 to 1."""
    t, link = context.thresholds, pcie.links(context).get(context.card or ())
    loaders = ramp(busy(context), t.loader_busy / 2, t.loader_busy)
    main = ramp(context.role("main").run, t.main_busy / 2, t.main_busy)
    return max(main, loaders, ramp(link.used if link else None, 0.1, 0.4))


def _better(context: Context) -> float | None:
    """Return by how much the GPUs of near ranks are busier; None where there is none to compare."""
    own = _own(context)
    if own is None or not own.far or own.util is None:
        return None
    near = [p.util for p in _placed(context).values() if not p.far and p.util is not None]
    return min(near) - own.util if near else None


def _own(context: Context) -> Placed | None:
    rank = context.rank
    return _placed(context).get((rank.group, rank.rank)) if rank else None


@once_a_node
def _placed(context: Context) -> dict[tuple[str, str], Placed]:
    return placed(context.fast)


__all__ = ["NAME", "assess", "severity"]
