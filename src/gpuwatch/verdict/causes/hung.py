"""HUNG: nothing moves any more, on any node of the job that is seen; or a rank is held by a signal.

One node at which nothing moves may wait for another that works: only all together hang. A rank that
a signal, a debugger or the freezer holds needs no such proof: it goes on when it is let.
"""

from gpuwatch.verdict.causes import checkpoint, read
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    asleep,
    assessment,
    number,
    percent,
)

NAME = Kind("HUNG", None)
STOPPED = "thread_group.main.stopped"
_STOPPED = 0.9
"""Share of looks at a main thread: who attaches a profiler stops it for moments."""
_LOOKS = 3
_SCORE = 0.9
_QUIET_CAP = 0.6
"""Ranks none of which is in a collective may as well wait for work from outside."""


def held(context: Context) -> float:
    """Return the share of looks in which the rank's main thread was stopped, 0 of too few."""
    waits = context.role("main").waits
    return waits.share("stopped") if waits and waits.samples >= _LOOKS else 0.0


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    return _stopped(context) if held(context) >= _STOPPED else _still(context)


def _stopped(context: Context) -> Assessment:
    main = context.role("main")
    return assessment(
        context,
        NAME,
        _SCORE,
        text="is stopped: a signal, a debugger or the freezer holds its main thread",
        support=(
            percent(STOPPED, held(context), _STOPPED, "main thread stopped"),
            percent("util_pct", context.gpu.util, context.thresholds.gpu_idle, "GPU utilisation"),
        ),
        against=(percent("thread_group.main.run", main.run, None, "main thread on a CPU"),),
    )


def _still(context: Context) -> Assessment:
    t, gpu, main = context.thresholds, context.gpu, context.role("main")
    if not context.peers.standing or context.rank is None:
        return NOTHING
    if max(read.blocked(context)[0], checkpoint.blocked(context)) >= t.storage_wait:
        return NOTHING
    spins = gpu.shares.spin >= t.lost
    if not (spins or context.peers.spinning or gpu.worked):
        return NOTHING
    sure = (
        spins or context.peers.still_s is not None or (context.peers.spinning and asleep(context))
    )
    does = "spins in a collective" if spins else "does nothing"
    return assessment(
        context,
        NAME,
        _SCORE,
        text=f"stands still: its GPU {does}, its threads do not run, and nothing goes over a wire",
        support=(
            number("standing", t.hung_after, "s", t.hung_after, "nothing moved on any node for"),
            percent("gpu.spin", gpu.shares.spin, t.lost, "GPU spins") if spins else
            percent("util_pct", gpu.util, t.gpu_idle, "GPU utilisation"),
            number("progress.still_s", context.peers.still_s, "s", t.hung_after, "no step in the job's log for"),
            percent("thread_group.main.run", main.run, None, "main thread on a CPU"),
        ),
        signals=(
            Signal("rdma", "rdma" not in context.absent, 0.0),
            Signal("threads.wchan", main.waits is not None, 0.1),
        ),
        cap=1.0 if sure else _QUIET_CAP,
    )  # fmt: skip


__all__ = ["NAME", "STOPPED", "assess", "held"]
