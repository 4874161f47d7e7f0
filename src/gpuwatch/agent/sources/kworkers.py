"""Kernel workers by work queue: who the kernel works for."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, LABEL, Absent, Metric, Reading

ROWS = (
    Metric("queue", "kworker", LABEL, "str", "", "queue", "Work queue, or the kernel thread's name (`kswapd`, `ksoftirqd`)."),
    Metric("kworker_cpu_ms", "kworker", COUNTER, "int", "ms", "cpu", "CPU time of the kernel threads that worked on it."),
)  # fmt: skip


class Reader(object):
    """Reads them."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> Reading:
        """Read all rows once."""
        raise Absent("not read yet")
