"""What cards count beyond bytes: who paused whom, what they dropped, what a cloud held back."""

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Columns, Window
from gpuwatch.verdict.features.rates import added, scaled

__all__ = ["Pauses", "pauses"]

_RDMA = Columns("rdma", "rx_bytes", "tx_bytes")
_RDMA_BYTES_S = 1e6
_RATES = Columns("nic", "rx_bytes", "tx_bytes", "rx_pause_us", "tx_pause_us")
_COUNTS = Columns(
    "nic", "rx_packets", "tx_packets", "rx_pause_frames", "rx_pfc_frames", "tx_pause_frames", "tx_pfc_frames",
    "rx_discards", "rx_out_of_buffer", "bw_in_exceeded", "bw_out_exceeded", "pps_exceeded",
)  # fmt: skip


class Pauses(msgspec.Struct, frozen=True, gc=False):
    """One port over a slow window.

    `held` is the share of time in which the other end of its cable held it up, `holds` that in
    which it held up the other; where a card does not count time, `held_frames` and `holds_frames`
    are pause frames a second. `dropped` is the share of packets that came and that the card or
    its host had no room for, `over` that which the cloud held back.
    """

    name: str
    bytes_s: float
    held: float | None
    holds: float | None
    held_frames: float | None
    holds_frames: float | None
    dropped: float | None
    over: float | None


def pauses(window: Window) -> tuple[Pauses, ...]:
    """Return the ports of a node, but those that carry RDMA: their packets are counted elsewhere."""
    carry = {
        labels[1]
        for labels in window.entities("rdma")
        if any((rate or 0.0) >= _RDMA_BYTES_S for rate in window.rates_of(labels, _RDMA))
    }
    ports = (labels for labels in window.entities("nic") if labels[0] not in carry)
    return tuple(_port(window, labels) for labels in ports)


def _port(window: Window, labels: Labels) -> Pauses:
    received, sent, held_us, holds_us = window.rates_of(labels, _RATES)
    came, went, *counts = window.growths_of(labels, _COUNTS)
    held, holds, dropped, over = (added(counts[a:b]) for a, b in ((0, 2), (2, 4), (4, 6), (6, 9)))
    return Pauses(
        str(labels[0]),
        max(received or 0.0, sent or 0.0),
        scaled(held_us, 1e-6),
        scaled(holds_us, 1e-6),
        scaled(held, 1 / window.seconds),
        scaled(holds, 1 / window.seconds),
        dropped / (came + dropped) if came and dropped is not None else None,
        over / (came + went) if came and went and over is not None else None,
    )
