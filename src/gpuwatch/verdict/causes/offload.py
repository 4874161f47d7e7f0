"""STORAGE/offload: a rank reads and writes its own state at each step, and its GPU waits for that.

Optimizer state or parameters on NVMe do that: as much is written as is read, all the time. A
checkpoint is written and not read, a data set read and not written, mostly by other processes.
"""

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

NAME = Kind("STORAGE", "offload")
_MOVES = (50.0, 500.0)
"""MB/s that the rank's main process reads, and as well writes: state is gigabytes, logs are not."""
_FAMILIES = ("block-read", "block-write")


@once
def severity(context: Context) -> float:
    """Return how surely a rank waits for state that it reads and writes, 0 to 1."""
    t = context.thresholds
    moved = _least(context)
    if moved <= _MOVES[0]:
        return 0.0
    return ramp(moved, *_MOVES) * ramp(_blocked(context), t.storage_wait / 2, 2 * t.storage_wait)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, main, lost = context.thresholds, context.role("main"), input_lost(context)
    opened = gate(lost, t)
    found = severity(context) if opened else 0.0
    if found == 0:
        return NOTHING
    disk, share = context.host.disk, _blocked(context)
    return assessment(
        context,
        NAME,
        0.95 * opened * found,
        text=f"waits for state that it keeps on storage: it reads {main.read_mb_s or 0:.0f} MB/s and"
        f" writes {main.write_mb_s or 0:.0f} MB/s all the time",
        support=(
            percent("thread_wait.block", share, t.storage_wait, "its threads in reads and writes"),
            number("storage_read_bytes", main.read_mb_s, "MB/s", _MOVES[1], "it reads"),
            number("storage_write_bytes", main.write_mb_s, "MB/s", _MOVES[1], "and writes"),
            percent("disk.busy", disk.busy if disk else None, None, "busiest disk in use"),
            percent("gpu.starved", lost, t.lost, "GPU starved"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("disk", disk is not None and disk.busy is not None, 0.05),),
    )


def _least(context: Context) -> float:
    """Return what its main process both reads and writes, now and over longer, in MB/s."""
    main, rank = context.role("main"), context.rank
    known = [main.read_mb_s, main.write_mb_s]
    for labels in context.slow.entities("thread_group") if rank else ():
        if rank and labels[:3] == (rank.group, rank.rank, "main"):
            for way in ("read", "write"):
                rate = context.slow.rate("thread_group", labels, f"storage_{way}_bytes")
                known.append(None if rate is None else rate / 1e6)
    return min((rate if rate is not None else 0.0 for rate in known), default=0.0)


def _blocked(context: Context) -> float:
    """Return the share in which the main thread, or those that it waits for, are in reads and writes."""
    main, own = context.role("main").waits, context.role("worker").waits
    if main is None:
        return 0.0
    for_own = min(main.share("futex", "poll", "sleep"), own.share(*_FAMILIES)) if own else 0.0
    return max(main.share(*_FAMILIES), for_own)


__all__ = ["NAME", "assess", "severity"]
