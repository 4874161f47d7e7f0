"""What was read of one GPU, and what it did with its time."""

from collections.abc import Sequence

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.verdict import Shares
from gpuwatch.model.view import Columns, Window
from gpuwatch.verdict.levels import Learned, levels
from gpuwatch.verdict.mixture import Activity, Mixture
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Gpu", "Seen", "full_power", "read", "rested", "seen", "unread"]

FULL = 0.9
"""Utilisation from which on a window counts as full work."""
_IDLE_REASON = 0x1
"""Nothing runs on the GPU (nvmlClocksEventReasonGpuIdle)."""
_ENOUGH_LOOKS = 5
_EASES = 0.15
"""How much more of the time a GPU must compute now than in the window for a wait to be over."""
_HEAT = ("throttle_sw_thermal_ns", "throttle_hw_thermal_ns", "throttle_hw_brake_ns")
_RATES = Columns(
    "gpu", "util_pct", "memory_util_pct", "power_w", "power_limit_w", "sm_clock_mhz",
    "sm_clock_max_mhz", "gpm_sm_pct", "gpm_tensor_pct", "gpm_dram_pct", "power_smoothing", *_HEAT,
)  # fmt: skip
_WORK = Columns("gpu", "util_pct", "power_w", *_HEAT)
_LATEST = Columns("gpu", "util_pct", "power_w")
_NOT_MONITORED = Activity()


class Gpu(msgspec.Struct, frozen=True, gc=False):
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


class Seen(msgspec.Struct, frozen=True, gc=False):
    """What was read of a GPU over one window; None is what could not be read.

    `told` is the utilisation that is reported, `util` that or what stands for it. `smoothed` tells
    that the driver holds power up, whatever the GPU does.
    """

    told: float | None
    util: float | None
    memory: float | None
    power_w: float | None
    limit_w: float | None
    clock: float | None
    throttled: float | None
    activity: Activity
    smoothed: bool

    def works(self, thresholds: Thresholds) -> bool:
        """Tell whether it is at work: more than the blips of a start-up."""
        return (self.util or 0.0) >= thresholds.lost


def seen(window: Window, labels: Labels, rests: float | None) -> Seen:
    """Return what was read of a GPU.

    Args:
        window: of its node.
        labels: the GPU's, as in the `gpu` table.
        rests: share of looks in which it was idle, which stands for a utilisation not reported.
    """
    util_pct, memory_pct, power_w, limit_w, clock, top, sm, tensor, dram, smooth, *heat = (
        window.rates_of(labels, _RATES)
    )
    told = _share(util_pct)
    return Seen(
        told,
        _utilisation(told, rests),
        _share(memory_pct),
        power_w,
        limit_w,
        clock / top if clock is not None and top else None,
        _throttled(heat),
        _NOT_MONITORED if sm is None and tensor is None and dram is None
        else Activity(_share(sm), _share(tensor), _share(dram)),
        bool(smooth),
    )  # fmt: skip


def read(
    now: Seen,
    slow: Window,
    latest: Window,
    labels: Labels,
    *,
    now_us: int,
    occupied: bool,
    partner: bool,
    learned: Learned | None,
    thresholds: Thresholds,
    baseline_w: float | None = None,
    rests: float | None = None,
) -> Gpu:
    """Return what a GPU did in a window.

    Args:
        now: what was read of it in the window.
        slow: where what is rare is looked for.
        latest: the end of the first window.
        labels: the GPU's, as in the `gpu` table.
        now_us: viewer's monotonic clock.
        occupied: whether a rank, or some process, holds it.
        partner: whether there is a second rank that it could wait for.
        learned: what its process did before.
        thresholds: of the judge.
        baseline_w: what full work drew in a good run.
        rests: as in `seen`.
    """
    known = None
    if now.limit_w and not now.smoothed:
        known = levels(str(labels[2]), now.limit_w, learned, thresholds, baseline_w)
    mixture = Mixture(
        now.util, now.power_w, now.memory, now.throttled, known, occupied, partner, thresholds,
        now.activity,
    )  # fmt: skip
    shares, doubt = mixture.shares()
    if now.smoothed and doubt:
        doubt = "power smoothing holds its power up: power tells no waiting"
    if now.told is None and now.util is not None:
        doubt = doubt or "utilisation is not reported: power and idle clocks stand for it"
    more = max(thresholds.compute, shares.compute + _EASES)
    return Gpu(
        shares,
        now.util,
        now.power_w,
        now.limit_w,
        (known.learned_w or known.compute_w) if known else None,
        now.memory,
        now.throttled,
        now.clock,
        doubt,
        worked=learned is not None and learned.worked,
        watched_s=(now_us - learned.since_us) / 1e6 if learned else 0.0,
        lost=latest.latest("gpu", labels, "gpu_lost") == 1,
        fresh_xid=_fresh_xid(slow, labels),
        trip_ms=learned.trip_ms if learned else None,
        least_trip_ms=learned.least_trip_ms if learned else None,
        easing=more <= 1 and _computes(mixture, latest, labels, rests) >= more,
    )


def _computes(mixture: Mixture, latest: Window, labels: Labels, rests: float | None) -> float:
    """Return which share of the latest window a GPU computes."""
    util_pct, power_w = latest.rates_of(labels, _LATEST)
    now = msgspec.structs.replace(
        mixture, util=_utilisation(_share(util_pct), rests), power_w=power_w
    )
    return now.shares()[0].compute


def rested(reasons: Sequence[float]) -> float | None:
    """Return the share of samples in which the driver says that nothing runs; None of too few."""
    if len(reasons) < _ENOUGH_LOOKS:
        return None
    return sum(bool(round(bits) & _IDLE_REASON) for bits in reasons) / len(reasons)


def _utilisation(told: float | None, rests: float | None) -> float | None:
    return told if told is not None or rests is None else 1.0 - rests


def full_power(
    window: Window, labels: Labels, thresholds: Thresholds, rests: float | None = None
) -> float | None:
    """Return the mean power of a window of full, unthrottled work, in watts; else None."""
    util_pct, power_w, *heat = window.rates_of(labels, _WORK)
    util = _utilisation(_share(util_pct), rests)
    if util is None or util < FULL or (_throttled(heat) or 0.0) >= thresholds.throttled:
        return None
    return power_w if window.coverage("gpu", labels, "power_w") >= FULL else None


def _share(percent: float | None) -> float | None:
    if percent is None:
        return None
    return percent / 100 if percent < 100 else 1.0


def _throttled(kinds: Sequence[float | None]) -> float | None:
    """Return the share of time that heat or brake slowed the GPU: the largest of the kinds."""
    read = [ns / 1e9 for ns in kinds if ns is not None]
    return min(1.0, max(read)) if read else None


def _fresh_xid(window: Window, labels: Labels) -> int | None:
    number = window.latest("gpu", labels, "xid")
    return int(number) if number and window.growth("gpu", labels, "xids") else None
