"""CPU/system: threads that could run wait for a CPU, as others have them all.

The GPU need not look starved: a step that is late by its main thread shows only as less power.
"""

from gpuwatch.verdict.causes import in_rank
from gpuwatch.verdict.causes.data_prep import own_share
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    once,
    percent,
    ramp,
    starting,
)

NAME = Kind("CPU", "system")


@once
def delay(context: Context) -> float | None:
    """Return the run delay of the main thread or of each loader, whichever is larger."""
    main, loader = context.role("main").delay, context.role("loader").delay
    known = [share for share in (main, loader) if share is not None]
    return max(known, default=None)


@once
def late(context: Context) -> float:
    """Return how far the main thread runs late, 0 to 1 between clean and bad."""
    limit = context.thresholds.run_delay
    return ramp(context.role("main").delay, limit / 2, 1.5 * limit)


def lost(context: Context) -> float:
    """Return the share of GPU time that running late may have cost."""
    shares = context.gpu.shares
    return shares.starved + (shares.spin if late(context) > 0 else 0.0)


def delayed(context: Context) -> bool:
    """Tell whether threads run late enough, and enough GPU time is lost, to ask why they do."""
    t = context.thresholds
    short = ramp(delay(context), t.run_delay / 2, 1.5 * t.run_delay)
    return short > 0 and gate(lost(context), t) > 0


def explained(context: Context) -> float:
    """Return how much of the lost GPU time running late can have cost: no more than it lasted."""
    gone = lost(context)
    return min(1.0, (delay(context) or 0.0) / gone) if gone > 0 else 0.0


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, host, waited = context.thresholds, context.host, delay(context)
    opened = gate(lost(context), t)
    short = ramp(waited, t.run_delay / 2, 1.5 * t.run_delay)
    if opened == 0 or short == 0 or starting(context):
        return NOTHING
    crowded = max(
        ramp(host.busy, 0.7 * t.host_busy, t.host_busy), ramp(host.steal, t.steal / 2, t.steal)
    )
    own = max(
        (s for s in (own_share(context), in_rank.taken(context)) if s is not None), default=None
    )
    return assessment(
        context,
        NAME,
        opened * short * crowded * explained(context) - 0.5 * ramp(own, 0.3, 0.7),
        text=f"waits for CPUs: its threads were ready and not running {min(1.0, waited or 0) * 100:.0f} %",
        support=(
            percent("thread_group.delay", waited, t.run_delay, "threads wait for a CPU"),
            percent("cpu.busy", host.busy, t.host_busy, "CPUs of the node busy"),
            percent("cpu_steal_ms", host.steal, t.steal, "CPU time taken by the hypervisor"),
        ),
        against=(
            percent(
                "loaders", own, None, "the rank's own loaders and threads have of all CPU time"
            ),
            percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),
        ),
        signals=(Signal("cpu", host.busy is not None, 0.4),),
    )


__all__ = ["NAME", "assess", "delay", "delayed", "explained", "late", "lost"]
