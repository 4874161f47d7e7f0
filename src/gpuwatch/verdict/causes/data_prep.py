"""CPU/data-prep: loaders decode as fast as their CPUs allow, and the GPU starves."""

from gpuwatch.verdict.causes.read import blocked
from gpuwatch.verdict.evidence import (
    NOTHING,
    STARTING_CAP,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    input_lost,
    once,
    percent,
    ramp,
)

NAME = Kind("CPU", "data-prep")


@once
def busy(context: Context) -> float | None:
    """Return how busy each loader is, 0 to 1: on a CPU, or ready and waiting for one."""
    loader = context.role("loader")
    sampled = loader.waits.share("run", "ready") if loader.waits else None
    wanted = None if loader.run is None else loader.run + (loader.delay or 0.0)
    return max((share for share in (sampled, wanted) if share is not None), default=None)


@once
def own_share(context: Context) -> float | None:
    """Return the share of the node's used CPU time that the job's own busy loaders had."""
    host, cores = context.host, context.loader_cores
    if not host.busy or not host.cpus or cores is None:
        return None
    limit = context.thresholds.loader_busy
    return min(1.0, cores / (host.busy * host.cpus)) * ramp(busy(context), limit / 2, limit)


def _hindered(context: Context) -> float:
    """Return how surely loaders are late by others' work or by a quota, not by their own."""
    t, delay, host = context.thresholds, context.role("loader").delay, context.host
    own = own_share(context)
    if own is None or host.busy is None:
        return 0.0
    idle = 1 - ramp(host.busy, 0.6 * t.host_busy, t.host_busy)
    others = 1 - ramp(own, 0.2, 0.6)
    return ramp(delay, t.run_delay / 2, 1.5 * t.run_delay) * max(idle, others)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, lost, loaders = context.thresholds, input_lost(context), busy(context)
    opened = gate(lost, t)
    work = ramp(loaders, t.loader_busy / 2, t.loader_busy)
    if loaders is None or opened == 0 or work == 0:
        return NOTHING
    delay, host = context.role("loader").delay, context.host
    reading = blocked(context)[0]
    short = max(
        ramp(delay, t.run_delay / 4, t.run_delay), ramp(host.busy, 0.7 * t.host_busy, t.host_busy)
    )
    return assessment(
        context,
        NAME,
        opened * work * (0.8 + 0.2 * short) * (1 - 0.7 * _hindered(context))
        - 0.5 * ramp(reading, t.storage_wait / 2, 0.6),
        text=f"waits for data preparation: each loader {min(1.0, loaders) * 100:.0f} % busy"
        " while its GPU was starved",
        support=(
            percent("thread_group.loader.run", loaders, t.loader_busy, "each loader busy"),
            percent("gpu.starved", lost, t.lost, "GPU starved"),
            percent("thread_group.loader.delay", delay, t.run_delay, "loaders wait for a CPU"),
        ),
        against=(
            percent("loaders", own_share(context), None, "loaders' part of the CPU time in use"),
            percent("thread_wait.storage", reading, t.storage_wait, "threads in storage reads"),
        ),
        signals=(
            Signal("threads.wchan", context.role("loader").waits is not None, 0.2),
            Signal("threads.delay_ns", delay is not None, 0.1),
            Signal("cpu", host.busy is not None, 0.05),
        ),
        cap=1.0 if (context.gpu.util or 0.0) >= t.gpu_idle else STARTING_CAP,
    )


__all__ = ["NAME", "assess", "busy", "own_share"]
