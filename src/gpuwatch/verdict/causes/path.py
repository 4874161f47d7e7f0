"""NETWORK/path: segments come out of order, or twice: the path is at fault, nothing need be lost."""

from gpuwatch.verdict.evidence import (
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    percent,
    waiting,
    waiting_cap,
)
from gpuwatch.verdict.losses import lossy, reordering

NAME = Kind("NETWORK", "path")
CAP = 0.75
"""Round trips of single connections are not seen, so the path itself is inferred."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    loss, t, wait = context.host.loss, context.thresholds, waiting(context)
    fault = lossy(context) * reordering(context)
    if loss is None or fault == 0:
        return Assessment(*NAME, 0.0)
    return assessment(
        context,
        NAME,
        gate(wait, t) * fault,
        text=f"has a path that reorders packets: {loss.rate * 100:.2f} % of segments sent again, needlessly",
        support=(
            percent("tcp_dsack_received", loss.reordered, None, "retransmits that came twice"),
            percent("tcp_retrans_segs", loss.rate, t.retransmit, "TCP segments sent again"),
            percent("wait", wait, t.lost, "GPU waits for others"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=min(CAP, waiting_cap(context)),
    )


__all__ = ["NAME", "assess"]
