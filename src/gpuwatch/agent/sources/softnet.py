"""What soft interrupts of the network left undone, from /proc/net/softnet_stat.

A line is a CPU that is online: hexadecimal numbers of 32 bits (net/core/net-procfs.c). They are
summed from their growth, so that one which wraps makes no jump, nor does a CPU that leaves or comes
back: when there are more or fewer lines than before, nothing has grown. The counts are of all network
namespaces.
"""

from typing import List

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, Absent, Metric, Reading, declared, fill

ROWS = (
    Metric("softnet_packets", "node", COUNTER, "int", "1", "0", "Packets that soft interrupts took in, after receive offload joined them."),
    Metric("softnet_dropped", "node", COUNTER, "int", "1", "1", "Packets dropped as a CPU's backlog was full."),
    Metric("softnet_time_squeezed", "node", COUNTER, "int", "1", "2", "Times that a CPU's soft interrupt ended with packets left, as its budget or time was used up."),
)  # fmt: skip

WRAP = 1 << 32


class Reader(object):
    """Sums the fields that the rows' locators count."""

    def __init__(self, host: Host) -> None:
        self._rows = declared(ROWS, "node")
        self._fields = [int(row.locator) for row in self._rows]
        self._file = host.keep("/proc/net/softnet_stat")
        self._width = max(self._fields) + 1
        self._last: List[List[int]] = []
        self._totals = [0] * len(self._rows)

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when the kernel has no such file, or it tells something else.
        """
        try:
            text = self._file.read()
        except FileNotFoundError:
            raise Absent("no /proc/net/softnet_stat")
        counts = [self._counts(line.split(None, self._width)) for line in text.split(b"\n")]
        counts = [each for each in counts if each]
        if not counts:
            raise Absent("/proc/net/softnet_stat tells nothing that is known")
        if not self._last:
            self._totals = [sum(column) for column in zip(*counts)]
        last, self._last = self._last or counts, counts
        for old, new in zip(last, counts) if len(last) == len(counts) else ():
            for place, count in enumerate(new):
                grown = (count - old[place]) % WRAP
                self._totals[place] += grown if grown < WRAP // 2 else 0
        found = {row.locator: total for row, total in zip(self._rows, self._totals)}
        return Reading([("node", (), fill(self._rows, found))], {})

    def _counts(self, line: List[bytes]) -> List[int]:
        """Return what a line counts, nothing where it is none."""
        try:
            return [int(line[field], 16) for field in self._fields]
        except (ValueError, IndexError):
            return []
