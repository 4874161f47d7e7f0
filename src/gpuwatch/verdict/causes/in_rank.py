"""CPU/in-rank: a rank's own other threads work on CPUs, and its GPU starves for them.

An optimizer on the CPU, tokenisers, tf.data and DALI do that. So seem threads that poll a network
without end, and one that launches a backward pass: but those are few, and poll while the GPU works
as well. What runs for the most part while the GPU is idle works in its stead.
"""

from gpuwatch.verdict.causes.data_prep import busy
from gpuwatch.verdict.causes.read import severity as reads
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    number,
    once,
    once_a_node,
    percent,
    ramp,
)
from gpuwatch.verdict.features.workers import Workers, workers

NAME = Kind("CPU", "in-rank")
_INSTEAD = (1.5, 3.0)
"""How many times as many threads run while the GPU is idle as while it is busy."""
_ALWAYS_CAP = 0.5
"""Threads that run at all times may poll; so may those of a data pipeline that is the limit."""


@once
def severity(context: Context) -> float:
    """Return how surely the rank's own threads work while its GPU waits for them, 0 to 1."""
    return _burn(context) * _instead(context)


def taken(context: Context) -> float | None:
    """Return the share of the node's used CPU time that such threads of the rank's job had."""
    host, seen = context.host, _own(context)
    if seen is None or not host.busy or not host.cpus:
        return None
    return min(1.0, seen.cores / (host.busy * host.cpus)) * ramp(_burn(context), 0.0, 0.5)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, starved, own = context.thresholds, context.gpu.shares.starved, context.role("worker")
    opened = gate(starved, t)
    burn = _burn(context) if opened else 0.0
    asleep = context.gpu.util is None or context.gpu.util < t.gpu_idle
    if burn == 0 or asleep:
        return NOTHING
    seen, instead, loaders = _own(context), _instead(context), busy(context)
    return assessment(
        context,
        NAME,
        opened * burn * (0.6 + 0.35 * instead) * (1 - reads(context))
        - 0.5 * ramp(loaders, t.loader_busy / 2, t.loader_busy),
        text=f"works on CPUs itself: its own threads beside the main one use {own.cores or 0:.0f} of them"
        " while its GPU was starved",
        support=(
            number("thread_group.worker.cores", own.cores, "CPUs", t.own_cores, "its own threads use"),
            number("worker.idle", seen.idle if seen else None, "", None, "own threads that run while the GPU is idle:"),
            percent("gpu.starved", starved, t.lost, "GPU starved"),
            percent("thread_group.worker.delay", own.delay, t.run_delay, "each waits for a CPU"),
        ),
        against=(
            number("worker.busy", seen.busy if seen else None, "", None, "own threads that run while it is busy:"),
            percent("thread_group.loader.run", loaders, t.loader_busy, "each loader busy"),
        ),
        signals=(Signal("threads.wchan", own.waits is not None, 0.1),),
        cap=1.0 if instead else _ALWAYS_CAP,
    )  # fmt: skip


def _burn(context: Context) -> float:
    limit = context.thresholds.own_cores
    return ramp(context.role("worker").cores, limit / 2, limit)


def _instead(context: Context) -> float:
    """Return how surely they run while the GPU is idle rather than busy, 0 to 1."""
    seen = _own(context)
    if seen is None or seen.idle is None or seen.busy is None:
        return 0.0
    return ramp(seen.idle, _INSTEAD[0] * seen.busy, max(1.0, _INSTEAD[1] * seen.busy))


def _own(context: Context) -> Workers | None:
    rank = context.rank
    return _workers(context).get((rank.group, rank.rank)) if rank else None


@once_a_node
def _workers(context: Context) -> dict[tuple[str, str], Workers]:
    return workers(context.slow)


__all__ = ["NAME", "assess", "severity", "taken"]
