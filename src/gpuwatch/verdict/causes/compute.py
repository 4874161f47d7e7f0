"""COMPUTE: the GPU works; nothing is waited for."""

from gpuwatch.verdict.evidence import (
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


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, gpu = context.thresholds, context.gpu
    share = gpu.shares.compute
    if share <= t.lost:
        return Assessment(*NAME, 0.0)
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
    )


__all__ = ["NAME", "assess"]
