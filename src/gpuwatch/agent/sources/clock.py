"""How long the node has been up, and how late the agent's tick was."""

from ..host import Host
from ..metric import GAUGE, Absent, Metric, Reading

ROWS = (
    Metric("uptime_s", "node", GAUGE, "float", "s", "uptime 0", "Seconds since the node's kernel started."),
)  # fmt: skip


class Reader(object):
    """Reads them."""

    def __init__(self, host):
        # type: (Host) -> None
        self.host = host

    def read(self):
        # type: () -> Reading
        """Read all rows once."""
        raise Absent("not read yet")
