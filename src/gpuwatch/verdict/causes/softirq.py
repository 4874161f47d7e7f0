"""NETWORK/softirq: one CPU takes in all packets and can no more, while GPUs wait for each other.

Packets of one queue are taken in by one CPU: on a node of many its mean use tells nothing.
"""

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

NAME = Kind("NETWORK", "softirq")
_FULL = (0.6, 0.9)
"""Share of a CPU's time in soft interrupts: beyond, what the card receives waits or is dropped."""
_CARRIED_MB_S = (20.0, 100.0)
"""What comes in meanwhile: other soft interrupts, as of timers and disks, are no packets."""


@once_a_node
def severity(context: Context) -> float:
    """Return how surely one CPU limits what the node's ports can take, 0 to 1."""
    nic = context.host.nic
    carried = ramp(nic.bytes_s / 1e6, *_CARRIED_MB_S) if nic else 0.0
    return ramp(context.host.hottest_softirq, *_FULL) * carried


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, wait, host = context.thresholds, waiting(context), context.host
    hot, full = host.hottest_softirq, severity(context)
    if hot is None or host.nic is None or full == 0:
        return Assessment(*NAME, 0.0)
    return assessment(
        context,
        NAME,
        0.9 * gate(wait, t) * full,
        text=f"takes in packets on one CPU, which is full: {hot * 100:.0f} % in soft interrupts",
        support=(
            percent("cpu_hottest_softirq_ms", hot, _FULL[1], "one CPU in soft interrupts"),
            number(
                f"nic.{host.nic.name}", host.nic.bytes_s / 1e6, "MB/s", _CARRIED_MB_S[1],
                host.nic.name,
            ),
            percent("wait", wait, t.lost, "GPU waits for others"),
        ),
        against=(
            percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),
            percent("cpu", host.busy, t.host_busy, "all CPUs together"),
        ),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=waiting_cap(context),
    )  # fmt: skip


__all__ = ["NAME", "assess", "severity"]
