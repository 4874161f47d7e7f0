"""Memory and its write-back, from /proc/meminfo (proc(5))."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.lines import after, field
from gpuwatch.agent.metric import GAUGE, Absent, Metric, Reading, declared, fill

ROWS = (
    Metric("memory_total_bytes", "node", GAUGE, "int", "B", "MemTotal", "Memory of the node.", scale=1024),
    Metric("memory_available_bytes", "node", GAUGE, "int", "B", "MemAvailable", "Memory that could be had without swapping.", scale=1024),
    Metric("memory_dirty_bytes", "node", GAUGE, "int", "B", "Dirty", "Page cache that waits to be written.", scale=1024),
    Metric("memory_writeback_bytes", "node", GAUGE, "int", "B", "Writeback", "Page cache that is being written.", scale=1024),
)  # fmt: skip


class Reader(object):
    """Reads the lines that the rows name."""

    def __init__(self, host: Host) -> None:
        self._rows = declared(ROWS, "node")
        self._meminfo = host.keep("/proc/meminfo")

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when there is no /proc/meminfo.
        """
        try:
            text = self._meminfo.read()
        except FileNotFoundError:
            raise Absent("no /proc/meminfo")
        found = {}
        for row in self._rows:
            rest = after(text, row.locator.encode("ascii") + b":")
            found[row.locator] = field(rest.split(None, 1), 0) if rest else None
        return Reading([("node", (), fill(self._rows, found))], {})
