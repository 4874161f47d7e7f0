"""What one GPU did with its time: a mixture of computing, spinning, starving and idling.

A node that waits for its peers half of the time reads 97 to 99 % utilisation and a power between
its compute level and its spin level, so no cut-off on either tells anything. Shares do:

    missing = 1 - utilisation                    starved (a rank is there) or idle (none)
    busy power = (power - missing * context) / utilisation
    spin = (compute - busy power) / (compute - spin level), of the busy part

Spinning needs a partner to wait for, and is bounded by device memory traffic: a collective that
waits reads no memory.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Labels
from gpuwatch.model.verdict import Shares
from gpuwatch.model.view import Columns, Point, Window
from gpuwatch.verdict.levels import Learned, Levels, levels
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Gpu", "full_power", "read", "rested", "unread", "working"]

FULL = 0.9
"""Utilisation from which on a window counts as full work."""
SPIN_TRAFFIC = 0.05
"""Device memory utilisation that a spinning collective may still show."""
_REASONS = catalogue.INDEX["gpu"]["event_reasons"]
_IDLE_REASON = 0x1
"""Nothing runs on the GPU (nvmlClocksEventReasonGpuIdle)."""
_ENOUGH_LOOKS = 5
_EASES = 0.15
"""How much more of the time a GPU must compute now than in the window for a wait to be over."""
_HEAT = ("throttle_sw_thermal_ns", "throttle_hw_thermal_ns", "throttle_hw_brake_ns")
_RATES = Columns(
    "gpu", "util_pct", "memory_util_pct", "power_w", "power_limit_w", "sm_clock_mhz",
    "sm_clock_max_mhz", "gpm_sm_pct", "gpm_tensor_pct", "gpm_dram_pct", *_HEAT,
)  # fmt: skip
_WORK = Columns("gpu", "util_pct", "power_w", *_HEAT)


class Gpu(msgspec.Struct, frozen=True):
    """One GPU over one window; None is what could not be read.

    `doubt` says in words why `shares` are less sure than they look; empty when they are not.
    `worked` tells whether its process was ever seen to use it, in the `watched_s` since that was
    first seen. `fresh_xid` is the last critical error, where one came just now.
    `trip_ms` is how long its rank's round trips were in good minutes, `least_trip_ms` at least while
    it worked at all. `easing` tells that it computes again: what the window saw before is over.
    """

    shares: Shares
    util: float | None = None
    power_w: float | None = None
    limit_w: float | None = None
    compute_w: float | None = None
    memory_util: float | None = None
    throttled: float | None = None
    clock: float | None = None
    doubt: str = ""
    worked: bool = False
    watched_s: float = 0.0
    lost: bool = False
    fresh_xid: int | None = None
    trip_ms: float | None = None
    least_trip_ms: float | None = None
    easing: bool = False


def unread(reason: str) -> Gpu:
    """Return a GPU of which nothing is known."""
    return Gpu(Shares(0.0, 0.0, 0.0, 0.0, 1.0), doubt=reason)


def read(
    window: Window,
    slow: Window,
    latest: Window,
    labels: Labels,
    *,
    now_us: int,
    occupied: bool,
    partner: bool,
    learned: Learned | None,
    thresholds: Thresholds,
    rests: float | None = None,
) -> Gpu:
    """Return what a GPU did in a window.

    Args:
        window: of its node.
        slow: where what is rare is looked for.
        latest: the end of the first.
        labels: the GPU's, as in the `gpu` table.
        now_us: viewer's monotonic clock.
        occupied: whether a rank, or some process, holds it.
        partner: whether there is a second rank that it could wait for.
        learned: what its process did before.
        thresholds: of the judge.
        rests: share of looks in which it was idle, which stands for a utilisation not reported.
    """
    util_pct, memory_pct, power_w, limit_w, clock, top, sm, tensor, dram, *heat = window.rates_of(
        labels, _RATES
    )
    told, memory, throttled = _share(util_pct), _share(memory_pct), _throttled(heat)
    util = _utilisation(told, rests)
    known = None
    if limit_w:
        known = levels(str(labels[2]), limit_w, learned, thresholds)
    activity = Activity(_share(sm), _share(tensor), _share(dram))
    mixture = _Mixture(
        util, power_w, memory, throttled, known, occupied, partner, thresholds, activity
    )
    shares, doubt = mixture.shares()
    now = msgspec.structs.replace(
        mixture,
        util=_utilisation(_share(latest.rate("gpu", labels, "util_pct")), rests),
        power_w=latest.rate("gpu", labels, "power_w"),
    )
    compute = now.shares()[0].compute
    if told is None and util is not None:
        doubt = doubt or "utilisation is not reported: power and idle clocks stand for it"
    return Gpu(
        shares,
        util,
        power_w,
        limit_w,
        (known.learned_w or known.compute_w) if known else None,
        memory,
        throttled,
        clock / top if clock is not None and top else None,
        doubt,
        worked=learned is not None and learned.worked,
        watched_s=(now_us - learned.since_us) / 1e6 if learned else 0.0,
        lost=window.latest("gpu", labels, "gpu_lost") == 1,
        fresh_xid=_fresh_xid(slow, labels),
        trip_ms=learned.trip_ms if learned else None,
        least_trip_ms=learned.least_trip_ms if learned else None,
        easing=compute >= max(thresholds.compute, shares.compute + _EASES),
    )


def rested(points: Sequence[Point], labels: Labels) -> float | None:
    """Return the share of samples in which the driver says that nothing runs; None of too few."""
    reasons = [
        int(bits)
        for point in points
        for row in point.sample.rows("gpu")
        if row.labels == labels and (bits := row.values[_REASONS]) is not None
    ]
    if len(reasons) < _ENOUGH_LOOKS:
        return None
    return sum(bool(one & _IDLE_REASON) for one in reasons) / len(reasons)


def _utilisation(told: float | None, rests: float | None) -> float | None:
    return told if told is not None or rests is None else 1.0 - rests


def working(
    window: Window, labels: Labels, thresholds: Thresholds, rests: float | None = None
) -> bool:
    """Tell whether a GPU is at work: more than the blips of a start-up."""
    util = _utilisation(_share(window.rate("gpu", labels, "util_pct")), rests)
    return (util or 0.0) >= thresholds.lost


def full_power(
    window: Window, labels: Labels, thresholds: Thresholds, rests: float | None = None
) -> float | None:
    """Return the mean power of a window of full, unthrottled work, in watts; else None."""
    util_pct, power_w, *heat = window.rates_of(labels, _WORK)
    util = _utilisation(_share(util_pct), rests)
    if util is None or util < FULL or (_throttled(heat) or 0.0) >= thresholds.throttled:
        return None
    return power_w if window.coverage("gpu", labels, "power_w") >= FULL else None


class Activity(msgspec.Struct, frozen=True):
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


class _Mixture(msgspec.Struct, frozen=True):
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
        util, known = self.util, self.levels
        split = self.activity.split()
        if split and split[1] > 0 and not self.partner:
            split = None
        if util is None:
            found = Shares(*split, 0.0, 0.0, 0.0, "gpm") if split else self.activity.least()
            return found, "utilisation is not reported"
        resting = util < self.thresholds.gpu_idle
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
        by_gpm = split if known.learned_w is None else None
        compute, spin = by_gpm or self._split(known, busy_w)
        compute, spin, doubt = self._plausible(compute, spin)
        unknown = max(0.0, 1.0 - compute - spin)
        parts = Shares(
            compute=compute * util,
            spin=spin * util,
            starved=starved,
            idle=idle,
            unknown=unknown * util,
            levels="gpm" if by_gpm else "table" if known.learned_w is None else "learned",
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
        learned = known is not None and (known.learned_w or 0.0) >= known.compute_w
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


def _share(percent: float | None) -> float | None:
    return None if percent is None else min(1.0, percent / 100)


def _throttled(kinds: Sequence[float | None]) -> float | None:
    """Return the share of time that heat or brake slowed the GPU: the largest of the kinds."""
    read = [ns / 1e9 for ns in kinds if ns is not None]
    return min(1.0, max(read)) if read else None


def _fresh_xid(window: Window, labels: Labels) -> int | None:
    number = window.latest("gpu", labels, "xid")
    return int(number) if number and window.growth("gpu", labels, "xids") else None
