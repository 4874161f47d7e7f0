"""NETWORK/loss by the job's own connections: segments sent again towards one node of the job.

The counters of a whole node have sessions, mounts and strangers in them, and a container may hide
them; in those of a busy node, what is lost on the way to one peer is a small share. What a peer
says came twice is left out. Where round trips are long as well a queue is full, and drops what does
not fit: that is congestion.
"""

from gpuwatch.verdict.causes import trip
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    number,
    once,
    percent,
    ramp,
    waiting,
    waiting_cap,
)
from gpuwatch.verdict.features import Connection
from gpuwatch.verdict.losses import reordering

NAME = Kind("NETWORK", "loss")
_CARRIES = (0.01, 0.1)
"""MB/s sent to a peer from which on it is a part of the exchange, not a rendezvous."""
_OVERFLOW = 0.5
"""How much of it is left for loss where a round trip is long."""
_BLIND_CAP = 0.5
"""Without round trips loss is not told from congestion, without bytes not from a rendezvous."""


@once
def lossy(context: Context) -> float:
    """Return how far the loss of the rank's worst path is beyond what is clean, 0 to 1."""
    worst = _worst(context)
    return _severity(context, worst) if worst else 0.0


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, wait = context.thresholds, waiting(context)
    opened = gate(wait, t)
    worst = _worst(context) if opened else None
    fault = _severity(context, worst) * (1 - reordering(context)) if worst else 0.0
    if worst is None or fault == 0:
        return NOTHING
    fault *= 1 - _OVERFLOW * trip.queued(context)
    home = context.peers.homes.get(worst.peer, worst.peer)
    return assessment(
        context,
        NAME,
        0.9 * opened * fault,
        text=f"loses packets on its way to {home}: {(worst.again or 0) * 100:.2g} % of its segments sent again",
        support=(
            percent("connection.retransmits", worst.again, t.retransmit, f"sent again to {home}"),
            number("connection.acked_bytes", worst.sent_mb_s, "MB/s", _CARRIES[1], "sent to it"),
            percent("wait", wait, t.lost, "GPU waits for others"),
        ),
        against=(
            number("connection.rtt", worst.trip_ms, "ms", t.round_trip * 1e3, "round trip"),
            percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),
        ),
        signals=(
            Signal("tcp", context.host.loss is not None or "tcp" not in context.absent, 0.1),
            Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),
        ),
        cap=min(waiting_cap(context), 1.0 if worst.trip_ms and worst.sent_mb_s else _BLIND_CAP),
    )


def _worst(context: Context) -> Connection | None:
    """Return the rank's connection to another node of the job that loses most."""
    every = context.rank.connections if context.rank else ()
    ours = [c for c in every if c.role == "main" and c.peer in context.peers.homes and c.again_low]
    return max(ours, key=lambda c: (c.again_low or 0.0, c.peer), default=None)


def _severity(context: Context, worst: Connection) -> float:
    limit = context.thresholds.retransmit
    carries = 1.0 if worst.sent_mb_s is None else ramp(worst.sent_mb_s, *_CARRIES)
    return ramp(worst.again_low, limit / 2, 2 * limit) * carries


__all__ = ["NAME", "assess", "lossy"]
