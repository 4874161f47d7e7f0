"""MEMORY/reclaim and MEMORY/swap: threads wait for memory, or read again what had to give way.

Thrashing looks like storage: a cgroup at its limit drops pages of files that loaders read again
at once, and its memory pressure may stay at 0 meanwhile. Refaults tell.
"""

from gpuwatch.agent.waits import STORAGE
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    input_lost,
    number,
    once,
    percent,
    ramp,
)

NAMES = (Kind("MEMORY", "reclaim"), Kind("MEMORY", "swap"))
_SWAPS = (1.0, 20.0)
"""MB/s read from swap: below it is what nobody needs any more."""
_REFAULTS = (5.0, 50.0)
"""MB/s of files read again soon after they were dropped, at a full cgroup."""
_FULL = (0.9, 0.98)
"""Share of its limit that a cgroup's memory takes: page cache fills it up in any case."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, lost, memory = context.thresholds, input_lost(context), context.host.memory
    opened = gate(lost, t)
    if opened == 0:
        return NOTHING
    waits = blocked(context)
    thrash = thrashing(context)
    swaps = ramp(memory.swap_mb_s, *_SWAPS) * ramp(
        _stalled(context), t.storage_wait / 2, t.storage_wait
    )
    held = ramp(waits, t.storage_wait / 2, 2 * t.storage_wait)
    score = max(held, swaps, thrash)
    if score == 0:
        return NOTHING
    swapped = ramp(memory.swap_mb_s, *_SWAPS) > 0
    return assessment(
        context,
        NAMES[swapped],
        opened * 0.95 * score,
        text=_text(context, waits, thrash),
        support=(
            percent("thread_wait.memory", waits, t.storage_wait, "threads wait for memory"),
            number("swap_in_pages", memory.swap_mb_s, "MB/s", _SWAPS[1], "read from swap"),
            number("refaults", _refaults(context), "MB/s", _REFAULTS[1], "of files read again"),
            percent("cgroup.memory", _fullness(context), _FULL[1], "memory of its cgroup in use"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(
            Signal("threads.wchan", context.role("main").waits is not None, 0.1),
            Signal("memory", memory.swap_mb_s is not None, 0.1),
        ),
    )


def blocked(context: Context) -> float:
    """Return the largest share of thread samples in reclaim, compaction or swap."""
    roles = (context.role(name).waits for name in ("loader", "main"))
    return max((waits.share("memory") for waits in roles if waits), default=0.0)


def thrashing(context: Context) -> float:
    """Return how surely reads are of what a full cgroup has just dropped, 0 to 1."""
    t = context.thresholds
    again = ramp(_refaults(context), *_REFAULTS) * ramp(_fullness(context), *_FULL)
    return again * ramp(_stalled(context), t.storage_wait / 2, t.storage_wait)


@once
def _stalled(context: Context) -> float:
    roles = (context.role(name).waits for name in ("loader", "main"))
    return max((w.share("memory", *STORAGE) for w in roles if w), default=0.0)


def _refaults(context: Context) -> float | None:
    return context.rank.allowance.refault_mb_s if context.rank else None


def _fullness(context: Context) -> float | None:
    return context.rank.allowance.memory if context.rank else None


def _text(context: Context, waits: float, thrash: float) -> str:
    swapped = context.host.memory.swap_mb_s or 0.0
    if swapped >= _SWAPS[0]:
        return f"waits for memory: {swapped:.0f} MB/s come back from swap"
    if thrash > 0:
        return "reads again what its full cgroup has just dropped: its memory limit is too tight"
    return f"waits for memory: threads in reclaim {waits * 100:.0f} %"


__all__ = ["NAMES", "assess", "blocked", "thrashing"]
