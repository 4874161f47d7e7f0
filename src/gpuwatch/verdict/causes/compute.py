"""COMPUTE: the GPU works; nothing is waited for."""

from gpuwatch.verdict.evidence import (
    NOTHING,
    UNDETERMINED_CAP,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    number,
    percent,
    ramp,
)

NAME = Kind("COMPUTE", None)
_WORKING = 0.7
"""Share of the power limit that training was published to draw at least. A GPU that was never seen
there may wait for a part of each step: whoever came late has not seen its good minutes."""

_NOBODYS_CAP = 0.5
"""A GPU that no process is seen to hold: one of another container's does, or the driver itself, which
scrubs memory as it loads."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, gpu = context.thresholds, context.gpu
    share = gpu.shares.compute
    if share <= t.lost:
        return NOTHING
    return assessment(
        context,
        NAME,
        share * ramp(share, t.lost, t.compute),
        text=f"computes {share * 100:.0f} % of the time",
        support=(
            percent("gpu.compute", share, t.compute, "GPU computes"),
            number("power_w", gpu.power_w, "W", None, "power"),
        ),
        against=(
            percent("gpu.spin", gpu.shares.spin, t.lost, "GPU spins"),
            percent("gpu.starved", gpu.shares.starved, t.lost, "GPU starved"),
            percent("gpu.throttled", gpu.throttled, t.throttled, "slowed by heat"),
        ),
        signals=(
            Signal("nvml.power_w", gpu.power_w is not None, 0.3),
            Signal("nvml.throttle_hw_thermal_ns", gpu.throttled is not None, 0.05),
            Signal("threads", context.rank is not None, 0.05),
        ),
        cap=min(
            UNDETERMINED_CAP if _middling(context) else 1.0, 1.0 if context.held else _NOBODYS_CAP
        ),
    )


def _middling(context: Context) -> bool:
    gpu, t = context.gpu, context.thresholds
    if context.ranks < 2 or not gpu.util or gpu.power_w is None or gpu.limit_w is None:
        return False
    if (gpu.memory_util or 0.0) >= t.memory_activity:
        return False
    return max(gpu.power_w / gpu.util, gpu.compute_w or 0.0) < _WORKING * gpu.limit_w


__all__ = ["NAME", "assess"]
