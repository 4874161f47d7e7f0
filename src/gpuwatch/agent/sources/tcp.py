"""TCP of the agent's network namespace, from /proc/net/snmp and /proc/net/netstat."""

from typing import Dict, List, Optional, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, Absent, Metric, Reading, declared, fill

ROWS = (
    Metric("tcp_in_segs", "node", COUNTER, "int", "1", "snmp Tcp InSegs", "Segments received."),
    Metric("tcp_out_segs", "node", COUNTER, "int", "1", "snmp Tcp OutSegs", "Segments sent, without retransmits."),
    Metric("tcp_retrans_segs", "node", COUNTER, "int", "1", "snmp Tcp RetransSegs", "Segments sent again, tail-loss probes among them."),
    Metric("tcp_loss_probes", "node", COUNTER, "int", "1", "netstat TcpExt TCPLossProbes", "Tail-loss probes: counted as retransmits, no sign of loss."),
    Metric("tcp_timeouts", "node", COUNTER, "int", "1", "netstat TcpExt TCPTimeouts", "Retransmission timeouts."),
    Metric("tcp_fast_retrans", "node", COUNTER, "int", "1", "netstat TcpExt TCPFastRetrans", "Fast retransmits."),
    Metric("tcp_slow_start_retrans", "node", COUNTER, "int", "1", "netstat TcpExt TCPSlowStartRetrans", "Retransmits in slow start."),
    Metric("tcp_lost_retransmits", "node", COUNTER, "int", "1", "netstat TcpExt TCPLostRetransmit", "Retransmits that were lost again."),
    Metric("tcp_dsack_received", "node", COUNTER, "int", "1", "netstat TcpExt TCPDSACKRecv", "Peer says that a segment came twice: spurious retransmits or reordering."),
    Metric("tcp_sack_reorder", "node", COUNTER, "int", "1", "netstat TcpExt TCPSACKReorder", "Reordering seen by selective acknowledgement."),
    Metric("tcp_out_of_order", "node", COUNTER, "int", "1", "netstat TcpExt TCPOFOQueue", "Segments that came out of order."),
    Metric("tcp_receive_drops", "node", COUNTER, "int", "1", "netstat TcpExt TCPRcvQDrop", "Segments dropped as the receive queue was full."),
    Metric("tcp_host_queue_spurious", "node", COUNTER, "int", "1", "netstat TcpExt TCPSpuriousRtxHostQueues", "Retransmits whose original still sat in this host's queues."),
)  # fmt: skip


class Reader(object):
    """Reads what the rows name: `FILE PROTOCOL FIELD`, from pairs of a header and a value line."""

    def __init__(self, host: Host) -> None:
        self._rows = declared(ROWS, "node")
        wanted = [row.locator.split() for row in self._rows]
        names = sorted({file for file, _, _ in wanted})
        self._files = {name: host.keep("/proc/net/" + name) for name in names}
        self._pairs = {
            (file, protocol): Pair(protocol.encode("ascii") + b": ") for file, protocol, _ in wanted
        }

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when the kernel has no such file.
        """
        found: Dict[str, Optional[bytes]] = {}
        texts = {}
        for file, kept in self._files.items():
            try:
                texts[file] = kept.read()
            except FileNotFoundError:
                raise Absent("no " + kept.path)
        values = {key: pair.values(texts[key[0]]) for key, pair in self._pairs.items()}
        missing = {}
        for row in self._rows:
            file, protocol, name = row.locator.split()
            found[row.locator] = values[file, protocol].get(name.encode("ascii"))
            if found[row.locator] is None:
                missing["tcp." + row.name] = "this kernel does not count it"
        return Reading([("node", (), fill(self._rows, found))], missing)


class Pair(object):
    """One protocol's two lines: the names of fields, which never change, and their values."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._header = b""
        self._names: List[bytes] = []

    def values(self, text: bytes) -> Dict[bytes, bytes]:
        """Return the value of each field; empty where the text has no such pair of lines."""
        header, line = self._lines(text)
        if header != self._header:
            self._header = header
            self._names = header.split()
        return dict(zip(self._names, line.split()))

    def _lines(self, text: bytes) -> Tuple[bytes, bytes]:
        parts = (b"\n" + text).split(b"\n" + self._prefix, 2)
        if len(parts) < 3:
            return b"", b""
        return parts[1].partition(b"\n")[0], parts[2].partition(b"\n")[0]
