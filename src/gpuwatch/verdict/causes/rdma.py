"""NETWORK/loss, NETWORK/link and NETWORK/congestion where the job exchanges by RDMA.

RDMA goes back to what was lost and sends all from there again, and a missing acknowledgement
stalls it for seconds: a millionth of its packets is much. A port that is paused waits for the
other end of its cable. Congestion notices alone prove nothing: whoever shares the link gets them.
"""

import msgspec

from gpuwatch.model.verdict import Finding
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
from gpuwatch.verdict.features import Rdma

NAMES = (Kind("NETWORK", "loss"), Kind("NETWORK", "link"), Kind("NETWORK", "congestion"))
_PAUSED = (0.02, 0.10)
"""Share of time that a port was paused: pauses of a step's bursts are shorter."""


class _Fault(msgspec.Struct, frozen=True):
    severity: float
    kind: Kind
    finding: Finding | None
    text: str


def fault(context: Context) -> float:
    """Return how bad the worst RDMA port is, 0 to 1."""
    return max((_worst(context, port).severity for port in context.host.rdma), default=0.0)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, wait = context.thresholds, waiting(context)
    rated = [_worst(context, port) for port in context.host.rdma]
    worst = max(rated, key=lambda f: (f.severity, f.text), default=None)
    if worst is None or worst.severity == 0:
        return Assessment(*NAMES[0], 0.0)
    return assessment(
        context,
        worst.kind,
        gate(wait, t) * worst.severity,
        text=worst.text,
        support=(worst.finding, percent("wait", wait, t.lost, "GPU waits for others")),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=waiting_cap(context),
    )


def _worst(context: Context, port: Rdma) -> _Fault:
    return max(
        (_down(port), _lost(context, port), _stalled(port), _paused(port)),
        key=lambda f: f.severity,
    )


def _lost(context: Context, port: Rdma) -> _Fault:
    limit = context.thresholds.rdma_retransmit
    found = percent(f"rdma.{port.port}.again", port.again, limit, "RDMA packets sent again")
    text = f"loses RDMA packets on {port.port}: {(port.again or 0) * 100:.4f} % sent again"
    return _Fault(0.9 * ramp(port.again, limit / 2, 10 * limit), NAMES[0], found, text)


def _stalled(port: Rdma) -> _Fault:
    found = number(
        f"rdma.{port.port}.timeouts", port.timeouts, "", 1.0, "no acknowledgement in time"
    )
    text = f"got no acknowledgement in time on {port.port}, {port.timeouts or 0:.0f} times"
    return _Fault(0.8 if port.timeouts else 0.0, NAMES[0], found, text)


def _down(port: Rdma) -> _Fault:
    found = number(f"rdma.{port.port}.downed", port.downed, "", 1.0, f"{port.port} went down")
    text = f"had its RDMA link {port.port} go down"
    return _Fault(0.95 if port.downed else 0.0, NAMES[1], found, text)


def _paused(port: Rdma) -> _Fault:
    held, holds = port.held or 0.0, port.holds or 0.0
    share, own = max(held, holds), holds > held
    found = percent(f"rdma.{port.port}.paused", share, _PAUSED[1], f"{port.port} paused")
    text = (
        f"cannot take what comes on {port.port}: it paused the other end {share * 100:.0f} % of the time"
        if own
        else f"is held up on {port.port}: the network paused it {share * 100:.0f} % of the time"
    )
    return _Fault((0.9 if own else 0.6) * ramp(share, *_PAUSED), NAMES[2], found, text)


__all__ = ["NAMES", "assess", "fault"]
