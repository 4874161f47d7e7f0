"""Pressure stall totals, from /proc/pressure (Documentation/accounting/psi.rst)."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, Absent, Metric, Reading

ROWS = (
    Metric("pressure_cpu_some_us", "node", COUNTER, "int", "us", "cpu some", "Time in which some task waited for a CPU."),
    Metric("pressure_io_some_us", "node", COUNTER, "int", "us", "io some", "Time in which some task waited for I/O; diluted by busy CPUs."),
    Metric("pressure_io_full_us", "node", COUNTER, "int", "us", "io full", "Time in which all tasks that could run waited for I/O."),
    Metric("pressure_memory_some_us", "node", COUNTER, "int", "us", "memory some", "Time in which some task waited for memory."),
    Metric("pressure_memory_full_us", "node", COUNTER, "int", "us", "memory full", "Time in which all tasks that could run waited for memory."),
)  # fmt: skip


class Reader(object):
    """Reads them."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> Reading:
        """Read all rows once."""
        raise Absent("not read yet")
