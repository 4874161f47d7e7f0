"""What RDMA ports lost, and who held them up: bytes that no TCP counter knows of."""

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Window

__all__ = ["Rdma", "rdma"]

_AGAIN = ("packet_seq_err", "implied_nak_seq_err", "adaptive_retrans", "retrans_packets")
_ACTIVE = 4


class Rdma(msgspec.Struct, frozen=True, gc=False):
    """One port; what is rare over a slow window.

    `active` tells whether its link carries data, `bytes_s` what comes or goes, whichever is more;
    None where that is not counted. `again` is the share of packets that were sent again, `timeouts`
    how often no acknowledgement came, `downed` how often the link went down, `symbols` how many bad
    symbols came for each packet. `held` is the share of time in which the other end of its cable
    held it up, `holds` that in which it held up the other.
    """

    port: str
    active: bool
    speed_mbps: float | None
    bytes_s: float | None
    again: float | None
    timeouts: float | None
    downed: float | None
    symbols: float | None
    held: float | None
    holds: float | None


def rdma(fast: Window, slow: Window) -> tuple[Rdma, ...]:
    """Return the ports of a node that RDMA may use.

    Args:
        fast: what is told as a mean.
        slow: what is rare.
    """
    return tuple(_port(fast, slow, labels) for labels in slow.entities("rdma"))


def _port(fast: Window, window: Window, labels: Labels) -> Rdma:
    sent, received = (window.growth("rdma", labels, f"{way}_packets") for way in ("tx", "rx"))
    again = [window.growth("rdma", labels, name) for name in _AGAIN]
    known = [count for count in again if count is not None]
    moved = [fast.rate("rdma", labels, way) for way in ("rx_bytes", "tx_bytes")]
    symbols = window.growth("rdma", labels, "symbol_errors")
    netdev = str(labels[1]) if labels[1] is not None else None
    return Rdma(
        port=str(labels[0]),
        active=window.latest("rdma", labels, "state") == _ACTIVE,
        speed_mbps=window.latest("rdma", labels, "rate_mbps"),
        bytes_s=max((way for way in moved if way is not None), default=None),
        again=sum(known) / sent if known and sent else None,
        timeouts=window.growth("rdma", labels, "local_ack_timeout_err"),
        downed=window.growth("rdma", labels, "link_downed"),
        symbols=symbols / received if received and symbols is not None else None,
        held=_paused(window, netdev, "rx_pause_us"),
        holds=_paused(window, netdev, "tx_pause_us"),
    )


def _paused(window: Window, netdev: str | None, metric: str) -> float | None:
    for labels in window.entities("nic"):
        if labels[0] == netdev:
            rate = window.rate("nic", labels, metric)
            return None if rate is None else min(1.0, rate / 1e6)
    return None
