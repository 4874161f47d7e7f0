"""Pressure stall totals, from /proc/pressure (Documentation/accounting/psi.rst)."""

import errno
from typing import Dict, Optional

from gpuwatch.agent.host import Host, Kept
from gpuwatch.agent.lines import stalled
from gpuwatch.agent.metric import COUNTER, Absent, Metric, Reading, declared, fill

NONE = "no /proc/pressure: this kernel has no pressure stall information"
OFF = "the kernel has pressure stall information switched off (it needs psi=1)"

ROWS = (
    Metric("pressure_cpu_some_us", "node", COUNTER, "int", "us", "cpu some", "Time in which some task waited for a CPU."),
    Metric("pressure_io_some_us", "node", COUNTER, "int", "us", "io some", "Time in which some task waited for I/O; diluted by busy CPUs."),
    Metric("pressure_io_full_us", "node", COUNTER, "int", "us", "io full", "Time in which all tasks that could run waited for I/O."),
    Metric("pressure_memory_some_us", "node", COUNTER, "int", "us", "memory some", "Time in which some task waited for memory."),
    Metric("pressure_memory_full_us", "node", COUNTER, "int", "us", "memory full", "Time in which all tasks that could run waited for memory."),
)  # fmt: skip


class Reader(object):
    """Reads what the rows name: `FILE LINE`, the total of a line of a file of /proc/pressure."""

    def __init__(self, host: Host) -> None:
        self._rows = declared(ROWS, "node")
        names = sorted({row.locator.split()[0] for row in self._rows})
        self._files = {name: host.keep("/proc/pressure/" + name) for name in names}

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when the kernel does not tell pressure, and why.
        """
        texts: Dict[str, bytes] = {}
        reasons: Dict[str, str] = {}
        for name, kept in self._files.items():
            reason = self._read(name, kept, texts)
            if reason:
                reasons[name] = reason
        if not texts:
            raise Absent(min(reasons.values()))
        found = {}
        missing = {}
        for row in self._rows:
            name, line = row.locator.split()
            found[row.locator] = stalled(texts.get(name, b""), line)
            if name in reasons:
                missing["pressure." + row.name] = reasons[name]
        return Reading([("node", (), fill(self._rows, found))], missing)

    def _read(self, name: str, kept: Kept, texts: Dict[str, bytes]) -> Optional[str]:
        try:
            texts[name] = kept.read()
        except OSError as error:
            if error.errno == errno.ENOENT:
                return NONE
            if error.errno == errno.EOPNOTSUPP:
                return OFF
            raise
        return None
