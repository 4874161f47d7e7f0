"""CPU/data-prep: loaders decode as fast as their CPUs allow, and the GPU starves."""

from gpuwatch.verdict.causes.read import blocked
from gpuwatch.verdict.evidence import (
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    input_lost,
    percent,
    ramp,
)

NAME = Kind("CPU", "data-prep")


def busy(context: Context) -> float | None:
    """Return how busy each loader is, 0 to 1: on a CPU, or ready and waiting for one."""
    loader = context.role("loader")
    if loader.waits is not None:
        return max(loader.waits.share("run", "ready"), loader.run or 0.0)
    return loader.run


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, lost, loaders = context.thresholds, input_lost(context), busy(context)
    opened = gate(lost, t)
    work = ramp(loaders, t.loader_busy / 2, t.loader_busy)
    if loaders is None or opened == 0 or work == 0:
        return Assessment(*NAME, 0.0)
    delay, host = context.role("loader").delay, context.host
    reading = blocked(context)[0]
    short = max(
        ramp(delay, t.run_delay / 4, t.run_delay), ramp(host.busy, 0.7 * t.host_busy, t.host_busy)
    )
    return assessment(
        context,
        NAME,
        opened * work * (0.8 + 0.2 * short) - 0.5 * ramp(reading, t.storage_wait / 2, 0.6),
        text=f"waits for data preparation: each loader {min(1.0, loaders) * 100:.0f} % busy"
        " while its GPU was starved",
        support=(
            percent("thread_group.loader.run", loaders, t.loader_busy, "each loader busy"),
            percent("gpu.starved", lost, t.lost, "GPU starved"),
            percent("thread_group.loader.delay", delay, t.run_delay, "loaders wait for a CPU"),
        ),
        against=(
            percent("thread_wait.storage", reading, t.storage_wait, "threads in storage reads"),
        ),
        signals=(
            Signal("threads.wait", context.role("loader").waits is not None, 0.2),
            Signal("threads.delay_ns", delay is not None, 0.1),
            Signal("cpu", host.busy is not None, 0.05),
        ),
    )


__all__ = ["NAME", "assess", "busy"]
