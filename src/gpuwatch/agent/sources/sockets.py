"""The job's own TCP connections by peer, as the kernel accounts for them (sock_diag(7), tcp_info).

What a sender is limited by tells a path from a late peer. The round trip grows with the path.
`rwnd_limited_us` grows with a receiver whose program does not read while the round trip stays; with a
long round trip it may as well be a window too small for it. Neither grows for a peer that has nothing
to send: there `idle_ms` does. Counters are the kernel's per connection; they are summed up here, so
that they outlive it. What moves in a connection that opens and closes between two readings is not
seen, nor what one moves after the last reading before it ends.
"""

import errno
import os
import socket
import time
from typing import Callable, Dict, List, Set, Tuple

from gpuwatch.agent import sock_diag
from gpuwatch.agent.host import Host, Member
from gpuwatch.agent.metric import (
    COUNTER,
    GAUGE,
    LABEL,
    Absent,
    Labels,
    Metric,
    Reading,
    Values,
    declared,
    fill,
)
from gpuwatch.agent.owners import Owners
from gpuwatch.agent.peers import Connection, Peer
from gpuwatch.agent.sock_diag import End, Socket

ROWS = (
    Metric("group", "connection", LABEL, "str", "", "group", "Ranks of one job, as in thread_group."),
    Metric("rank", "connection", LABEL, "str", "", "rank", "Whose process has the connection, as in thread_group."),
    Metric("role", "connection", LABEL, "str", "", "role", "Of that process: `main` (with its worker threads), `loader` or `checkpoint`."),
    Metric("peer", "connection", LABEL, "str", "", "peer", "The other end: its address; with its port, which names a store, where the role is not `main`."),
    Metric("connections", "connection", GAUGE, "int", "1", "connections", "Connections to this peer, those that close among them."),
    Metric("connecting", "connection", GAUGE, "int", "1", "connecting", "Connections that wait for the peer's first answer."),
    Metric("out_segs", "connection", COUNTER, "int", "1", "data_segs_out", "Segments with data sent, retransmits among them."),
    Metric("retransmits", "connection", COUNTER, "int", "1", "total_retrans", "Segments sent again, tail-loss probes among them."),
    Metric("spurious_retransmits", "connection", COUNTER, "int", "1", "dsack_dups", "Segments that the peer says came twice: reordering or probes, no loss."),
    Metric("out_of_order_segs", "connection", COUNTER, "int", "1", "rcv_ooopack", "Segments that came out of order: lost or reordered on the way here."),
    Metric("acked_bytes", "connection", COUNTER, "int", "B", "bytes_acked", "Bytes sent that the peer acknowledged."),
    Metric("received_bytes", "connection", COUNTER, "int", "B", "bytes_received", "Bytes received."),
    Metric("busy_us", "connection", COUNTER, "int", "us", "busy_time", "Time with data to send or unacknowledged, summed over connections."),
    Metric("rwnd_limited_us", "connection", COUNTER, "int", "us", "rwnd_limited", "Of that: waiting for room at the peer, whose program does not read, or whose buffer is small for so long a round trip."),
    Metric("sndbuf_limited_us", "connection", COUNTER, "int", "us", "sndbuf_limited", "Of that: limited by this end's send buffer."),
    Metric("rtt_us", "connection", GAUGE, "int", "us", "rtt", "Smoothed round trip, of the connection whose data was acknowledged most since the last reading."),
    Metric("rtt_var_us", "connection", GAUGE, "int", "us", "rttvar", "Its mean deviation, of the same connection."),
    Metric("rtt_min_us", "connection", GAUGE, "int", "us", "min_rtt", "Shortest round trip of the last minutes (5 by default), of the same connection."),
    Metric("delivery_bytes_s", "connection", GAUGE, "int", "B/s", "delivery_rate", "Rate at which data was last delivered, of the same connection."),
    Metric("unacked", "connection", GAUGE, "int", "1", "unacked", "Segments sent and not acknowledged yet."),
    Metric("lost", "connection", GAUGE, "int", "1", "lost", "Of those: taken for lost."),
    Metric("queued_bytes", "connection", GAUGE, "int", "B", "queued", "Bytes that the program wrote and the peer has not acknowledged."),
    Metric("unread_bytes", "connection", GAUGE, "int", "B", "unread", "Bytes that came and this end's program has not read."),
    Metric("idle_ms", "connection", GAUGE, "int", "ms", "last_data_recv", "Time since data came, over all connections."),
    Metric("ack_wait_ms", "connection", GAUGE, "int", "ms", "ack_wait", "Longest time that data is on its way and no acknowledgement comes; 0 while none is."),
)  # fmt: skip

MAX_PEERS = 24
"""Rows at most: the wire is narrow. The peers with the most bytes are told."""
MAX_KNOWN = 1024
"""Peers whose counters are kept, for they may come back."""
TOLD_S = 60.0
"""A peer without a connection is told for so long after the last."""
MAX_NAMESPACES = 4
AGAIN_S = 30.0
"""Between two attempts at a namespace that is closed to us."""
MAX_SOCKETS = 20000
"""More connections are those of a server, and dear to look through."""
CHUNK = 65536
SHARE = 0.002
"""Of a core, which this source may use: a reading that costs more is followed by a longer rest."""
FADE = 0.8
"""Part of an earlier reading's cost that counts for the next, so that the pace is even."""
CLONE_NEWNET = 0x40000000


class Reader(object):
    """Asks for all connections, keeps those of the job's processes, sums them up by peer.

    Args:
        host: its board tells the job's processes.
        clock: seconds, monotonic.
        cpu: seconds of CPU time that this process has used.
    """

    def __init__(
        self,
        host: Host,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._host = host
        self._clock = clock
        self._cpu = cpu
        self._rows = declared(ROWS, "connection")
        self._owners = Owners(host, clock)
        self._kernels: Dict[str, socket.socket] = {}
        self._closed: Dict[str, Tuple[float, str]] = {}
        self._old: Set[int] = set()
        self._connections: Dict[int, Connection] = {}
        self._peers: Dict[Labels, Peer] = {}
        self._missing: Dict[str, str] = {}
        self._cost_s = self._rest_until = 0.0

    def read(self) -> Reading:
        """Read all connections once.

        Raises:
            Absent: when this kernel does not tell of its connections.
        """
        job = self._host.board.job
        if not job:
            self.close()
            return Reading([], {"sockets": "no process of the job"})
        now = self._clock()
        if now < self._rest_until:
            return Reading([], self._missing)
        began = self._cpu()
        self._owners.enrol(job)
        self._missing = {}
        self._settle(now, self._all())
        rows = self._told(now, job)
        self._tell_missing()
        self._pay(now, self._cpu() - began)
        return Reading(rows, self._missing)

    def close(self) -> None:
        """Give all descriptors back."""
        for kernel in self._kernels.values():
            kernel.close()
        self._kernels = {}

    def _pay(self, now: float, cost_s: float) -> None:
        """Rest until what the last readings cost is within this source's share."""
        self._cost_s = max(cost_s, FADE * self._cost_s)
        rest_s = self._cost_s / SHARE
        self._rest_until = now + rest_s
        if rest_s > self._host.options.interval_s:
            self._missing["sockets.rate"] = "not read each tick: this many connections cost more"

    def _all(self) -> List[Socket]:
        """Return all connections of the namespaces in which the job is."""
        wanted = sorted(self._owners.namespaces)[:MAX_NAMESPACES]
        if len(wanted) < len(self._owners.namespaces):
            self._missing["sockets.namespaces"] = "more than %d" % MAX_NAMESPACES
        self._closed = {name: told for name, told in self._closed.items() if name in wanted}
        for name in set(self._kernels) - set(wanted):
            self._kernels.pop(name).close()  # it would keep a container's namespace alive
        found: List[Socket] = []
        for name in wanted:
            is_new = name not in self._kernels
            sockets = self._ask(name)
            if is_new:
                self._old.update(one.cookie for one in sockets)
            found += sockets
        return found

    def _ask(self, name: str) -> List[Socket]:
        """Return the connections of one namespace; none, with the reason, where it is closed to us."""
        until, why = self._closed.get(name, (0.0, ""))
        if self._clock() < until:
            self._missing["sockets.namespaces"] = why
            return []
        try:
            kernel = self._kernels.pop(name, None) or self._open(name)
            found = self._dump(kernel)
        except OSError as error:
            if not name:
                raise Absent("the kernel tells of no connections: %s" % reason(error))
            why = "cannot look into the job's network namespace: %s" % reason(error)
        else:
            self._kernels[name] = kernel
            return found
        self._closed[name] = self._clock() + AGAIN_S, why
        self._missing["sockets.namespaces"] = why
        return []

    def _dump(self, kernel: socket.socket) -> List[Socket]:
        """Ask; an answer that was not heard to its end would be taken for the next, so hang up."""
        try:
            return dump(kernel)
        except BaseException:
            kernel.close()
            raise

    def _open(self, name: str) -> socket.socket:
        if not name:
            return ask_here()
        namespace = self._host.open("/proc/%d/ns/net" % self._owners.namespaces[name])
        try:
            return ask_inside(namespace)
        finally:
            os.close(namespace)

    def _settle(self, now: float, sockets: List[Socket]) -> None:
        """Count what moved in each connection of the job since the last reading."""
        inodes = {one.inode for one in sockets}
        cookies = {one.cookie for one in sockets}
        self._owners.keep(inodes)
        self._owners.seek({one.inode for one in sockets if one.inode})
        self._old &= cookies
        for cookie in set(self._connections) - cookies:
            del self._connections[cookie]
        for peer in self._peers.values():
            peer.begin()
        for one in sockets:
            known = self._connections.get(one.cookie)
            member = self._owners.owner(one.inode) or (
                # closed by its process, and with something left to send
                self._owners.member(known.pid) if known and not one.inode else None
            )
            info = one.info() if member else None
            if member and info and info.rtt is not None:  # else what is left of it after its end
                known = known or Connection(member.pid, is_old=one.cookie in self._old)
                self._connections[one.cookie] = known
                end = one.ends()
                peer = self._peer(member, end)
                peer.take(now, one.state, one.cookie, end, info, known)

    def _peer(self, member: Member, end: End) -> Peer:
        is_v4 = len(end.peer) == 4
        address = socket.inet_ntop(socket.AF_INET if is_v4 else socket.AF_INET6, end.peer)
        if member.role != "main":
            address = ("%s:%d" if is_v4 else "[%s]:%d") % (address, end.port)
        labels: Labels = (member.group, member.rank, member.role, address)
        if labels not in self._peers:
            if len(self._peers) >= MAX_KNOWN:
                del self._peers[min(self._peers, key=lambda key: self._peers[key].seen_at)]
            self._peers[labels] = Peer(loops=end.loops)
        return self._peers[labels]

    def _told(self, now: float, job: Tuple[Member, ...]) -> List[Tuple[str, Labels, Values]]:
        """Return the rows of the busiest peers; this host among them only where there is no other."""
        live = {(member.group, member.rank, member.role) for member in job}
        recent = [
            (labels, peer)
            for labels, peer in self._peers.items()
            if labels[:3] in live and now - peer.seen_at <= TOLD_S
        ]
        outward = {labels[:3] for labels, peer in recent if not peer.loops}
        shown = [
            (labels, peer) for labels, peer in recent if not peer.loops or labels[:3] not in outward
        ]
        if len(shown) > MAX_PEERS:
            self._missing["sockets.peers"] = "more than %d: the least busy are left out" % MAX_PEERS
            # by powers of two: two that are alike do not take turns
            shown.sort(key=lambda item: (item[1].loops, -item[1].moved.bit_length()))
        return [
            ("connection", labels, fill(self._rows, peer.values()))
            for labels, peer in shown[:MAX_PEERS]
        ]

    def _tell_missing(self) -> None:
        refused = self._owners.refused
        if refused is not None:
            self._missing["sockets.owners"] = "not permitted: descriptors of another user's process"
        lacking = {name for peer in self._peers.values() for name in peer.lacking}
        for row in self._rows:
            if row.locator in lacking:
                self._missing["sockets." + row.name] = "this kernel does not tell it"


def ask_here() -> socket.socket:
    """Open the line to the kernel, which tells of this thread's network namespace.

    Raises:
        OSError: where the kernel has no such line, or a sandbox forbids it.
    """
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    return socket.socket(socket.AF_NETLINK, kind, sock_diag.NETLINK_SOCK_DIAG)


def ask_inside(namespace: int) -> socket.socket:
    """Open the line in another network namespace, by a thread that enters it and ends there.

    The agent's own thread never leaves its namespace, so nothing can keep it from coming back.

    Args:
        namespace: descriptor of /proc/PID/ns/net.

    Raises:
        OSError: mostly as this needs CAP_SYS_ADMIN (setns(2)).
    """
    try:
        import ctypes
        import threading
    except ImportError:
        raise OSError(errno.ENOSYS, "this Python has no ctypes")
    libc = ctypes.CDLL(None, use_errno=True)
    found: List[socket.socket] = []
    failed: List[int] = []

    def enter() -> None:
        if libc.setns(namespace, CLONE_NEWNET):
            failed.append(ctypes.get_errno())
            return
        try:
            found.append(ask_here())
        except OSError as error:
            failed.append(error.errno or errno.EIO)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    thread.join()
    if not found:
        raise OSError(failed[0], os.strerror(failed[0]))
    return found[0]


def dump(kernel: socket.socket) -> List[Socket]:
    """Return all TCP connections of a namespace, of both families.

    The kernel works while it is asked, so that an answer is there or never comes.

    Raises:
        OSError: as the kernel says; E2BIG when there are more than MAX_SOCKETS.
    """
    found: List[Socket] = []
    kernel.send(sock_diag.request())
    is_last = False
    while not is_last:
        some, is_last = sock_diag.answer(kernel.recv(CHUNK, socket.MSG_DONTWAIT))
        found += some
        if len(found) > MAX_SOCKETS:
            raise OSError(errno.E2BIG, "more than %d connections" % MAX_SOCKETS)
    return found


def reason(error: OSError) -> str:
    """Say why the kernel does not tell of connections."""
    if error.errno in (errno.ENOENT, errno.EPROTONOSUPPORT):
        return "no sock_diag for TCP (module tcp_diag)"
    return error.strerror or type(error).__name__
