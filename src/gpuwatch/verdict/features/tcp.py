"""What TCP lost, by the counters of a whole node."""

import math

import msgspec

from gpuwatch.model.view import Window
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Loss", "disorder", "loss", "wilson"]

ENOUGH_RETRANSMITS = 10
"""Retransmits below which a rate is not held against the network."""
_FEW_SEGMENTS = 200
"""Received segments below which their order says nothing; receive offload joins many into one."""
_Z = 1.96


class Loss(msgspec.Struct, frozen=True, gc=False):
    """TCP's own view: `low` is the lower end of the 95 % interval of `rate`."""

    segments: float
    retransmits: float
    raw: float
    rate: float
    low: float
    hard: float
    reordered: float
    segments_s: float


def loss(window: Window, thresholds: Thresholds) -> Loss | None:
    """Return TCP's losses; None where a counter is missing or too few segments were sent."""
    sent = window.growth("node", (), "tcp_out_segs")
    again = window.growth("node", (), "tcp_retrans_segs")
    probes = window.growth("node", (), "tcp_loss_probes")
    if sent is None or again is None or probes is None or sent < thresholds.retransmit_segments:
        return None
    lost = max(0.0, again - probes)
    hard = _sum(window, "tcp_timeouts", "tcp_fast_retrans", "tcp_slow_start_retrans")
    reordered = max(
        _sum(window, "tcp_dsack_received"), _sum(window, "tcp_sack_reorder")
    )  # fmt: skip
    return Loss(
        segments=sent,
        retransmits=lost,
        raw=again / sent,
        rate=lost / sent,
        low=wilson(lost, sent) if lost >= ENOUGH_RETRANSMITS else 0.0,
        hard=min(1.0, hard / lost) if lost else 0.0,
        reordered=min(1.0, reordered / lost) if lost else 0.0,
        segments_s=sent / window.seconds,
    )


def disorder(window: Window) -> float | None:
    """Return the share of received segments that came out of order; None of too few."""
    got = window.growth("node", (), "tcp_in_segs")
    late = window.growth("node", (), "tcp_out_of_order")
    return late / got if got is not None and late is not None and got >= _FEW_SEGMENTS else None


def wilson(hits: float, trials: float) -> float:
    """Return the lower end of the 95 % Wilson interval of a share."""
    share = min(1.0, hits / trials)
    centre = share + _Z**2 / (2 * trials)
    spread = _Z * math.sqrt(share * (1 - share) / trials + _Z**2 / (4 * trials**2))
    return max(0.0, (centre - spread) / (1 + _Z**2 / trials))


def _sum(window: Window, *counters: str) -> float:
    return sum(window.growth("node", (), name) or 0.0 for name in counters)
