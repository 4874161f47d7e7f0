"""What one run of iperf3 says."""

from typing import Annotated, NamedTuple

import msgspec

__all__ = ["Measure", "parsed"]

USUAL_MSS = 1448
"""Bytes of a TCP segment in frames of 1,500 bytes."""


class Measure(NamedTuple):
    """What one direction of a pair carried.

    Attributes:
        bits_s: at the receiver.
        again: share of segments that were sent again; None where the sender does not tell.
        cpu_pct: of one core, of the busier end's process.
        steal: share of CPU time that the hypervisors took, of the worse end.
    """

    bits_s: float
    again: float | None = None
    cpu_pct: float = 0.0
    steal: float = 0.0


_Amount = Annotated[float, msgspec.Meta(ge=0)]


class _Sent(msgspec.Struct):
    bytes: _Amount
    retransmits: _Amount | None = None


class _Received(msgspec.Struct):
    bits_per_second: _Amount


class _Cores(msgspec.Struct):
    host_total: float
    remote_total: float


class _End(msgspec.Struct):
    sum_sent: _Sent
    sum_received: _Received
    cpu_utilization_percent: _Cores


class _Start(msgspec.Struct):
    tcp_mss_default: _Amount = 0.0


class _Report(msgspec.Struct):
    start: _Start
    end: _End


class _Refusal(msgspec.Struct):
    error: str | None = None


_REPORT, _REFUSAL = msgspec.json.Decoder(_Report), msgspec.json.Decoder(_Refusal)


def parsed(text: str) -> Measure | str:
    """Return what iperf3's JSON says, or its error."""
    try:
        refused = _REFUSAL.decode(text).error
        if refused is not None:
            return f"iperf3: {refused[:200]}"
        said = _REPORT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return "iperf3 said nothing that can be understood"
    sent, cores = said.end.sum_sent, said.end.cpu_utilization_percent
    segments = max(1.0, sent.bytes / (said.start.tcp_mss_default or USUAL_MSS))
    return Measure(
        said.end.sum_received.bits_per_second,
        None if sent.retransmits is None else sent.retransmits / segments,
        max(cores.host_total, cores.remote_total),
    )
