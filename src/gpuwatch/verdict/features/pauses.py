"""What cards count beyond bytes: who paused whom, what they dropped, what a cloud held back."""

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Window
from gpuwatch.verdict.features.rates import scaled

__all__ = ["Pauses", "pauses"]

_FRAMES = ("pause_frames", "pfc_frames")
_WAYS = ("rx_bytes", "tx_bytes")
_RDMA_BYTES_S = 1e6
_ALLOWANCES = ("bw_in_exceeded", "bw_out_exceeded", "pps_exceeded")


class Pauses(msgspec.Struct, frozen=True):
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
        if any((window.rate("rdma", labels, way) or 0.0) >= _RDMA_BYTES_S for way in _WAYS)
    }
    ports = (labels for labels in window.entities("nic") if labels[0] not in carry)
    return tuple(_port(window, labels) for labels in ports)


def _port(window: Window, labels: Labels) -> Pauses:
    came = window.growth("nic", labels, "rx_packets")
    went = window.growth("nic", labels, "tx_packets")
    bytes_s = [window.rate("nic", labels, way) or 0.0 for way in _WAYS]
    dropped = _sum(window, labels, ("rx_discards", "rx_out_of_buffer"))
    over = _sum(window, labels, _ALLOWANCES)
    held, holds = (_sum(window, labels, [f"{way}_{f}" for f in _FRAMES]) for way in ("rx", "tx"))
    return Pauses(
        str(labels[0]),
        max(bytes_s),
        scaled(window.rate("nic", labels, "rx_pause_us"), 1e-6),
        scaled(window.rate("nic", labels, "tx_pause_us"), 1e-6),
        scaled(held, 1 / window.seconds),
        scaled(holds, 1 / window.seconds),
        dropped / (came + dropped) if came and dropped is not None else None,
        over / (came + went) if came and went and over is not None else None,
    )


def _sum(window: Window, labels: Labels, counters: tuple[str, ...] | list[str]) -> float | None:
    grown = [window.growth("nic", labels, name) for name in counters]
    known = [count for count in grown if count is not None]
    return sum(known) if known else None
