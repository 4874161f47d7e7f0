"""STORAGE/metadata: threads wait for a server that is asked for names and attributes, not for data.

Many small files do that: each is looked up, opened, asked for its size and closed. Threads wait as
they do for reads, so the mount's own counts decide. Of a local disk there are none.
"""

from gpuwatch.verdict.asked import ENOUGH_OPS_S, MOST, asked_for_names, names
from gpuwatch.verdict.causes.read import blocked, severity
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
    number,
    percent,
    starting,
)

NAME = Kind("STORAGE", "metadata")


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, lost = context.thresholds, input_lost(context)
    opened = gate(lost, t)
    waits, role, family = blocked(context) if opened else (0.0, "", "")
    sure = asked_for_names(context) if family == "netfs" else 0.0
    seen = names(context) if sure else None
    if seen is None:
        return NOTHING
    return assessment(
        context,
        NAME,
        opened * 0.95 * severity(context) * sure,
        text=f"waits for names and attributes of {seen.source}: {seen.ops_s:.0f} requests a second that read no data",
        support=(
            percent(f"thread_wait.{role}.{family}", waits, t.storage_wait, f"{role} in {family}"),
            number("mount.meta_ops", seen.ops_s, "/s", ENOUGH_OPS_S, "requests for metadata"),
            percent("mount.meta_exe", seen.share, MOST, "metadata has of the time of requests"),
            number("mount.meta_each", seen.each_ms, "ms", None, "each takes"),
            percent("gpu.starved", lost, t.lost, "GPU starved"),
        ),
        against=(number("mount.read_ops", seen.reads_s, "/s", None, "reads of data"),),
        signals=(Signal("threads.io", context.role(role).read_mb_s is not None, 0.05),),
        cap=STARTING_CAP if starting(context) else 1.0,
        place=seen.source,
    )


__all__ = ["NAME", "assess"]
