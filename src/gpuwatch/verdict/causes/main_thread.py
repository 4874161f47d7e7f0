"""CPU/main-thread: one Python thread cannot launch work fast enough, and the GPU starves.

The same thread at 100 % with a busy GPU is healthy: it spins in a synchronise call. With a GPU
that does nothing at all it imports, compiles or builds an index: no launch is waited for.
"""

from gpuwatch.agent.waits import STORAGE
from gpuwatch.verdict.causes import in_rank, numa, pcie
from gpuwatch.verdict.causes.data_prep import busy
from gpuwatch.verdict.causes.system import late
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    percent,
    ramp,
)

NAME = Kind("CPU", "main-thread")


_LEFT = 0.5
"""How much of it is left where a thread spins until a copy is done, or is slow for what is not its own."""
_ELSEWHERE = ("pipe", "futex", "socket", "poll", "unknown")
"""Where a main thread waits that waits for something, storage aside."""


def _covered(context: Context) -> float | None:
    """Return for how much of the time in which the GPU starved the main thread ran.

    It ran in the rest as well, where it spins until its GPU is done: so time that it spent waiting
    for something is taken from the starved time first.
    """
    starved, main = context.gpu.shares.starved, context.role("main")
    if main.waits is None or main.run is None or starved <= 0:
        return main.run
    waited = main.waits.share(*STORAGE, *_ELSEWHERE)
    return min(main.run, max(0.0, starved - waited)) / starved


def _outside(context: Context) -> float:
    """Return how surely it is late for a copy, far memory, or other threads of its rank, 0 to 1."""
    return max(pcie.severity(context), numa.severity(context), in_rank.severity(context))


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, starved, main = context.thresholds, context.gpu.shares.starved, context.role("main")
    run, covered = main.run, _covered(context)
    opened = gate(starved, t)
    work = ramp(covered, 0.7 * t.main_busy, t.main_busy)
    asleep = context.gpu.util is None or context.gpu.util < t.gpu_idle
    if run is None or asleep or opened == 0 or work == 0:
        return NOTHING
    loaders = busy(context)
    host = context.host.busy
    return assessment(
        context,
        NAME,
        opened * 0.95 * work * (1 - late(context)) * (1 - (1 - _LEFT) * _outside(context))
        - 0.4 * ramp(loaders, t.loader_busy / 2, t.loader_busy),
        text=f"is held up by its main thread: {min(1.0, run) * 100:.0f} % of a core"
        " while its GPU was starved",
        support=(
            percent("thread_group.main.run", run, None, "main thread on a CPU"),
            percent("gpu.starved", starved, t.lost, "GPU starved"),
            percent(
                "main.covered", covered, t.main_busy, "main thread on a CPU for that much of it"
            ),
            percent("thread_group.loader.run", loaders, t.loader_busy, "each loader busy"),
        ),
        against=(percent("cpu.busy", host, t.host_busy, "all CPUs of the node busy"),),
        signals=(Signal("threads.wchan", main.waits is not None, 0.1),),
    )


__all__ = ["NAME", "assess"]
