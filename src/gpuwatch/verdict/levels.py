"""What a GPU draws when idle, with a context, spinning and computing.

Levels begin from a table by model and end with what this GPU's own process was seen to draw.
Figures marked `published` were posted by users of that model; `estimate` scales them by limit.
"""

from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["MODELS", "Learned", "Levels", "learn", "levels"]


class Model(NamedTuple):
    """Levels of one GPU model, as shares of its power limit.

    Attributes:
        name: part of the product name, in capitals.
        idle: no process.
        context: a process holds a context and does nothing.
        spin: a collective waits on the device.
        source: where the figures come from.
    """

    name: str
    idle: float
    context: float
    spin: float
    source: str


MODELS = (
    Model("GB300", 0.12, 0.16, 0.25, "estimate"),
    Model("GB200", 0.12, 0.16, 0.25, "estimate"),
    Model("B300", 0.12, 0.16, 0.25, "estimate"),
    Model("B200", 0.12, 0.16, 0.25, "estimate"),
    Model("H200", 0.10, 0.18, 0.22, "estimate, from H100"),
    Model(
        "H100",
        0.10,
        0.19,
        0.22,
        "published: 70 W idle, 129 to 137 W with a context, 100 to 152 W spinning, of 700 W",
    ),
    Model("A100", 0.13, 0.17, 0.25, "estimate"),
    Model("A800", 0.13, 0.17, 0.25, "estimate"),
    Model("L40", 0.10, 0.15, 0.25, "estimate"),
    Model("V100", 0.14, 0.18, 0.22, "published: 53 W idle, 66 W spinning, of 300 W"),
    Model("RTX", 0.08, 0.13, 0.25, "estimate"),
    Model("", 0.10, 0.17, 0.25, "estimate for models that are not listed"),
)
"""The first whose name is in the product name counts."""

RESOLUTION = 0.10
"""Share of the limit that compute and spin must differ by to be told apart: noise of the board
sensor and of the spin level itself ("Part-time Power Measurements", arXiv 2312.02741)."""


_GOOD = 0.95
"""Share of the best power from which on a window is one of full work, without a wait."""
_FOLLOW = 0.02
"""How much of a longer round trip counts a tick: the first seconds of a fault look like good ones."""


class Learned(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What one process on one GPU was seen to do: part of the judge's state.

    `process` is its pid, None where ranks are not seen: another process starts anew. `compute_w`
    is 0 until it did full work for long enough. `since_us` is when the process was first seen,
    `seen_us` when it was last looked at, `worked` whether its GPU was ever seen at work,
    `trip_ms` how long round trips to other ranks were while it did full work, `least_trip_ms` the
    shortest since it works at all.
    """

    process: int | None
    compute_w: float = 0.0
    since_us: int = 0
    seen_us: int = 0
    worked: bool = False
    trip_ms: float | None = None
    least_trip_ms: float | None = None


class Levels(msgspec.Struct, frozen=True, gc=False):
    """Watts to compare a GPU's power with; `learned_w` is None until it may be trusted.

    `source` says where that level is from: this process's own good minutes, a recording of a good
    run, or, of all levels, the table.
    """

    context_w: float
    spin_w: float
    spin_max_w: float
    compute_w: float
    learned_w: float | None
    source: Literal["table", "baseline", "learned"]


def levels(
    model: str,
    limit_w: float,
    learned: Learned | None,
    thresholds: Thresholds,
    baseline_w: float | None = None,
) -> Levels:
    """Return the levels of one GPU.

    Own good minutes replace those of a good run where they are as good: whoever comes late to a slow
    run has none, and the most that it then did is no full work.

    Args:
        model: product name.
        limit_w: enforced power limit.
        learned: what this process did before; None when it is new.
        thresholds: where a level stops being sure.
        baseline_w: what full work drew in a good run; None where none is known.
    """
    row = _row(model)
    spin_w = row.spin * limit_w
    own_w = learned.compute_w if learned is not None else 0.0
    full_w = max(own_w, min(baseline_w or 0.0, limit_w))
    sure = full_w >= spin_w + RESOLUTION * limit_w
    return Levels(
        row.context * limit_w,
        spin_w,
        thresholds.spin_power * limit_w,
        thresholds.compute_power * limit_w,
        full_w if sure else None,
        "table" if not sure else "learned" if own_w >= full_w else "baseline",
    )


@lru_cache(maxsize=64)
def _row(model: str) -> Model:
    name = model.upper()
    return next(row for row in MODELS if row.name in name)


def learn(
    learned: Learned | None,
    process: int | None,
    now_us: int,
    window_us: int,
    power_w: float | None,
    *,
    working: bool,
    fast_us: int,
    fast_w: float | None = None,
    trip_ms: float | None = None,
) -> Learned:
    """Carry on what is known of a process by its power over a slow window.

    The level is the highest mean that it held over a slow window of full utilisation, never a
    peak: a step's own exchange belongs to its normal level.

    Args:
        learned: known before; None or of another process starts anew.
        process: pid of the rank's main thread.
        now_us: viewer's monotonic clock.
        window_us: how long the process must have been there for a window to be its own.
        power_w: mean over a slow window of full work; None when it was none.
        working: whether the GPU was at work in the fast window.
        fast_us: length of that window; before, the work may be of the process that was there.
        fast_w: mean power in that window.
        trip_ms: longest mean round trip to another rank in that window.
    """
    if learned is None or learned.process != process:
        learned = Learned(process, since_us=now_us)
    if power_w is None or now_us - learned.since_us < window_us:
        power_w = 0.0
    compute_w = max(learned.compute_w, power_w)
    least = learned.least_trip_ms
    if trip_ms is not None and working:
        least = trip_ms if least is None else min(least, trip_ms)
    usual = learned.trip_ms
    if trip_ms is not None and power_w and min(power_w, fast_w or 0.0) >= _GOOD * compute_w:
        if usual is None:
            usual = least  # the first good minute may end in a fault
        usual = min(trip_ms, usual + _FOLLOW * (trip_ms - usual)) if usual else trip_ms
    return Learned(
        process,
        compute_w,
        learned.since_us,
        now_us,
        worked=learned.worked or (working and now_us - learned.since_us >= fast_us),
        trip_ms=usual,
        least_trip_ms=least,
    )
