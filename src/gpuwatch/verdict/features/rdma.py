"""What RDMA ports lost, and who held them up: bytes that no TCP counter knows of."""

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Columns, Window

__all__ = ["Rdma", "rdma"]

_COUNTS = Columns(
    "rdma", "tx_packets", "local_ack_timeout_err", "link_downed", "packet_seq_err",
    "implied_nak_seq_err", "adaptive_retrans", "retrans_packets",
)  # fmt: skip
_BYTES = Columns("rdma", "rx_bytes", "tx_bytes")
_PAUSES = Columns("nic", "rx_pause_us", "tx_pause_us")


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
    sent, timeouts, downed, *again = window.growths_of(labels, _COUNTS)
    known = [count for count in again if count is not None]
    held, holds = window.rates_of((labels[1],), _PAUSES)
    return Rdma(
        port=str(labels[0]),
        bytes_s=max(moved or 0.0 for moved in window.rates_of(labels, _BYTES)),
        again=sum(known) / sent if known and sent else None,
        timeouts=timeouts,
        downed=downed,
        held=_share(held),
        holds=_share(holds),
    )


def _share(paused_us: float | None) -> float | None:
    return None if paused_us is None else min(1.0, paused_us / 1e6)
