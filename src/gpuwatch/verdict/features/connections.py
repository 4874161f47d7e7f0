"""The job's own TCP connections, by rank, role and peer."""

from collections.abc import Sequence

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Columns, Window
from gpuwatch.verdict.features.rates import scaled
from gpuwatch.verdict.features.tcp import ENOUGH_RETRANSMITS, wilson

__all__ = ["Connection", "connections"]

_FEW_SEGMENTS = 200.0
"""Segments below which no share of them is told."""
_RATES = Columns(
    "connection", "connections", "busy_us", "received_bytes", "acked_bytes", "rtt_us", "rtt_var_us"
)
_SEGMENTS = Columns("connection", "out_segs", "retransmits", "spurious_retransmits")


class Connection(msgspec.Struct, frozen=True, gc=False):
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


def connections(fast: Window, slow: Window) -> dict[Labels, tuple[Connection, ...]]:
    """Return the connections of each rank, by its group and name as they came."""
    found: dict[Labels, list[Connection]] = {}
    for labels in slow.seen("connection"):
        known = _connection(fast, slow, labels)
        if known is not None:
            found.setdefault(labels[:2], []).append(known)
    return {rank: tuple(known) for rank, known in found.items()}


def _connection(fast: Window, slow: Window, labels: Labels) -> Connection | None:
    """Return what the last seconds tell; of longer where sockets are dear and looked at seldom."""
    rates = fast.rates_of(labels, _RATES)
    trip, swing = _trip(rates)
    if trip is None or None in rates:
        longer = slow.rates_of(labels, _RATES)
        if longer[0] is None:
            return None
        if trip is None:
            trip, swing = _trip(longer)
        rates = [far if near is None else near for near, far in zip(rates, longer, strict=True)]
    count, busy, received, sent, _, _ = rates
    again, low = _again(fast, labels) or _again(slow, labels) or (None, None)
    return Connection(
        role=str(labels[2]),
        peer=str(labels[3]),
        trip_ms=scaled(trip, 1e-3),
        swing=swing / trip if swing is not None and trip else None,
        again=again,
        again_low=low,
        busy=busy / 1e6 / max(1.0, count or 1.0) if busy is not None else None,
        received_mb_s=scaled(received, 1e-6),
        sent_mb_s=scaled(sent, 1e-6),
    )


def _trip(rates: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Return round trip and its mean deviation; None where nothing is sent in the window.

    Only what is sent is measured: of what has sent nothing yet the kernel knows the handshake's.
    """
    _, _, _, acked, trip, swing = rates
    return (None, None) if acked == 0 or trip is None else (trip, swing)


def _again(window: Window, labels: Labels) -> tuple[float, float] | None:
    sent, again, twice = window.growths_of(labels, _SEGMENTS)
    if sent is None or again is None or sent < _FEW_SEGMENTS:
        return None
    lost = min(sent, max(0.0, again - (twice or 0.0)))
    return lost / sent, wilson(lost, sent) if lost >= ENOUGH_RETRANSMITS else 0.0
