"""NETWORK/fallback: RDMA ports are up and carry nothing, while the job exchanges over TCP.

NCCL falls back to sockets without a word when it may not use, or does not find, the adapters.
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


@once_a_node
def severity(context: Context) -> float:
    """Return how surely the job exchanges past its RDMA ports, 0 to 1."""
    active = [port.bytes_s for port in context.host.rdma if port.active]
    if not active or any(b is None or b >= _SILENT_BYTES_S for b in active):
        return 0.0
    if context.peers.nodes < 2 or context.host.nic is None:
        return 0.0
    return ramp(context.host.nic.bytes_s / 1e6, *_EXCHANGED_MB_S)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    nic, t, wait, silent = context.host.nic, context.thresholds, waiting(context), severity(context)
    if nic is None or silent == 0:
        return Assessment(*NAME, 0.0)
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
            number("rdma", most, "MB/s", _SILENT_BYTES_S / 1e6, "busiest RDMA port"),
            percent("wait", wait, t.lost, "GPU waits for others"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=waiting_cap(context),
    )


__all__ = ["NAME", "assess", "severity"]
