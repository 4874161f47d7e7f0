"""What the kernel says of TCP connections when asked by netlink: sock_diag(7), linux/inet_diag.h.

Pure: bytes to send, and what the bytes that come back mean.
"""

import os
import struct
from typing import List, NamedTuple, Optional, Tuple

NETLINK_SOCK_DIAG = 4
TCPDIAG_GETSOCK = 18
"""Asks for both families at once: the kernel walks its whole table of connections for each request, a
quarter of a millisecond where it is empty. SOCK_DIAG_BY_FAMILY would ask for one."""
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
INET_DIAG_INFO = 2
ESTABLISHED, SYN_SENT = 1, 2
STATES = sum(1 << state for state in (ESTABLISHED, SYN_SENT, 4, 5, 8, 9, 11))
"""Those, and all in which a connection closes (FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING);
not TIME_WAIT, of which a busy node has thousands and which no process owns."""

_HEADER = struct.Struct("=IH10x")
_REQUEST = struct.Struct("=IHHIIBBBB48xII")
_MESSAGE = struct.Struct("=17xB42xQ16xI")
"""Header and inet_diag_msg; of interest at once: state, cookie, inode."""
_ENDS = struct.Struct("=16xB5x2s16s16s16xII")
"""The same; of interest later: family, the peer's port, both addresses, both queues."""
_ERROR = struct.Struct("=i")
_ATTRIBUTE = struct.Struct("=HH")
_V4 = 2
_MAPPED = bytes(10) + b"\xff\xff"
_V6_LOOPBACK = bytes(15) + b"\x01"


class Info(NamedTuple):
    """What is used of struct tcp_info (linux/tcp.h); None for what this kernel's does not have."""

    unacked: Optional[int]
    lost: Optional[int]
    last_data_recv: Optional[int]
    last_ack_recv: Optional[int]
    rtt: Optional[int]
    rttvar: Optional[int]
    total_retrans: Optional[int]
    bytes_acked: Optional[int]
    bytes_received: Optional[int]
    min_rtt: Optional[int]
    data_segs_out: Optional[int]
    delivery_rate: Optional[int]
    busy_time: Optional[int]
    rwnd_limited: Optional[int]
    sndbuf_limited: Optional[int]
    dsack_dups: Optional[int]
    rcv_ooopack: Optional[int]


_PLACES = (
    (24, "I"), (32, "I"), (52, "I"), (56, "I"), (68, "I"), (72, "I"), (100, "I"), (120, "Q"),
    (128, "Q"), (148, "I"), (156, "I"), (160, "Q"), (168, "Q"), (176, "Q"), (184, "Q"), (216, "I"),
    (224, "I"),
)  # fmt: skip
"""Offset and type of each of them: the struct only ever grew at its end."""
WIDTHS = {name: 64 if code == "Q" else 32 for name, (_, code) in zip(Info._fields, _PLACES)}


def _layout() -> Tuple[struct.Struct, Tuple[int, ...]]:
    """Return one Struct for all fields, and where each ends."""
    text, at, ends = "=", 0, []
    for offset, code in _PLACES:
        text += "%dx%s" % (offset - at, code)
        at = offset + struct.calcsize("=" + code)
        ends.append(at)
    return struct.Struct(text), tuple(ends)


_INFO, _INFO_ENDS = _layout()


class End(NamedTuple):
    """The two ends of a connection.

    Attributes:
        local: this end's address, 4 or 16 bytes.
        peer: the other end's.
        port: the other end's.
        unread: bytes that came and that the program has not read.
        queued: bytes that the program wrote and the peer has not acknowledged.
    """

    local: bytes
    peer: bytes
    port: int
    unread: int
    queued: int

    @property
    def loops(self) -> bool:
        """Whether both ends are this host: no network is between them."""
        return self.local == self.peer or self.peer[:1] == b"\x7f" or self.peer == _V6_LOOPBACK


class Socket(NamedTuple):
    """One TCP socket of the asked namespace; most are not the job's, so the rest is parsed later.

    Attributes:
        state: of TCP, a number as in linux/tcp.h.
        cookie: names the socket, and no other while the kernel runs.
        inode: of the socket, 0 once no process has it open.
        message: the kernel's, whole.
    """

    state: int
    cookie: int
    inode: int
    message: bytes

    def ends(self) -> End:
        """Return whom it connects, and what waits at this end."""
        family, port, local, peer, unread, queued = _ENDS.unpack_from(self.message)
        number = int.from_bytes(port, "big")
        return End(_address(local, family), _address(peer, family), number, unread, queued)

    def info(self) -> Info:
        """Return its struct tcp_info."""
        return tcp_info(_attribute(self.message))


def request() -> bytes:
    """Return the message that asks for all TCP connections."""
    return _REQUEST.pack(
        _REQUEST.size, TCPDIAG_GETSOCK, NLM_F_REQUEST | NLM_F_DUMP, 0, 0,
        0, 0, 0, 1 << (INET_DIAG_INFO - 1), STATES, 0,
    )  # fmt: skip


def answer(data: bytes) -> Tuple[List[Socket], bool]:
    """Return the sockets in one datagram of the kernel's answer, and whether it was the last.

    Raises:
        OSError: what the kernel says instead.
    """
    found: List[Socket] = []
    at = 0
    while at + _HEADER.size <= len(data):
        size, kind = _HEADER.unpack_from(data, at)
        end = at + size
        if size < _HEADER.size or end > len(data):
            break
        if kind in (NLMSG_DONE, NLMSG_ERROR):
            _complain(data[at + _HEADER.size : end])
            return found, True
        if kind == TCPDIAG_GETSOCK and size >= _MESSAGE.size:
            state, cookie, inode = _MESSAGE.unpack_from(data, at)
            found.append(Socket(state, cookie, inode, data[at:end]))
        at += (size + 3) & ~3
    return found, False


def tcp_info(raw: bytes) -> Info:
    """Return the fields of a struct tcp_info, as long as this kernel's is."""
    size = len(raw)
    if size >= _INFO.size:
        return Info(*_INFO.unpack_from(raw))
    values = _INFO.unpack(raw + bytes(_INFO.size - size))
    pairs = zip(_INFO_ENDS, values)
    return Info(*[value if end <= size else None for end, value in pairs])


def _complain(payload: bytes) -> None:
    """Raise what an error, or the end of a dump that failed, tells: -errno."""
    if len(payload) >= _ERROR.size:
        code = _ERROR.unpack_from(payload)[0]
        if code < 0:
            raise OSError(-code, os.strerror(-code))


def _address(raw: bytes, family: int) -> bytes:
    """Return an address as its family has it; one of IPv4 in IPv6 as of IPv4."""
    if family == _V4:
        return raw[:4]
    return raw[12:] if raw.startswith(_MAPPED) else raw


def _attribute(message: bytes) -> bytes:
    """Return the payload of the attribute INET_DIAG_INFO; empty where there is none."""
    at = _MESSAGE.size
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if size < _ATTRIBUTE.size or at + size > len(message):
            break
        if kind == INET_DIAG_INFO:
            return message[at + _ATTRIBUTE.size : at + size]
        at += (size + 3) & ~3
    return b""
