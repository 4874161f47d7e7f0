"""NETWORK/fallback: RDMA ports are up and carry nothing, while the job exchanges over TCP.

NCCL falls back to sockets without a word when it may not use, or does not find, the adapters. RDMA
is silent as well while all wait for one that is late, and Ethernet may carry files meanwhile: what
the ranks' own connections carry decides.
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

NAME = Kind("NETWORK", "fallback")
_SILENT_BYTES_S = 1e6
"""What a port carries that is not used for an exchange: keeping connections alive."""
_EXCHANGED_MB_S = (20.0, 100.0)
"""What an Ethernet port carries that gradients go over: sessions and logs carry less."""

_OWN = (0.2, 0.5)
"""Part of what the port carries that ranks exchange with other nodes: the rest may be files."""
_UNSEEN_CAP = 0.7
"""Where no connection of a rank is seen, what the port carries may be anything."""


@once_a_node
def severity(context: Context) -> float:
    """Return how surely the job exchanges past its RDMA ports, 0 to 1."""
    active = [port.bytes_s for port in context.host.rdma if port.active]
    if not active or any(b is None or b >= _SILENT_BYTES_S for b in active):
        return 0.0
    if context.peers.nodes < 2 or context.host.nic is None:
        return 0.0
    own = _own(context)
    past = 1.0 if own is None else ramp(own, *_OWN)
    return past * ramp(context.host.nic.bytes_s / 1e6, *_EXCHANGED_MB_S)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    nic, t, wait, silent = context.host.nic, context.thresholds, waiting(context), severity(context)
    if nic is None or silent == 0:
        return Assessment(*NAME, 0.0)
    own = _own(context)
    ports = [port for port in context.host.rdma if port.active]
    most = max((port.bytes_s or 0.0) / 1e6 for port in ports)
    return assessment(
        context,
        NAME,
        0.95 * gate(wait, t) * silent,
        text=f"exchanges over {nic.name} ({nic.bytes_s / 1e6:.0f} MB/s), while {len(ports)} RDMA"
        f" {'port is' if len(ports) == 1 else 'ports are'} up and carry nothing",
        support=(
            number(f"nic.{nic.name}", nic.bytes_s / 1e6, "MB/s", _EXCHANGED_MB_S[1], nic.name),
            percent("connection", own, _OWN[1], "ranks' own connections have of it"),
            number("rdma", most, "MB/s", _SILENT_BYTES_S / 1e6, "busiest RDMA port"),
            percent("wait", wait, t.lost, "GPU waits for others"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=min(waiting_cap(context), _UNSEEN_CAP if own is None else 1.0),
    )


@once_a_node
def _own(context: Context) -> float | None:
    """Return which part of what the fullest port carries is the ranks'; None where it is not seen."""
    nic, homes, fast = context.host.nic, context.peers.homes, context.fast
    moved = [
        [
            rate
            for labels, rate in fast.rates("connection", way)
            if labels[2] == "main" and labels[3] in homes
        ]
        for way in ("received_bytes", "acked_bytes")
    ]
    if nic is None or not nic.bytes_s or not any(moved):
        return None
    return max(sum(rates) for rates in moved) / nic.bytes_s


__all__ = ["NAME", "assess", "severity"]
