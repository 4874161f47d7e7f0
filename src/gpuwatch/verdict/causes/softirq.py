"""NETWORK/softirq: one CPU takes in all packets and can no more, while GPUs wait for each other.

Packets of one queue are taken in by one CPU: on a node of many its mean use tells nothing. A full
port needs as much of a CPU, and a node whose CPUs are all taken has another cause. Nothing need be
dropped: a sender only sees that its data is taken slowly.
"""

from gpuwatch.verdict.causes.bandwidth import full as full_port
from gpuwatch.verdict.evidence import (
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    number,
    once_a_node,
    percent,
    ramp,
    waiting,
    waiting_cap,
)
from gpuwatch.verdict.features.softirq import Softirq, softirq

NAME = Kind("NETWORK", "softirq")
_FULL = (0.6, 0.9)
"""Share of a CPU's time in soft interrupts: beyond, what the card receives waits or is dropped."""
_CARRIED_MB_S = (20.0, 100.0)
"""What comes in meanwhile: other soft interrupts, as of timers and disks, are no packets."""
_DROPPED = 0.0001
"""Share of packets that find a CPU's backlog full, of which TCP notices."""
_SQUEEZED_S = 10.0
"""Times a second that a CPU stops with packets left: a burst makes one now and then."""
_ALONE = 0.85
"""What a full CPU is worth that drops nothing and never stops with packets left."""


@once_a_node
def severity(context: Context) -> float:
    """Return how surely one CPU limits what the node's ports can take, 0 to 1."""
    t, host = context.thresholds, context.host
    carried = ramp(host.nic.bytes_s / 1e6, *_CARRIED_MB_S) if host.nic else 0.0
    hot = ramp(host.hottest_softirq, *_FULL) * carried
    if hot == 0 or host.busy is None:
        return 0.0
    seen = _seen(context)
    left = max(ramp(seen.dropped, 0.0, _DROPPED), ramp(seen.squeezed, 0.0, _SQUEEZED_S))
    crowded = ramp(host.busy, 0.7 * t.host_busy, t.host_busy) if (host.cpus or 0.0) > 1 else 0.0
    return hot * (1 - crowded) * (1 - full_port(context)) * (_ALONE + (1 - _ALONE) * left)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, wait, host = context.thresholds, waiting(context), context.host
    hot, full = host.hottest_softirq, severity(context)
    if hot is None or host.nic is None or full == 0:
        return Assessment(*NAME, 0.0)
    seen = _seen(context)
    which = "one CPU" if seen.core is None else f"CPU {seen.core} alone"
    return assessment(
        context,
        NAME,
        0.95 * gate(wait, t) * full,
        text=f"takes in packets on {which}, which is full: {min(1.0, hot) * 100:.0f} % in soft interrupts",
        support=(
            percent("cpu_hottest_softirq_ms", hot, _FULL[1], "one CPU in soft interrupts"),
            number(
                f"nic.{host.nic.name}", host.nic.bytes_s / 1e6, "MB/s", _CARRIED_MB_S[1],
                host.nic.name,
            ),
            percent("softnet_dropped", seen.dropped, _DROPPED, "packets dropped by a full backlog"),
            number("softnet_time_squeezed", seen.squeezed, "/s", _SQUEEZED_S, "stops with packets left"),
            percent("wait", wait, t.lost, "GPU waits for others"),
        ),
        against=(
            percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),
            percent("cpu", host.busy, t.host_busy, "all CPUs together"),
        ),
        signals=(
            Signal("softnet", seen.squeezed is not None, 0.0),
            Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),
        ),
        cap=waiting_cap(context),
    )  # fmt: skip


@once_a_node
def _seen(context: Context) -> Softirq:
    return softirq(context.fast, context.slow)


__all__ = ["NAME", "assess", "severity"]
