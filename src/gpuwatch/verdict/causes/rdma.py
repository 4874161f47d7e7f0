"""NETWORK/loss, NETWORK/link and NETWORK/congestion by RDMA: what no TCP counter knows of.

RDMA goes back to what was lost and sends all from there again, and a missing acknowledgement
stalls it for seconds, so a millionth of its packets is much. A port that is paused waits for the
other end of its cable. Congestion notices alone prove nothing, as whoever shares the link gets them.
Nor do packets out of sequence, which adaptive routing makes. The rails of one node are alike: one
that is slower than its siblings holds up all of them.
"""

from gpuwatch.verdict.evidence import Assessment, Context, Kind, number, once_a_node, percent, ramp
from gpuwatch.verdict.features import Rdma
from gpuwatch.verdict.ports import PortFault, assess_worst, worst

NAMES = (Kind("NETWORK", "loss"), Kind("NETWORK", "link"), Kind("NETWORK", "congestion"))
_PAUSED = (0.02, 0.10)
"""Share of time that a port was paused: pauses of a step's bursts are shorter."""
HOLDS = "holds"
"""How the metric of a port ends that holds up whoever sends to it: those are its victims."""
_FEW_RAILS = 3


def fault(context: Context) -> float:
    """Return how bad the worst RDMA port is, 0 to 1."""
    return _worst(context).severity


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    return assess_worst(context, _worst(context))


@once_a_node
def _worst(context: Context) -> PortFault:
    found = (
        fault
        for port in context.host.rdma
        for fault in (
            _down(port),
            _slow(context, port),
            _bad(context, port),
            _lost(context, port),
            _stalled(port),
            _paused(port),
        )
    )
    return worst(NAMES[0], found)


_NONE = PortFault(0.0, NAMES[0], None, "")


def _lost(context: Context, port: Rdma) -> PortFault:
    limit = context.thresholds.rdma_retransmit
    severity = 0.9 * ramp(port.again, limit / 2, 10 * limit)
    if severity == 0:
        return _NONE
    found = percent(f"rdma.{port.port}.again", port.again, limit, "RDMA packets sent again")
    text = f"loses RDMA packets on {port.port}: {(port.again or 0) * 100:.4f} % sent again"
    return PortFault(severity, NAMES[0], found, text, port.port)


def _stalled(port: Rdma) -> PortFault:
    if not port.timeouts:
        return _NONE
    found = number(
        f"rdma.{port.port}.timeouts", port.timeouts, "", 1.0, "no acknowledgement in time"
    )
    text = f"got no acknowledgement in time on {port.port}, {port.timeouts:.0f} times"
    return PortFault(0.8, NAMES[0], found, text, port.port)


def _down(port: Rdma) -> PortFault:
    if not port.downed:
        return _NONE
    found = number(f"rdma.{port.port}.downed", port.downed, "", 1.0, f"{port.port} went down")
    return PortFault(0.95, NAMES[1], found, f"had its RDMA link {port.port} go down", port.port)


def _slow(context: Context, port: Rdma) -> PortFault:
    """Most rails of the same node run faster."""
    speeds = sorted(p.speed_mbps for p in context.host.rdma if p.active and p.speed_mbps)
    usual = speeds[len(speeds) // 2] if len(speeds) >= _FEW_RAILS else 0.0
    speed = port.speed_mbps or usual
    if not port.active or speed >= usual * (1 - context.thresholds.bandwidth_deficit):
        return _NONE
    found = number(f"rdma.{port.port}.rate_mbps", speed, "Mb/s", usual, f"{port.port} runs at")
    text = f"has a slow link: {port.port} at {speed:g} Mb/s, its other rails at {usual:g}"
    return PortFault(0.8, NAMES[1], found, text, port.port)


def _bad(context: Context, port: Rdma) -> PortFault:
    """A bad symbol spoils the packet that it is in, which is then sent again."""
    limit = context.thresholds.rdma_retransmit
    severity = 0.8 * ramp(port.symbols, limit / 2, 10 * limit)
    if severity == 0:
        return _NONE
    found = percent(f"rdma.{port.port}.symbols", port.symbols, limit, "bad symbols, of packets,")
    text = f"gets bad symbols on {port.port}: {(port.symbols or 0) * 100:.4f} % of packets"
    return PortFault(severity, NAMES[1], found, text, port.port)


def _paused(port: Rdma) -> PortFault:
    held, holds = port.held or 0.0, port.holds or 0.0
    share, own = max(held, holds), holds > held
    severity = (0.9 if own else 0.6) * ramp(share, *_PAUSED)
    if severity == 0:
        return _NONE
    metric = f"rdma.{port.port}.{HOLDS if own else 'held'}"
    found = percent(metric, share, _PAUSED[1], f"{port.port} paused")
    text = (
        f"cannot take what comes on {port.port}: it paused the other end {share * 100:.0f} % of the time"
        if own
        else f"is held up on {port.port}: the network paused it {share * 100:.0f} % of the time"
    )
    return PortFault(severity, NAMES[2], found, text, port.port)


__all__ = ["HOLDS", "NAMES", "assess", "fault"]
