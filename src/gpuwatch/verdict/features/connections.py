"""The job's own TCP connections, by rank, role and peer."""

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Window
from gpuwatch.verdict.features.rates import scaled
from gpuwatch.verdict.features.tcp import ENOUGH_RETRANSMITS, wilson

__all__ = ["Connection", "connections"]

_FEW_SEGMENTS = 200.0
"""Segments below which no share of them is told."""


class Connection(msgspec.Struct, frozen=True):
    """All connections of one role of a rank to one peer.

    `trip_ms` is the mean round trip, `swing` its mean deviation as a share of it; `again` the share
    of segments that were sent again and not for nothing, `again_low` the lower end of its 95 %
    interval, 0 of a handful; `busy` the share of time with data under
    way, for a connection.
    """

    role: str
    peer: str
    trip_ms: float | None
    swing: float | None
    again: float | None
    again_low: float | None
    busy: float | None
    received_mb_s: float | None
    sent_mb_s: float | None


def connections(fast: Window, slow: Window) -> dict[tuple[str, str], tuple[Connection, ...]]:
    """Return the connections of each rank, by its group and name."""
    found: dict[tuple[str, str], tuple[Connection, ...]] = {}
    for labels in slow.seen("connection"):
        rank = (str(labels[0]), str(labels[1]))
        if not slow.coverage("connection", labels, "connections"):
            continue
        found[rank] = (*found.get(rank, ()), _connection(fast, slow, labels))
    return found


def _connection(fast: Window, slow: Window, labels: Labels) -> Connection:
    def rate(name: str) -> float | None:
        """Return a rate of the last seconds; of longer where sockets are dear and looked at seldom."""
        near = fast.rate("connection", labels, name)
        return slow.rate("connection", labels, name) if near is None else near

    count, busy, sent = rate("connections"), rate("busy_us"), rate("acked_bytes")
    trip, swing = _trip(fast, labels) or _trip(slow, labels) or (None, None)
    again, low = _again(fast, labels) or _again(slow, labels) or (None, None)
    return Connection(
        role=str(labels[2]),
        peer=str(labels[3]),
        trip_ms=scaled(trip, 1e-3),
        swing=swing / trip if swing is not None and trip else None,
        again=again,
        again_low=low,
        busy=busy / 1e6 / max(1.0, count or 1.0) if busy is not None else None,
        received_mb_s=scaled(rate("received_bytes"), 1e-6),
        sent_mb_s=scaled(sent, 1e-6),
    )


def _trip(window: Window, labels: Labels) -> tuple[float | None, float | None] | None:
    """Return round trip and its mean deviation; None where nothing is sent in the window.

    Only what is sent is measured: of what has sent nothing yet the kernel knows the handshake's.
    """
    if window.rate("connection", labels, "acked_bytes") == 0:
        return None
    trip = window.rate("connection", labels, "rtt_us")
    return None if trip is None else (trip, window.rate("connection", labels, "rtt_var_us"))


def _again(window: Window, labels: Labels) -> tuple[float, float] | None:
    sent = window.growth("connection", labels, "out_segs")
    again = window.growth("connection", labels, "retransmits")
    twice = window.growth("connection", labels, "spurious_retransmits")
    if sent is None or again is None or sent < _FEW_SEGMENTS:
        return None
    lost = min(sent, max(0.0, again - (twice or 0.0)))
    return lost / sent, wilson(lost, sent) if lost >= ENOUGH_RETRANSMITS else 0.0
