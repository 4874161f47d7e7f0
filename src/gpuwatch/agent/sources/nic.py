"""Network ports, each physical port once, from /sys/class/net (sysfs-class-net)."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, GAUGE, LABEL, Absent, Metric, Reading

ROWS = (
    Metric("nic", "nic", LABEL, "str", "", "name", "Interface."),
    Metric("rx_bytes", "nic", COUNTER, "int", "B", "statistics/rx_bytes", "Bytes received."),
    Metric("tx_bytes", "nic", COUNTER, "int", "B", "statistics/tx_bytes", "Bytes sent."),
    Metric("rx_packets", "nic", COUNTER, "int", "1", "statistics/rx_packets", "Packets received."),
    Metric("tx_packets", "nic", COUNTER, "int", "1", "statistics/tx_packets", "Packets sent."),
    Metric("rx_errors", "nic", COUNTER, "int", "1", "statistics/rx_errors", "Bad packets received."),
    Metric("tx_errors", "nic", COUNTER, "int", "1", "statistics/tx_errors", "Packets that failed to go out."),
    Metric("rx_dropped", "nic", COUNTER, "int", "1", "statistics/rx_dropped", "Packets received and dropped by this host."),
    Metric("tx_dropped", "nic", COUNTER, "int", "1", "statistics/tx_dropped", "Packets dropped before they went out."),
    Metric("carrier_changes", "nic", COUNTER, "int", "1", "carrier_changes", "Times that the link went up or down."),
    Metric("carrier", "nic", GAUGE, "int", "1", "carrier", "1 while the link is up.", high=1),
    Metric("speed_mbps", "nic", GAUGE, "int", "Mb/s", "speed", "Negotiated speed; missing where unknown.", low=1, high=10000000),
    Metric("mtu_bytes", "nic", GAUGE, "int", "B", "mtu", "Largest packet.", high=10000000),
)  # fmt: skip


class Reader(object):
    """Reads them."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> Reading:
        """Read all rows once."""
        raise Absent("not read yet")
