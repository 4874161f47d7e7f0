"""GPU/throttled: heat or the power brake slows the GPU. The power cap is evidence of work."""

from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    percent,
    ramp,
)

NAME = Kind("GPU", "throttled")


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, gpu = context.thresholds, context.gpu
    share = gpu.throttled
    slowed = ramp(share, t.throttled / 2, 3 * t.throttled)
    if slowed == 0 or (gpu.util or 0.0) < t.lost:
        return NOTHING
    low = 1.0 if gpu.clock is not None and gpu.clock < 1 - t.clock_deficit else 0.0
    found = assessment(
        context,
        NAME,
        slowed * (0.8 + 0.2 * low),
        text=f"is slowed by heat or power brake {(share or 0) * 100:.0f} % of the time",
        support=(
            percent("gpu.throttled", share, t.throttled, "slowed by heat or power brake"),
            percent("sm_clock_mhz", gpu.clock, 1 - t.clock_deficit, "SM clock of its maximum"),
        ),
        against=(percent("util_pct", gpu.util, t.gpu_busy, "GPU utilisation"),),
        signals=(Signal("nvml.sm_clock_mhz", gpu.clock is not None, 0.1),),
    )
    return Assessment(
        *NAME, found.score, found.coverage, 1.0, found.support, found.against, found.missing,
        found.text,
    )  # fmt: skip


__all__ = ["NAME", "assess"]
