"""STARTUP, STARTUP/storage and STARTUP/compile: a process that has not yet used its GPU.

It imports, loads a checkpoint, compiles. Loading may take half an hour, and is no silence. Compilers
are processes of their own, one for each file or kernel: while the main thread waits for them, CPUs
are busy with what is none of the ranks' threads or loaders, and processes begin all the time. A
stranger's scripts look alike, so that is not said surely.

What counts is the age of the process, not since when anybody watches: whoever comes late to a
GPU that does nothing has not seen whether it ever worked.
"""

from gpuwatch.verdict.causes.read import blocked
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    number,
    once_a_node,
    percent,
    ramp,
    starting,
)
from gpuwatch.verdict.features.others import Others, others

NAME = Kind("STARTUP", None)
_UNSEEN_S = (60.0, 1800.0)
"""What a process did before it was watched: a minute is no step, in half an hour it may have worked."""
_COMPILERS = 1.0
"""CPUs from which on what is none of its own threads may be its compilers."""
_BEGUN_S = 1.0
"""Processes started a second: daemons and sessions start fewer."""
_EXPECTS = ("process", "pipe", "futex", "poll")
"""Where a main thread waits for other processes,"""
_EXPECTING = 0.5
"""and for which share of its samples at least."""
_COMPILE_CAP = 0.7
"""A stranger's scripts begin as many processes."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, rank, gpu = context.thresholds, context.rank, context.gpu
    if rank is None or rank.age_s is None or not starting(context):
        return NOTHING
    unseen_s = max(0.0, rank.age_s - gpu.watched_s)
    share = blocked(context)[0]
    beside = _others(context)
    cause = "storage" if share >= t.storage_wait else "compile" if _compiles(context) else None
    does = {
        "storage": f"blocked in storage {share * 100:.0f} %",
        "compile": f"waits for processes that use {beside.cores or 0:.0f} CPUs, as compilers do",
        None: "its GPU has not worked yet",
    }[cause]
    return assessment(
        context,
        Kind("STARTUP", cause),
        0.9 * (1 - ramp(unseen_s, *_UNSEEN_S)),
        text=f"starts up since {rank.age_s:.0f} s: {does}",
        support=(
            number("thread_group.age_s", rank.age_s, "s", None, "age of its process"),
            percent("util_pct", gpu.util, t.gpu_idle, "GPU utilisation"),
            percent("thread_wait.storage", share, t.storage_wait, "threads in storage reads"),
            number(
                "cpu.others", beside.cores, "CPUs", None, "used by what is none of its threads:"
            ),
            number("forks", beside.forks_s, "/s", None, "processes started"),
        ),
        against=(number("unwatched", unseen_s, "s", _UNSEEN_S[1], "of which nobody watched"),),
        signals=(Signal("threads.wchan", context.role("main").waits is not None, 0.1),),
        cap=_COMPILE_CAP if cause == "compile" else 1.0,
    )


def _compiles(context: Context) -> bool:
    """Tell whether a rank waits for what seem to be its compilers."""
    waits, beside = context.role("main").waits, _others(context)
    if waits is None or waits.share(*_EXPECTS) < _EXPECTING:
        return False
    return (beside.cores or 0.0) >= _COMPILERS and (beside.forks_s or 0.0) >= _BEGUN_S


@once_a_node
def _others(context: Context) -> Others:
    return others(context.fast, context.host.busy, context.host.cpus)


__all__ = ["NAME", "assess"]
