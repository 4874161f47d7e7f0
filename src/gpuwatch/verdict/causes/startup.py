"""STARTUP: a process that has not yet used its GPU imports, compiles, loads a checkpoint.

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
    percent,
    ramp,
    starting,
)

NAME = Kind("STARTUP", None)
_UNSEEN_S = (60.0, 1800.0)
"""What a process did before it was watched: a minute is no step, in half an hour it may have worked."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, rank, gpu = context.thresholds, context.rank, context.gpu
    if rank is None or rank.age_s is None or not starting(context):
        return NOTHING
    unseen_s = max(0.0, rank.age_s - gpu.watched_s)
    share = blocked(context)[0]
    cause = "storage" if share >= t.storage_wait else None
    does = f"blocked in storage {share * 100:.0f} %" if cause else "its GPU has not worked yet"
    return assessment(
        context,
        Kind("STARTUP", cause),
        0.9 * (1 - ramp(unseen_s, *_UNSEEN_S)),
        text=f"starts up since {rank.age_s:.0f} s: {does}",
        support=(
            number("thread_group.age_s", rank.age_s, "s", None, "age of its process"),
            number("unwatched", unseen_s, "s", _UNSEEN_S[1], "of which nobody watched"),
            percent("util_pct", gpu.util, t.gpu_idle, "GPU utilisation"),
            percent("thread_wait.storage", share, t.storage_wait, "threads in storage reads"),
        ),
        signals=(Signal("threads.wchan", context.role("main").waits is not None, 0.1),),
    )


__all__ = ["NAME", "assess"]
