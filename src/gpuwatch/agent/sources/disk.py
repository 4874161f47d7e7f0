"""Block devices, each whole disk once, from /proc/diskstats (Documentation/admin-guide/iostats.rst)."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, GAUGE, LABEL, Absent, Metric, Reading

ROWS = (
    Metric("disk", "disk", LABEL, "str", "", "name", "Device."),
    Metric("layer", "disk", LABEL, "str", "", "layer", "`disk`, or `mapped` for dm and md devices, whose bytes the disks below count again."),
    Metric("reads", "disk", COUNTER, "int", "1", "field 1", "Reads completed."),
    Metric("read_bytes", "disk", COUNTER, "int", "B", "field 3", "Bytes read.", scale=512),
    Metric("read_ms", "disk", COUNTER, "int", "ms", "field 4", "Time that reads took, summed over reads."),
    Metric("writes", "disk", COUNTER, "int", "1", "field 5", "Writes completed."),
    Metric("write_bytes", "disk", COUNTER, "int", "B", "field 7", "Bytes written.", scale=512),
    Metric("write_ms", "disk", COUNTER, "int", "ms", "field 8", "Time that writes took, summed over writes."),
    Metric("in_flight", "disk", GAUGE, "int", "1", "field 9", "Requests in flight now."),
    Metric("busy_ms", "disk", COUNTER, "int", "ms", "field 10", "Time with a request in flight."),
    Metric("queue_ms", "disk", COUNTER, "int", "ms", "field 11", "Time in flight, summed over requests."),
)  # fmt: skip


class Reader(object):
    """Reads them."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> Reading:
        """Read all rows once."""
        raise Absent("not read yet")
