"""How long the node has been up, and how late the agent's tick was."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import GAUGE, Absent, Metric, Reading

ROWS = (
    Metric("uptime_s", "node", GAUGE, "float", "s", "uptime 0", "Seconds since the node's kernel started."),
)  # fmt: skip


class Reader(object):
    """Reads them."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> Reading:
        """Read all rows once."""
        raise Absent("not read yet")
