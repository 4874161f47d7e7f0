"""IDLE: no process holds the GPU; or one does, and waits for requests (`demand`)."""

from gpuwatch.model.verdict import Finding
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

NAME = Kind("IDLE", None)
_DEMAND_CAP = 0.6
_REST = ("poll", "sleep", "socket", "futex")


def assess(context: Context) -> Assessment:
    """Judge one rank, or one GPU without."""
    t, gpu = context.thresholds, context.gpu
    if gpu.util is None or gpu.util >= t.gpu_idle or gpu.shares.unknown > 0:
        return NOTHING
    if context.rank is not None:
        return _demand(context)
    if context.held:
        return NOTHING
    return assessment(
        context,
        NAME,
        gpu.shares.idle,
        text="is idle: no process uses its GPU",
        support=(percent("util_pct", gpu.util, t.gpu_idle, "GPU utilisation"),),
        against=(_power(context),),
        signals=(
            Signal("threads", "threads" not in context.absent, 0.2),
            Signal("nvml.power_w", gpu.power_w is not None, 0.1),
        ),
    )


def _demand(context: Context) -> Assessment:
    """One process alone that sleeps in poll: it waits to be asked. A training rank has peers."""
    main = context.role("main")
    loaders = context.role("loader").threads
    if main.waits is None or context.ranks > 1 or loaders:
        return NOTHING
    rest = main.waits.share(*_REST)
    return assessment(
        context,
        Kind("IDLE", "demand"),
        ramp(rest, 0.7, 0.95),
        text="holds its GPU and waits to be asked: its main thread sleeps",
        support=(
            percent("thread_wait.main", rest, 0.95, "main thread asleep"),
            percent("util_pct", context.gpu.util, context.thresholds.gpu_idle, "GPU utilisation"),
        ),
        against=(_power(context),),
        signals=(Signal("sockets", "sockets" not in context.absent, 0.0),),
        cap=_DEMAND_CAP,
    )


def _power(context: Context) -> Finding | None:
    gpu = context.gpu
    share = gpu.power_w / gpu.limit_w if gpu.power_w is not None and gpu.limit_w else None
    return percent("power_w", share, context.thresholds.spin_power, "power, of its limit,")


__all__ = ["NAME", "assess"]
