"""PEER: the GPU spins in a collective, and nothing on this node is wrong: it waits for another."""

from gpuwatch.verdict.causes import (
    bandwidth,
    checkpoint,
    fallback,
    link,
    loss,
    rdma,
    read,
    softirq,
    system,
    trip,
)
from gpuwatch.verdict.evidence import (
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

NAME = Kind("PEER", None)
_FEW_CAP = 0.5
"""With fewer than three to compare, or behind a path that loses, who waits for whom is half a guess."""
_RDMA_LOSS = "rdma.packet_seq_err"
"""What a virtual function does not count, whose packets may be lost all the same."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, gpu, host = context.thresholds, context.gpu, context.host
    spin = gpu.shares.spin
    opened = opening(context)
    if opened == 0:
        return Assessment(*NAME, 0.0)
    network = max(
        loss.lossy(context),
        bandwidth.full(context),
        link.fault(context),
        trip.severity(context),
        rdma.fault(context),
        softirq.severity(context),
        fallback.severity(context),
    )
    blocked = max(read.severity(context), checkpoint.severity(context))
    own = max(blocked * gate(input_lost(context), t), system.late(context))
    nic, few = host.nic, max(context.peers.nodes, context.ranks) < 3
    return assessment(
        context,
        NAME,
        opened * (0.5 + 0.5 * ramp(spin, t.lost, t.compute)) * (1 - network) * (1 - own),
        text=f"waits for another: its GPU spins {spin * 100:.0f} % of the time and its host is clean",
        support=(
            percent("gpu.spin", spin, t.lost, "GPU spins"),
            number("power_w", gpu.power_w, "W", gpu.compute_w, "power"),
            percent("tcp_retrans_segs", host.loss.rate if host.loss else None, t.retransmit,
                    "TCP segments lost"),
        ),
        against=(
            percent("nic", nic.used if nic else None, 1 - t.bandwidth_deficit,
                    "fullest port of its line rate"),
            percent("tcp_out_of_order", host.disorder, t.out_of_order, "segments came out of order"),
            percent("gpu.compute", gpu.shares.compute, t.compute, "GPU computes"),
        ),
        signals=(
            Signal("tcp", host.loss is not None or "tcp" not in context.absent, 0.15),
            Signal("nic", bool(host.nics), 0.15),
            Signal("threads.wchan", context.role("main").waits is not None, 0.15),
            Signal("threads.delay_ns", context.role("main").delay is not None, 0.1),
            Signal("rdma", "rdma" not in context.absent, 0.0),
            Signal(_RDMA_LOSS, _RDMA_LOSS not in context.absent, 0.0),
            Signal("sockets", "sockets" not in context.absent, 0.0),
        ),
        cap=_FEW_CAP if few or (host.disorder or 0.0) >= t.out_of_order else 1.0,
    )  # fmt: skip


def opening(context: Context) -> float:
    """Return how much spinning opens the question who is waited for.

    Where the job's own log tells that steps take longer, less of it does: it need not be more than
    what the job loses.
    """
    t, spin, lost = context.thresholds, context.gpu.shares.spin, context.peers.lost
    if lost < t.slowdown:
        return gate(spin, t)
    enough = min(t.lost, lost)
    return ramp(spin, enough / 2, enough)


__all__ = ["NAME", "assess", "opening"]
