"""GPU/throttled by a power limit: lower than that of the job's other GPUs of its model, and reached.

The power cap is evidence of work, and all GPUs of a job may have a low limit on purpose. One that
has a lower one than the others runs at lower clocks, and all others wait for it.
"""

from gpuwatch.verdict.causes.throttled import NAME
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Signal,
    assessment,
    number,
    percent,
    ramp,
)

_REACHED = (0.85, 0.95)
"""Share of its limit that a GPU draws where that holds it back."""
_CAPPED = (0.1, 0.5)
"""Share of time in which the driver says that it does."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, gpu, usual = context.thresholds, context.gpu, _usual(context)
    if usual is None or gpu.limit_w is None or (gpu.util or 0.0) < t.lost:
        return NOTHING
    lower = ramp(1 - gpu.limit_w / usual, t.power_deficit / 3, t.power_deficit)
    capped = _capped(context) if lower else None
    drawn = gpu.power_w / gpu.limit_w if gpu.power_w is not None else None
    held = max(ramp(capped, *_CAPPED), ramp(drawn, *_REACHED))
    if lower == 0 or held == 0:
        return NOTHING
    return assessment(
        context,
        NAME,
        0.9 * lower * held,
        text=f"is held at a power limit of {gpu.limit_w:.0f} W, other GPUs of this job have {usual:.0f} W",
        support=(
            number("power_limit_w", gpu.limit_w, "W", (1 - t.power_deficit) * usual, "power limit"),
            percent("power", drawn, _REACHED[1], "power of that limit"),
            percent("throttle_power_cap_ns", capped, _CAPPED[1], "time held by the power cap"),
            percent("sm_clock_mhz", gpu.clock, 1 - t.clock_deficit, "SM clock of its maximum"),
        ),
        against=(percent("gpu.spin", gpu.shares.spin, t.lost, "GPU spins"),),
        signals=(Signal("nvml.throttle_power_cap_ns", capped is not None, 0.1),),
    )


def _usual(context: Context) -> float | None:
    """Return the middle of the power limits of the job's GPUs of this model; None of fewer than three."""
    limits = context.peers.limits.get(str(context.card[2]), ()) if context.card else ()
    return limits[len(limits) // 2] if len(limits) > 2 else None


def _capped(context: Context) -> float | None:
    card = context.card or ()
    rate = context.fast.rate("gpu", card, "throttle_power_cap_ns")
    return None if rate is None else min(1.0, rate / 1e9)


__all__ = ["NAME", "assess"]
