"""NETWORK/loss: TCP sends segments again while GPUs wait for each other.

Loss probes are left out: a healthy data centre sends them, and they count as retransmits. The
lower end of the interval is compared, so that a handful of segments proves nothing. Round trips
of RDMA are not in these counters.
"""

from gpuwatch.verdict.causes import trip
from gpuwatch.verdict.evidence import (
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    number,
    percent,
    ramp,
    waiting,
    waiting_cap,
)
from gpuwatch.verdict.losses import lossy, reordering

NAME = Kind("NETWORK", "loss")
FAR_END = "tcp_out_of_order"
"""The metric of who receives what another sends again: no proof of loss where nobody does."""
_TRICKLE = 1000.0
_TRICKLE_CAP = 0.5
"""So few segments a second, 1.5 MB in usual frames, may be sessions and mounts beside RDMA."""
_FAR_CAP = 0.7
"""Of the two ends of a path either may be at fault."""
_OVERFLOW = 0.5
"""How much of it is left for loss where a queue is full: what does not fit is dropped, by congestion."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    loss, t, wait = context.host.loss, context.thresholds, waiting(context)
    fault = lossy(context) * (1 - reordering(context))
    if loss is None or fault == 0:
        return _far_end(context)
    fault *= 1 - _OVERFLOW * trip.queued(context)
    rate = percent("tcp_retrans_segs", loss.rate, t.retransmit, "TCP segments lost")
    return assessment(
        context,
        NAME,
        gate(wait, t) * fault * (0.8 + 0.2 * loss.hard),
        text=f"loses packets: {loss.rate * 100:.2f} % of {loss.segments:,.0f} TCP segments sent again",
        support=(
            rate,
            percent("wait", wait, t.lost, "GPU waits for others"),
            percent("tcp_fast_retrans", loss.hard, None, "of these by timeout or fast retransmit"),
            number("tcp_out_segs", loss.segments_s, "/s", _TRICKLE, "TCP segments"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=min(waiting_cap(context), _TRICKLE_CAP if loss.segments_s < _TRICKLE else 1.0),
    )


def _far_end(context: Context) -> Assessment:
    """Judge who receives what another sends again: the path is its own as well."""
    t, disorder, wait = context.thresholds, context.host.disorder, waiting(context)
    late = ramp(disorder, t.out_of_order / 2, 2 * t.out_of_order) if context.at_an_end else 0.0
    if late == 0:
        return Assessment(*NAME, 0.0)
    return assessment(
        context,
        NAME,
        max(gate(wait, t), ramp(context.peers.lost, t.slowdown, 2 * t.slowdown)) * late,
        text=f"is at the far end of a path that loses packets: {100 * (disorder or 0.0):.2f} % of"
        " segments came out of order",
        support=(
            percent(FAR_END, disorder, t.out_of_order, "segments came out of order"),
            percent("wait", wait, t.lost, "GPU waits for others"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=_FAR_CAP,
    )


__all__ = ["FAR_END", "NAME", "assess"]
