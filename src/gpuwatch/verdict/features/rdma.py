"""What RDMA ports lost, and who held them up: bytes that no TCP counter knows of."""

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Window

__all__ = ["Rdma", "rdma"]

_AGAIN = ("packet_seq_err", "implied_nak_seq_err", "adaptive_retrans", "retrans_packets")


class Rdma(msgspec.Struct, frozen=True):
    """One port over a slow window.

    `again` is the share of packets that were sent again, `timeouts` how often no acknowledgement
    came, `downed` how often the link went down. `held` is the share of time in which the other
    end of its cable held it up, `holds` that in which it held up the other.
    """

    port: str
    bytes_s: float
    again: float | None
    timeouts: float | None
    downed: float | None
    held: float | None
    holds: float | None


def rdma(window: Window) -> tuple[Rdma, ...]:
    """Return the ports of a node that RDMA may use."""
    return tuple(_port(window, labels) for labels in window.entities("rdma"))


def _port(window: Window, labels: Labels) -> Rdma:
    sent = window.growth("rdma", labels, "tx_packets")
    again = [window.growth("rdma", labels, name) for name in _AGAIN]
    known = [count for count in again if count is not None]
    moved = [window.rate("rdma", labels, way) or 0.0 for way in ("rx_bytes", "tx_bytes")]
    netdev = str(labels[1]) if labels[1] is not None else None
    return Rdma(
        port=str(labels[0]),
        bytes_s=max(moved),
        again=sum(known) / sent if known and sent else None,
        timeouts=window.growth("rdma", labels, "local_ack_timeout_err"),
        downed=window.growth("rdma", labels, "link_downed"),
        held=_paused(window, netdev, "rx_pause_us"),
        holds=_paused(window, netdev, "tx_pause_us"),
    )


def _paused(window: Window, netdev: str | None, metric: str) -> float | None:
    for labels in window.entities("nic"):
        if labels[0] == netdev:
            rate = window.rate("nic", labels, metric)
            return None if rate is None else min(1.0, rate / 1e6)
    return None
