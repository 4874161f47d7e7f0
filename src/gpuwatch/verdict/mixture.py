"""What one GPU did with its time: a mixture of computing, spinning, starving and idling.

A node that waits for its peers half of the time reads 97 to 99 % utilisation and a power between
its compute level and its spin level, so no cut-off on either tells anything. Shares do:

    missing = 1 - utilisation                    starved (a rank is there) or idle (none)
    busy power = (power - missing * context) / utilisation
    spin = (compute - busy power) / (compute - spin level), of the busy part

Spinning needs a partner to wait for, and is bounded by device memory traffic: a collective that
waits reads no memory.
"""

from typing import NamedTuple

import msgspec

from gpuwatch.model.verdict import Shares
from gpuwatch.verdict.levels import Levels
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Activity", "Mixture"]

SPIN_TRAFFIC = 0.05
"""Device memory utilisation that a spinning collective may still show."""


class Activity(msgspec.Struct, frozen=True, gc=False):
    """What GPM counts (Hopper and later), as shares: SMs with work, tensor cores, memory traffic."""

    sm: float | None = None
    tensor: float | None = None
    memory: float | None = None

    def split(self) -> tuple[float, float] | None:
        """Return compute and spin as shares of busy time, where one of them is all of it.

        Between the two there are mixtures, which a mean over a window does not tell from work on
        few SMs.
        """
        if self.sm is None:
            return None
        if self.sm >= _WORKS:
            return 1.0, 0.0
        quiet = (self.tensor or 0.0) < _SPINS.tensor and (self.memory or 0.0) < _SPINS.memory
        return (0.0, 1.0) if quiet and self.sm <= _SPINS.sm else None

    def least(self) -> Shares:
        """Return how much is computed at least, where tensor cores work: what is more is not known."""
        works = self.sm is not None and (self.tensor or 0.0) >= _TENSOR_WORKS
        compute = _ramp(_SPINS.sm, 1.0, self.sm) if works and self.sm is not None else 0.0
        return Shares(compute, 0.0, 0.0, 0.0, 1.0 - compute, "gpm" if compute else "none")


class _Spins(NamedTuple):
    sm: float
    tensor: float
    memory: float


_SPINS = _Spins(0.30, 0.02, 0.05)
"""Up to which a collective waits: it keeps one block a channel, 8 to 32 of 132 SMs."""
_TENSOR_WORKS = 0.15
"""Tensor activity of real work (KempnerPulse's classification)."""
_WORKS = 0.75
"""SM activity from which on a GPU computes nearly all of the time."""


class Mixture(msgspec.Struct, frozen=True, gc=False):
    """What is known of a GPU's time: utilisation and power, what it may draw, and who holds it."""

    util: float | None
    power_w: float | None
    memory: float | None
    throttled: float | None
    levels: Levels | None
    occupied: bool
    partner: bool
    thresholds: Thresholds
    activity: Activity = Activity()

    def shares(self) -> tuple[Shares, str]:
        """Return what it did, and in words why that is less sure than it looks; empty if it is not."""
        util, known = self.util, self.levels
        split = self.activity.split()
        if split and split[1] > 0 and not self.partner:
            split = None
        if util is None:
            found = Shares(*split, 0.0, 0.0, 0.0, "gpm") if split else self.activity.least()
            return found, "utilisation is not reported"
        resting = util <= self.thresholds.gpu_idle
        if resting and known and self.power_w is not None and self.power_w >= known.compute_w:
            return _unknown(1.0), "utilisation reads 0 at high power: not reliable"
        missing = 1.0 - util
        starved, idle = (missing, 0.0) if self.occupied else (0.0, missing)
        if known is None or self.power_w is None:
            if split and not resting:
                compute, spin = (part * util for part in split)
                return Shares(compute, spin, starved, idle, 0.0, "gpm"), ""
            shares = Shares(0.0, 0.0, starved, idle, util)
            return shares, "" if resting else "power, or its limit, is not reported"
        if resting:
            return Shares(0.0, 0.0, starved, idle, util, "table"), ""
        busy_w = max(0.0, self.power_w - missing * known.context_w) / util
        by_gpm = split if known.source != "learned" else None
        compute, spin = by_gpm or self._split(known, busy_w)
        compute, spin, doubt = self._plausible(compute, spin)
        unknown = max(0.0, 1.0 - compute - spin)
        parts = Shares(
            compute=compute * util,
            spin=spin * util,
            starved=starved,
            idle=idle,
            unknown=unknown * util,
            levels="gpm" if by_gpm else known.source,
        )
        return parts, doubt

    def _split(self, known: Levels, busy_w: float) -> tuple[float, float]:
        """Return compute and spin as shares of the busy time."""
        if known.learned_w is not None:
            spin = _ramp(known.learned_w, known.spin_w, busy_w)
            if known.learned_w >= known.compute_w:
                return 1.0 - spin, spin
            compute, base = _by_table(known, known.learned_w)
            return compute * (1.0 - spin), spin + base * (1.0 - spin)
        return _by_table(known, busy_w)

    def _plausible(self, compute: float, spin: float) -> tuple[float, float, str]:
        """Move what cannot be spinning to where it belongs."""
        throttled = self.throttled or 0.0
        if throttled >= self.thresholds.throttled:
            return compute + spin, 0.0, "slowed by heat: power tells no waiting"
        known = self.levels
        own = known is not None and known.source == "learned"
        learned = own and known is not None and (known.learned_w or 0.0) >= known.compute_w
        if self.memory is None:
            return compute, spin, "memory utilisation is not reported" if spin > 0 else ""
        bound = max(0.0, 1.0 - max(0.0, self.memory - SPIN_TRAFFIC))
        if not learned and self.memory >= self.thresholds.memory_activity:
            bound = 0.0
        work = max(0.0, spin - bound)
        compute, spin = compute + work, spin - work
        if bound == 0.0 or self.memory >= self.thresholds.compute:
            compute = 1.0 - spin
        if not self.partner and spin > 0:
            return compute, 0.0, "low power, and no other rank to wait for"
        return compute, spin, ""


def _by_table(known: Levels, busy_w: float) -> tuple[float, float]:
    """Without an own level: sure at both ends, undetermined in the middle.

    Just above what spinning draws there is low-intensity work as well, so spin ends early.
    """
    along = 1.0 - _ramp(known.compute_w, known.spin_max_w, busy_w)
    return max(0.0, 2 * along - 1), max(0.0, 1 - 4 * along)


def _ramp(clean: float, bad: float, value: float) -> float:
    return min(1.0, max(0.0, (value - clean) / (bad - clean))) if bad != clean else 0.0


def _unknown(share: float) -> Shares:
    return Shares(0.0, 0.0, 0.0, 0.0, share)
