"""CPU/pinned: loaders share too few CPUs while others of the node are idle.

Two or more that are each late and together use exactly one CPU are bound to it: libraries that
set a CPU affinity when they are imported do that. A cgroup quota of one CPU looks alike, but it
stops the main thread as well.
"""

from gpuwatch.verdict.causes.data_prep import busy
from gpuwatch.verdict.causes.quota import loaders_alone, throttled
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
    percent,
    ramp,
)

NAME = Kind("CPU", "pinned")
_INFERRED_CAP = 0.6
"""Where it is not known on which CPUs they may run."""
_WHOLE = (0.05, 0.15)
"""How far from one CPU the loaders' use may be, and from where on it is another figure."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, host, loader = context.thresholds, context.host, context.role("loader")
    lost, told = input_lost(context), throttled(context)
    opened = gate(lost, t)
    short = ramp(loader.delay, t.run_delay / 2, 1.5 * t.run_delay)
    work = ramp(busy(context), t.loader_busy / 2, t.loader_busy)
    if opened == 0 or short == 0 or host.busy is None:
        return NOTHING
    allowed = _allowed(context)
    idle = 1 - ramp(host.busy, 0.6 * t.host_busy, t.host_busy) if host.cpus else 0.0
    few = allowed is not None and host.cpus is not None and allowed < host.cpus
    bound = 1.0 if few else loaders_alone(context)
    innocent = 1 - ramp(told, t.quota_periods / 2, 2 * t.quota_periods)
    return assessment(
        context,
        NAME,
        opened * short * work * idle * _filled(context) * bound * innocent,
        text=f"has loaders that share {_cpus(allowed if few and allowed else 1)} while the node's CPUs are"
        f" {(1 - host.busy) * 100:.0f} % idle",
        support=(
            number(
                "thread_group.loader.cores", loader.cores, "CPUs", allowed, "loaders use together"
            ),
            percent("thread_group.loader.delay", loader.delay, t.run_delay, "each waits for a CPU"),
            percent("cpu.busy", host.busy, t.host_busy, "CPUs of the node busy"),
        ),
        against=(
            percent("thread_group.main.late", context.role("main").late, None, "main thread late"),
            percent(
                "cgroup.throttled_periods", told, t.quota_periods, "periods stopped by a quota"
            ),
        ),
        signals=(
            Signal("cgroup", told is not None, 0.0),
            Signal("placement", loader.allowed is not None, 0.0),
            Signal("threads.wchan", loader.waits is not None, 0.1),
        ),
        cap=1.0 if few else _INFERRED_CAP,
    )


def _allowed(context: Context) -> float | None:
    """Return on how many CPUs the loaders may run; None where that is not known."""
    cgroup = context.rank.allowance.cpus if context.rank else None
    known = [cpus for cpus in (context.role("loader").allowed, cgroup) if cpus]
    return min(known, default=None)


def _filled(context: Context) -> float:
    """Return how surely the CPUs that loaders may use are full, 0 to 1."""
    loader, allowed, cpus = context.role("loader"), _allowed(context), context.host.cpus or 0.0
    if loader.cores is None or (loader.threads or 0.0) < 2:
        return 0.0
    if allowed and allowed >= cpus and loader.allowed:
        return 0.0
    if allowed and allowed < cpus:
        return ramp(loader.cores, 0.7 * allowed, 0.9 * allowed)
    return 1 - ramp(abs(loader.cores - 1), *_WHOLE) if cpus > 1 else 0.0


def _cpus(count: float) -> str:
    return "one CPU" if count == 1 else f"{count:.0f} CPUs"


__all__ = ["NAME", "assess"]
