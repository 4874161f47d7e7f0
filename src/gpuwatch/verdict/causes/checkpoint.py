"""STORAGE/checkpoint: the main thread is blocked in writing while its GPU does nothing.

Writing alone is no wait: an asynchronous checkpoint writes as much while the GPU computes.
"""

from gpuwatch.verdict.causes import offload
from gpuwatch.verdict.causes.read import writes
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    input_lost,
    number,
    once,
    percent,
    ramp,
)

NAME = Kind("STORAGE", "checkpoint")
_WRITEBACK = ("writeback", "flush")


@once
def blocked(context: Context) -> float:
    """Return the share of samples in which the rank waited for its own writing."""
    main, helper = context.role("main").waits, context.role("checkpoint").waits
    if main is None:
        return 0.0
    families = ("block-write", "netfs", "fuse") if writes(context) else ("block-write",)
    direct = main.share(*families)
    if helper is None:
        return direct
    return max(direct, min(main.share("pipe", "futex", "process"), helper.share("block-write")))


def severity(context: Context) -> float:
    """Return how surely writes are waited for, 0 to 1, by the threads alone."""
    t = context.thresholds
    return ramp(blocked(context), t.storage_wait / 2, 2 * t.storage_wait)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, lost, share = context.thresholds, input_lost(context), blocked(context)
    opened = gate(lost, t)
    if opened == 0 or share == 0:
        return NOTHING
    written, disk = _written(context), context.host.disk
    return assessment(
        context,
        NAME,
        opened
        * (0.7 * severity(context) + 0.3 * _burst(context, written))
        * (1 - 0.5 * offload.severity(context)),
        text=f"waits for its checkpoint to be written: main thread blocked in writes {share * 100:.0f} %",
        support=(
            percent("thread_wait.main.block-write", share, t.storage_wait, "main thread in writes"),
            percent("gpu.starved", lost, t.lost, "GPU starved"),
            number("storage_write_bytes", written, "MB/s", t.write_rate, "rank writes"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes on"),),
        signals=(
            Signal("threads.io", written is not None, 0.1),
            Signal("disk", disk is not None and disk.busy is not None, 0.05),
        ),
    )


def _written(context: Context) -> float | None:
    rates = [context.role(name).write_mb_s for name in ("main", "checkpoint")]
    read = [rate for rate in rates if rate is not None]
    return max(read, default=None)


def _burst(context: Context, written: float | None) -> float:
    limit, disk = context.thresholds.write_rate, context.host.disk
    flushing = sum(
        cores for queue, cores in context.host.kworkers.items() if queue.startswith(_WRITEBACK)
    )
    busy = ramp(disk.busy, 0.5, 0.9) if disk and disk.write_mb_s >= disk.read_mb_s else 0.0
    return max(ramp(written, limit / 10, limit), ramp(flushing, 0.02, 0.2), busy)


__all__ = ["NAME", "assess", "blocked", "severity"]
