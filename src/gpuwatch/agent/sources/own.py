"""What the agent itself costs, and how well it keeps its schedule."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, GAUGE, Absent, Metric, Reading

ROWS = (
    Metric("agent_cpu_ms", "node", COUNTER, "int", "ms", "cpu", "CPU time of the agent and its children."),
    Metric("agent_memory_bytes", "node", GAUGE, "int", "B", "rss", "Resident memory of the agent and its children."),
    Metric("agent_descriptors", "node", GAUGE, "int", "1", "fds", "Descriptors that the agent holds."),
    Metric("agent_dropped_frames", "node", COUNTER, "int", "1", "dropped", "Frames dropped as the link was too slow."),
    Metric("agent_lateness_us", "node", GAUGE, "int", "us", "lateness", "How late this tick was."),
    Metric("agent_thread_rate_hz", "node", GAUGE, "float", "Hz", "rate", "Thread samples a second that the governor allows now."),
)  # fmt: skip


class Reader(object):
    """Reads them."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> Reading:
        """Read all rows once."""
        raise Absent("not read yet")
