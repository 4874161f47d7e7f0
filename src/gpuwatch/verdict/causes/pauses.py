"""NETWORK/congestion and NETWORK/bandwidth where cards tell: pauses, drops, a cloud's allowance.

A port that pauses the other end cannot absorb what comes, nor can one whose card or host had no
room for packets: its own node is slow. A port that was paused waits for a switch, or for such a node.
Frames alone tell no time: one that says stop may be taken back at once by one that says go.
"""

from gpuwatch.verdict.causes.rdma import HOLDS
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    gate,
    number,
    once_a_node,
    percent,
    ramp,
    waiting,
)
from gpuwatch.verdict.features.pauses import Pauses, pauses
from gpuwatch.verdict.ports import PortFault, assess_worst, worst

NAMES = (Kind("NETWORK", "congestion"), Kind("NETWORK", "bandwidth"))
DROPS = "dropped"
"""How the metric of a port ends that has no room for what is sent to it."""
_PAUSED = (0.02, 0.10)
"""Share of time that a port was paused: pauses of a step's bursts are shorter."""
_FRAMES_S = (200.0, 2000.0)
"""Pause frames a second, where no card counts time: bursts of a step make some."""
_BY_FRAMES = 0.5
"""What frames alone are worth, which tell no time."""
_OVER = (0.0001, 0.001)
"""Share of packets that a cloud held back: a short burst over the allowance is no limit."""
_IN_USE_BYTES_S = 1e5
"""A port that carries less than this is not the job's; one that is paused carries little."""
_TELLING_BYTES_S = 1e6
"""What a port must carry for a share of its packets to tell something: some ten thousand in half a minute."""


def fault(context: Context) -> float:
    """Return how bad the worst port is, 0 to 1."""
    return _worst(context).severity


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    if gate(waiting(context), context.thresholds) == 0:
        return NOTHING
    return assess_worst(context, _worst(context))


@once_a_node
def _worst(context: Context) -> PortFault:
    limit = context.thresholds.packet_errors
    found = (
        fault
        for port in pauses(context.slow)
        if port.bytes_s >= _IN_USE_BYTES_S
        for fault in (_holds(port), _held(port), _drops(port, limit), _over(port))
    )
    return worst(NAMES[0], found)


_NONE = PortFault(0.0, NAMES[0], None, "")


def _holds(port: Pauses) -> PortFault:
    """It paused the other end."""
    text = "cannot take what comes on {}: it pauses the other end"
    return _paused(port.name, HOLDS, port.holds, port.holds_frames, 0.9, text)


def _held(port: Pauses) -> PortFault:
    """The other end paused it."""
    text = "is held up on {}: the network pauses it"
    return _paused(port.name, "held", port.held, port.held_frames, 0.6, text)


def _paused(
    name: str, how: str, share: float | None, frames_s: float | None, worth: float, text: str
) -> PortFault:
    if share is not None:
        severity = worth * ramp(share, *_PAUSED)
    else:
        severity = worth * _BY_FRAMES * ramp(frames_s, *_FRAMES_S)
    if severity == 0:
        return _NONE
    metric, text = f"nic.{name}.{how}", text.format(name)
    if share is not None:
        found = percent(metric, share, _PAUSED[1], "time paused")
        text = f"{text} {min(1.0, share) * 100:.0f} % of the time"
    else:
        found = number(metric, frames_s, "/s", _FRAMES_S[1], "pause frames")
        text = f"{text}, {frames_s or 0:.0f} frames a second"
    return PortFault(severity, NAMES[0], found, text)


def _drops(port: Pauses, limit: float) -> PortFault:
    severity = 0.9 * _tells(port) * ramp(port.dropped, limit / 2, 5 * limit)
    if severity == 0:
        return _NONE
    found = percent(f"nic.{port.name}.{DROPS}", port.dropped, limit, "packets without room")
    text = (
        f"takes packets too slowly on {port.name}: {(port.dropped or 0) * 100:.2g} % found no room"
    )
    return PortFault(severity, NAMES[0], found, text)


def _over(port: Pauses) -> PortFault:
    severity = 0.95 * _tells(port) * ramp(port.over, *_OVER)
    if severity == 0:
        return _NONE
    found = percent(f"nic.{port.name}.over", port.over, _OVER[1], "packets held back by the cloud")
    text = f"is over what its cloud allows on {port.name}: {(port.over or 0) * 100:.2g} % of packets held back"
    return PortFault(severity, NAMES[1], found, text)


def _tells(port: Pauses) -> bool:
    return port.bytes_s >= _TELLING_BYTES_S


__all__ = ["DROPS", "NAMES", "assess", "fault"]
