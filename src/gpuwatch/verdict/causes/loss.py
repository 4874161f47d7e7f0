"""NETWORK/loss: TCP sends segments again while GPUs wait for each other.

Loss probes are left out: a healthy data centre sends them, and they count as retransmits. The
lower end of the interval is compared, so that a handful of segments proves nothing. Round trips
of RDMA are not in these counters.
"""

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

NAME = Kind("NETWORK", "loss")
_TRICKLE = 1000.0
_TRICKLE_CAP = 0.5
"""So few segments a second, 1.5 MB in usual frames, may be sessions and mounts beside RDMA."""
_REORDERED = (0.5, 0.9)
"""Share of retransmits that the peer had already: from here on it is reordering, not loss."""


def lossy(context: Context) -> float:
    """Return how far TCP's losses are beyond what is clean, 0 to 1."""
    loss, limit = context.host.loss, context.thresholds.retransmit
    return ramp(loss.low, limit / 2, 2 * limit) if loss else 0.0


def reordering(context: Context) -> float:
    """Return how surely retransmits come from reordering, 0 to 1."""
    loss = context.host.loss
    return ramp(loss.reordered, *_REORDERED) if loss else 0.0


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    loss, t, wait = context.host.loss, context.thresholds, waiting(context)
    fault = lossy(context) * (1 - reordering(context))
    if loss is None or fault == 0:
        return Assessment(*NAME, 0.0)
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


__all__ = ["NAME", "assess", "lossy", "reordering"]
