"""How much slower a job is than at its best, from the share of time that its GPUs compute.

A step takes as long as its computing divided by the share of time that computing has. Only a
GPU's own levels count: a table cannot tell half speed from small kernels.
"""

import math

import msgspec

from gpuwatch.model.verdict import Shares
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Pace", "follow", "slowdown"]

_MEMORY_S = 30.0
_LEAST = 0.02
"""Share of computing below which no factor is told: the job stands."""


class Pace(msgspec.Struct, frozen=True, array_like=True):
    """A running mean of half a minute, and its best so far: part of the judge's state."""

    mean: float = 0.0
    seconds: float = 0.0
    best: float = 0.0
    seen_us: int | None = None
    known: bool = False


def follow(pace: Pace, now_us: int, shares: Shares | None) -> Pace:
    """Carry the pace on by one tick; `shares` are the mean of the job's GPUs, None of none."""
    if shares is None or shares.levels != "learned":
        return msgspec.structs.replace(pace, seen_us=now_us, known=False)
    elapsed_s = (now_us - pace.seen_us) / 1e6 if pace.seen_us is not None else 0.0
    if pace.seconds == 0:
        mean = shares.compute
    else:
        mean = pace.mean + (shares.compute - pace.mean) * (1 - math.exp(-elapsed_s / _MEMORY_S))
    seconds = pace.seconds + max(elapsed_s, 1e-6)
    best = max(pace.best, mean) if seconds >= _MEMORY_S else pace.best
    return Pace(mean, seconds, best, now_us, known=True)


def slowdown(pace: Pace, thresholds: Thresholds) -> float | None:
    """Return by which factor steps take longer than at best; None where that is not known."""
    if not pace.known or pace.best == 0 or pace.mean < _LEAST:
        return None
    factor = pace.best / pace.mean
    return round(factor, 2) if factor >= 1 + thresholds.slowdown else 1.0
