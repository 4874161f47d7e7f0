"""One rank's TCP connections to one peer: sums that outlive each, and how they are now."""

from typing import Dict, List, Optional, Tuple

from gpuwatch.agent.sock_diag import SYN_SENT, WIDTHS, End, Info

COUNTERS = (
    "data_segs_out", "total_retrans", "dsack_dups", "rcv_ooopack", "bytes_acked", "bytes_received",
    "busy_time", "rwnd_limited", "sndbuf_limited",
)  # fmt: skip
_PLACES = tuple(Info._fields.index(name) for name in COUNTERS)
_MASKS = tuple((1 << WIDTHS[name]) - 1 for name in COUNTERS)
_ACKED, _RECEIVED = COUNTERS.index("bytes_acked"), COUNTERS.index("bytes_received")
_NOTHING = (0,) * len(COUNTERS)
UNMEASURED = 0xFFFFFFFF
"""As min_rtt until the kernel has measured it."""

Counts = Tuple[Optional[int], ...]


class Connection(object):
    """What is remembered of one connection between two readings.

    Args:
        pid: of the process that owns it.
        is_old: whether it was there before the first reading, so that only what comes counts.
    """

    __slots__ = ("_before", "_waits_since", "pid")

    def __init__(self, pid: int, *, is_old: bool) -> None:
        self.pid = pid
        self._before: Optional[Counts] = None if is_old else _NOTHING
        self._waits_since: Optional[float] = None

    def grown(self, counts: Counts) -> Tuple[int, ...]:
        """Return what each counter grew by since the last reading; those of 32 bits wrap."""
        before, self._before = self._before, counts
        if before is None or counts == before:
            return _NOTHING
        triples = zip(counts, before, _MASKS)
        grown = [0 if now is None else (now - (was or 0)) & mask for now, was, mask in triples]
        return tuple(grown)

    def ack_wait_ms(self, now: float, info: Info) -> int:
        """Return for how long data was seen on its way, and no acknowledgement came."""
        if not info.unacked:
            self._waits_since = None
            return 0
        self._waits_since = now if self._waits_since is None else self._waits_since
        return min(int((now - self._waits_since) * 1000), info.last_ack_recv or 0)


class Peer(object):
    """All connections of one rank and role to one peer.

    Args:
        loops: the peer is this host itself.

    Attributes:
        moved: bytes both ways since it is known.
        seen_at: when it last had a connection.
        connections: it has now.
        connecting: that wait for its first answer.
        lacking: fields that this kernel does not tell.
    """

    def __init__(self, *, loops: bool) -> None:
        self.loops = loops
        self.moved = 0
        self.seen_at = 0.0
        self.lacking: Tuple[str, ...] = ()
        self._sums: List[int] = list(_NOTHING)
        self._path_of = 0
        self.begin()

    def begin(self) -> None:
        """Begin a reading."""
        self.connections = self.connecting = 0
        self._unacked = self._lost = self._unread = self._queued = self._ack_wait_ms = 0
        self._idle_ms: Optional[int] = None
        self._path: Optional[Info] = None
        self._path_before = self._path_of
        self._most = (-1, False, -1)

    def take(
        self, now: float, state: int, cookie: int, end: End, info: Info, connection: Connection
    ) -> None:
        """Take in one connection."""
        self.seen_at = now
        counts = tuple([info[place] for place in _PLACES])
        grown = connection.grown(counts)
        if grown is not _NOTHING:
            self._sums = [a + b for a, b in zip(self._sums, grown)]
            self.moved += grown[_ACKED] + grown[_RECEIVED]
        if None in info:
            self.lacking = tuple(name for name, value in info._asdict().items() if value is None)
        if state == SYN_SENT:
            self.connecting += 1
            return
        self.connections += 1
        self._unacked += info.unacked or 0
        self._lost += info.lost or 0
        self._unread += end.unread
        self._queued += end.queued
        self._ack_wait_ms = max(self._ack_wait_ms, connection.ack_wait_ms(now, info))
        idle_ms = info.last_data_recv
        if idle_ms is not None and (self._idle_ms is None or idle_ms < self._idle_ms):
            self._idle_ms = idle_ms
        self._choose(grown[_ACKED], cookie, info)

    def values(self) -> Dict[str, Optional[int]]:
        """Return all that is known now, by the names of tcp_info's fields."""
        found: Dict[str, Optional[int]] = dict(zip(COUNTERS, self._sums))
        found["connections"] = self.connections
        found["connecting"] = self.connecting
        if self.connections:
            found.update(
                unacked=self._unacked, lost=self._lost, queued=self._queued, unread=self._unread,
                last_data_recv=self._idle_ms, ack_wait=self._ack_wait_ms,
            )  # fmt: skip
        if self._path is not None:
            # 0 is what the kernel has not measured yet
            shortest = self._path.min_rtt
            found.update(
                rtt=self._path.rtt or None, rttvar=self._path.rttvar or None,
                min_rtt=None if shortest == UNMEASURED else shortest or None,
                delivery_rate=self._path.delivery_rate or None,
            )  # fmt: skip
        for name in self.lacking:
            found[name] = None
        return found

    def _choose(self, acked: int, cookie: int, info: Info) -> None:
        """Take a connection's view of the path if it is the best so far.

        Of one connection, so that the figures belong together, and of that whose data was
        acknowledged most: only what is acknowledged is measured, and an idle connection keeps the
        round trip of its last words.
        """
        worth = (acked, cookie == self._path_before, info.bytes_acked or 0)
        if worth > self._most:
            self._most = worth
            self._path_of = cookie
            self._path = info
