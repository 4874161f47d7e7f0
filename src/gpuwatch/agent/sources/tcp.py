"""TCP of the agent's network namespace, from /proc/net/snmp and /proc/net/netstat."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, Absent, Metric, Reading

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
    """Reads them."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> Reading:
        """Read all rows once."""
        raise Absent("not read yet")
