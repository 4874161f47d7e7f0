"""How much slower a job is than at its best: by its own steps, else by its GPUs' computing.

Steps that the job's log tells are the true witness. The shortest ever seen may not be its best: so
that it is slow is known by them at once, that it is not only if it was ever seen to work well.
Without a log: a step takes as long as its computing divided by the share of time that computing has. Only a
GPU's own levels count: a table cannot tell half speed from small kernels. Only a time in which the
job was judged to compute can be its best: whoever comes late has seen no good minute.
"""

import math

import msgspec

from gpuwatch.model.progress import Progress
from gpuwatch.model.verdict import Shares
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Pace", "follow", "follow_steps", "lost_by_steps", "slowdown"]

_MEMORY_S = 20.0
_LEAST = 0.02
"""Share of computing below which no factor is told: the job stands."""
_SPAN_S = 15.0
"""A step period from less is too coarse to be the best: logs are looked at once a tick,"""
_STEPS = 4
"""and of steps that vary, some few in a row are shorter than they are in the mean."""


class Pace(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A running mean of the last seconds, and its best so far: part of the judge's state.

    `working_s` is how long the job has been judged to compute without a break; `step_s` is how
    long a step takes now by the job's log, `best_step_s` the least of it so far.
    """

    mean: float | None = None
    working_s: float = 0.0
    best: float = 0.0
    seen_us: int | None = None
    known: bool = False
    step_s: float | None = None
    best_step_s: float | None = None


def follow(pace: Pace, now_us: int, shares: Shares | None, *, working: bool) -> Pace:
    """Carry the pace on by one tick.

    Args:
        pace: as it was.
        now_us: of the tick.
        shares: mean of the job's GPUs; None of none.
        working: whether the job is judged to compute.
    """
    if shares is None or shares.levels != "learned":
        return msgspec.structs.replace(pace, seen_us=now_us, working_s=0.0, known=False)
    elapsed_s = (now_us - pace.seen_us) / 1e6 if pace.seen_us is not None else 0.0
    mean = shares.compute
    if pace.mean is not None:
        mean = pace.mean + (mean - pace.mean) * (1 - math.exp(-elapsed_s / _MEMORY_S))
    working_s = pace.working_s + elapsed_s if working else 0.0
    best = max(pace.best, mean) if working_s >= _MEMORY_S else pace.best
    return msgspec.structs.replace(
        pace, mean=mean, working_s=working_s, best=best, seen_us=now_us, known=True
    )


def follow_steps(pace: Pace, progress: Progress | None) -> Pace:
    """Carry the steps on by one tick.

    Args:
        pace: as it was.
        progress: what the job's log tells; None when there is none.
    """
    step_s = progress.period_s if progress is not None and progress.moving else None
    best_s = pace.best_step_s
    if (
        progress is not None
        and step_s is not None
        and progress.span_s >= max(_SPAN_S, _STEPS * step_s)
    ):
        best_s = min(step_s, step_s if best_s is None else best_s)
    return msgspec.structs.replace(pace, step_s=step_s, best_step_s=best_s)


def lost_by_steps(pace: Pace) -> float:
    """Return which share of time the job loses by its own log, beside its best; 0 where unknown."""
    if not pace.step_s or not pace.best_step_s:
        return 0.0
    return max(0.0, 1 - pace.best_step_s / pace.step_s)


def slowdown(pace: Pace, thresholds: Thresholds) -> float | None:
    """Return by which factor steps take longer than at best; None where that is not known."""
    if pace.step_s is not None and pace.best_step_s:
        factor = pace.step_s / pace.best_step_s
        if factor >= 1 + thresholds.slowdown:
            return round(factor, 2)
        return 1.0 if pace.best else None
    if not pace.known or pace.best == 0 or pace.mean is None or pace.mean < _LEAST:
        return None
    factor = pace.best / pace.mean
    return round(factor, 2) if factor >= 1 + thresholds.slowdown else 1.0
