"""NETWORK/bandwidth: a port is full in one direction while GPUs wait for each other.

Each port and direction counts alone: a full management port beside an idle fast one looks
harmless in a sum. Where RDMA ports are up and idle, that is the cause and not a narrow port.
"""

from gpuwatch.verdict.causes import fallback
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    once_a_node,
    percent,
    ramp,
    waiting,
    waiting_cap,
)
from gpuwatch.verdict.features import Nic

NAME = Kind("NETWORK", "bandwidth")


_BESIDE_CAP = 0.6
"""A full port beside one that is several times as fast may carry others' traffic."""


@once_a_node
def full(context: Context) -> float:
    """Return how full the fullest port is, 0 to 1 between clean and full."""
    nic, deficit = context.host.nic, context.thresholds.bandwidth_deficit
    return ramp(nic.used, 1 - 2 * deficit, 1 - deficit) if nic else 0.0


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    nic, t, wait = context.host.nic, context.thresholds, waiting(context)
    fullness = full(context) * (1 - fallback.severity(context))
    if nic is None or nic.used is None or fullness == 0:
        return NOTHING
    return assessment(
        context,
        NAME,
        0.9 * gate(wait, t) * fullness,
        text=f"fills {nic.name} {nic.direction}: {nic.used * 100:.0f} % of its line rate",
        support=(
            percent(
                f"nic.{nic.name}", nic.used, 1 - t.bandwidth_deficit, f"{nic.name} of its line rate"
            ),
            percent("wait", wait, t.lost, "GPU waits for others"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=min(waiting_cap(context), _BESIDE_CAP if _beside(context, nic) else 1.0),
        place=nic.name,
    )


def _beside(context: Context, nic: Nic) -> bool:
    speeds = [other.speed_mbps or 0.0 for other in context.host.nics]
    return max(speeds) >= 2 * (nic.speed_mbps or 0.0)


__all__ = ["NAME", "assess", "full"]
