"""Memory and its write-back, from /proc/meminfo (proc(5))."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import GAUGE, Absent, Metric, Reading

ROWS = (
    Metric("memory_total_bytes", "node", GAUGE, "int", "B", "MemTotal", "Memory of the node.", scale=1024),
    Metric("memory_available_bytes", "node", GAUGE, "int", "B", "MemAvailable", "Memory that could be had without swapping.", scale=1024),
    Metric("memory_dirty_bytes", "node", GAUGE, "int", "B", "Dirty", "Page cache that waits to be written.", scale=1024),
    Metric("memory_writeback_bytes", "node", GAUGE, "int", "B", "Writeback", "Page cache that is being written.", scale=1024),
)  # fmt: skip


class Reader(object):
    """Reads them."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> Reading:
        """Read all rows once."""
        raise Absent("not read yet")
