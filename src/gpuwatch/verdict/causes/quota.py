"""CPU/quota: a cgroup's quota stops threads that could run.

The cgroup's own counters decide. Without them a run delay on a host whose CPUs are idle is all
that is seen: a set of too few allowed CPUs does that as well, so it is not said surely.
"""

from gpuwatch.verdict.causes.system import delay, explained, lost
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
    starting,
)

NAME = Kind("CPU", "quota")
_INFERRED_CAP = 0.5


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, host, waited = context.thresholds, context.host, delay(context)
    opened = gate(lost(context), t)
    short = ramp(waited, t.run_delay / 2, 1.5 * t.run_delay)
    if opened == 0 or short == 0 or starting(context):
        return NOTHING
    told = throttled(context)
    found = ramp(told, t.quota_periods / 2, 2 * t.quota_periods)
    if told is None:
        found = _idle(context) * (1 - loaders_alone(context))
    return assessment(
        context,
        NAME,
        opened * short * explained(context) * found,
        text=_text(context),
        support=(
            percent(
                "cgroup.throttled_periods", told, t.quota_periods, "periods stopped by a quota"
            ),
            percent("thread_group.delay", waited, t.run_delay, "threads wait for a CPU"),
            percent("cpu.busy", host.busy, t.host_busy, "CPUs of the node busy"),
        ),
        against=(percent("cpu_steal_ms", host.steal, t.steal, "CPU time taken by the hypervisor"),),
        signals=(
            Signal("cgroup", told is not None, 0.0),
            Signal("cpu.cpu_steal_ms", host.steal is not None, 0.1),
        ),
        cap=_INFERRED_CAP if told is None else 1.0,
    )


def throttled(context: Context) -> float | None:
    """Return the share of its quota's periods in which the rank was stopped; None if not known."""
    return context.rank.allowance.throttled if context.rank else None


def loaders_alone(context: Context) -> float:
    """Return how surely loaders run late and the main thread does not: a quota stops them all."""
    main, loader = context.role("main").late, context.role("loader").late
    if main is None or not loader:
        return 0.0
    return 1 - ramp(main / loader, 0.5, 1.0)


def _idle(context: Context) -> float:
    host, t = context.host, context.thresholds
    if host.busy is None:
        return 0.0
    stolen = ramp(host.steal, t.steal / 2, t.steal)
    return (1 - ramp(host.busy, 0.6 * t.host_busy, t.host_busy)) * (1 - stolen)


def _text(context: Context) -> str:
    told, waited = throttled(context), min(1.0, delay(context) or 0.0)
    if told is not None:
        return (
            f"is held back by a CPU quota: it stopped the job in {told * 100:.0f} % of its periods"
        )
    idle = 1 - (context.host.busy or 0.0)
    return (
        "is held back by a CPU quota or by too few allowed CPUs: its threads were ready and not running"
        f" {waited * 100:.0f} % while the node's CPUs were {idle * 100:.0f} % idle"
    )


__all__ = ["NAME", "assess", "loaders_alone", "throttled"]
