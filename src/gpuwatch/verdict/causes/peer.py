"""PEER: the GPU spins in a collective, and nothing on this node is wrong: it waits for another."""

from gpuwatch.model.verdict import Finding
from gpuwatch.verdict.causes import (
    bandwidth,
    checkpoint,
    connection_loss,
    fallback,
    hung,
    link,
    nvlink,
    pauses,
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
    once_a_node,
    percent,
    ramp,
)
from gpuwatch.verdict.losses import lossy

NAME = Kind("PEER", None)
_FEW_CAP = 0.5
"""With fewer than three to compare, or behind a path that loses, who waits for whom is half a guess."""
_RDMA_LOSS = "rdma.packet_seq_err"
"""What a virtual function does not count, whose packets may be lost all the same."""
_BEYOND_CHANCE = 2
"""Steps of unequal length are that much longer than the best few in a row, and nobody waits."""
_SEEN = 0.75
"""Share of what a job loses by its own log that a waiting GPU's power shows at least."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, gpu, host = context.thresholds, context.gpu, context.host
    spin = gpu.shares.spin
    told = _told(context)
    opened = opening(context)
    if opened == 0:
        return Assessment(*NAME, 0.0)
    network = max(_network(context), connection_loss.lossy(context), trip.severity(context))
    own = max(
        _blocked(context),
        system.late(context),
        nvlink.severity(context),
        hung.held(context),
    )
    few = max(context.peers.nodes, context.ranks) < 3
    segments, *of_node = _findings(context)
    return assessment(
        context,
        NAME,
        opened * (0.5 + 0.5 * ramp(max(spin, told), t.lost, t.compute)) * (1 - network) * (1 - own),
        text=f"waits for another: {_seen(spin, told)} and its host is clean",
        support=(
            percent("gpu.spin", spin, t.lost, "GPU spins"),
            percent("progress.lost", told or None, t.slowdown, "time lost by the job's own log"),
            number("power_w", gpu.power_w, "W", gpu.compute_w, "power"),
            segments,
        ),
        against=(
            *of_node,
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


@once_a_node
def _network(context: Context) -> float:
    """Return how surely the network that a node is on holds up its ranks, 0 to 1."""
    return max(
        lossy(context),
        bandwidth.full(context),
        link.fault(context),
        rdma.fault(context),
        softirq.severity(context),
        fallback.severity(context),
        pauses.fault(context),
    )


@once_a_node
def _findings(context: Context) -> tuple[Finding | None, ...]:
    """Return what is told of a node's network: what it lost, how full it is, what came late."""
    t, host = context.thresholds, context.host
    lost = host.loss.rate if host.loss else None
    used = host.nic.used if host.nic else None
    return (
        percent("tcp_retrans_segs", lost, t.retransmit, "TCP segments lost"),
        percent("nic", used, 1 - t.bandwidth_deficit, "fullest port of its line rate"),
        percent("tcp_out_of_order", host.disorder, t.out_of_order, "segments came out of order"),
    )


def _blocked(context: Context) -> float:
    """Return how surely the rank waits for its own reads or writes, 0 to 1."""
    opened = gate(input_lost(context), context.thresholds)
    return max(read.severity(context), checkpoint.severity(context)) * opened if opened else 0.0


def opening(context: Context) -> float:
    """Return how much spinning opens the question who is waited for.

    Where the job's own log tells that steps take longer, less of it does: what is exchanged in that
    time draws power as if it were computed.
    """
    t, spin, lost = context.thresholds, context.gpu.shares.spin, context.peers.lost
    if lost < _BEYOND_CHANCE * t.slowdown:
        return gate(spin, t)
    enough = min(t.lost, _SEEN * lost)
    return max(ramp(spin, enough / 2, enough), ramp(_told(context), t.slowdown, 2 * t.slowdown))


def _told(context: Context) -> float:
    """Return what the job loses by its own log where the fault is elsewhere: this rank waits as long."""
    return context.peers.lost if context.elsewhere else 0.0


def _seen(spin: float, told: float) -> str:
    if spin >= told:
        return f"its GPU spins {spin * 100:.0f} % of the time"
    return f"the job loses {told * 100:.0f} % of its time by its own log, to others,"


__all__ = ["NAME", "assess", "opening"]
