"""CPU/quota: threads that could run wait for a CPU on a host whose CPUs are idle.

A cgroup quota does that, or a set of too few allowed CPUs. The cgroup's own counters are not
read, so confidence has a cap.
"""

from gpuwatch.verdict.causes.system import delay, lost
from gpuwatch.verdict.evidence import (
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    percent,
    ramp,
    starting,
)

NAME = Kind("CPU", "quota")
CAP = 0.75


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, host, waited = context.thresholds, context.host, delay(context)
    opened = gate(lost(context), t)
    short = ramp(waited, t.run_delay / 2, 1.5 * t.run_delay)
    if opened == 0 or short == 0 or host.busy is None or starting(context):
        return Assessment(*NAME, 0.0)
    idle = 1 - ramp(host.busy, 0.6 * t.host_busy, t.host_busy)
    stolen = ramp(host.steal, t.steal / 2, t.steal)
    return assessment(
        context,
        NAME,
        opened * short * idle * (1 - stolen),
        text=f"is held back by a CPU quota or by too few allowed CPUs: its threads were ready and"
        f" not running {min(1.0, waited or 0) * 100:.0f} % while the node's CPUs were {(1 - host.busy) * 100:.0f} %"
        " idle",
        support=(
            percent("thread_group.delay", waited, t.run_delay, "threads wait for a CPU"),
            percent("cpu.busy", host.busy, t.host_busy, "CPUs of the node busy"),
        ),
        against=(percent("cpu_steal_ms", host.steal, t.steal, "CPU time taken by the hypervisor"),),
        signals=(
            Signal("cgroup", readable=False, weight=0.0),
            Signal("cpu.cpu_steal_ms", host.steal is not None, 0.1),
        ),
        cap=CAP,
    )


__all__ = ["NAME", "assess"]
