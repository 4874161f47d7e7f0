"""What the agent itself costs, and how well it keeps its schedule."""

import os
from typing import Any, Dict, Optional, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, GAUGE, Absent, Metric, Reading, declared, fill

TICK_MS = 10
"""USER_HZ is 100 on every architecture that Linux runs GPUs on."""
FDS_EVERY = 10
"""Readings between two counts of descriptors: each lists a folder with an entry for each."""

ROWS = (
    Metric("agent_cpu_ms", "node", COUNTER, "int", "ms", "cpu", "CPU time of the agent and its children."),
    Metric("agent_memory_bytes", "node", GAUGE, "int", "B", "rss", "Resident memory of the agent and its children."),
    Metric("agent_descriptors", "node", GAUGE, "int", "1", "fds", "Descriptors that the agent holds."),
    Metric("agent_dropped_frames", "node", COUNTER, "int", "1", "dropped", "Frames dropped as the link was too slow."),
    Metric("agent_lateness_us", "node", GAUGE, "int", "us", "lateness", "How late this tick was."),
    Metric("agent_thread_rate_hz", "node", GAUGE, "float", "Hz", "rate", "Thread samples a second that the governor allows now."),
)  # fmt: skip


class Reader(object):
    """Reads the agent's own tree: itself, and the children that the board knows."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rows = declared(ROWS, "node")
        self._self = host.keep("/proc/self/stat", 4096)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._cpu_ticks = 0
        self._fds: Optional[int] = None
        self._count = 0

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when /proc does not show the agent itself.
        """
        board = self._host.board
        costs = [self._tree()] + [self._child(p) for p in sorted(board.own_pids - {os.getpid()})]
        # A child that is being reaped is for an instant in neither sum.
        self._cpu_ticks = max(self._cpu_ticks, sum(ticks for ticks, _ in costs))
        found: Dict[str, Any] = {
            "cpu": self._cpu_ticks * TICK_MS,
            "rss": sum(pages for _, pages in costs) * self._page_bytes,
            "fds": self._descriptors(),
            "dropped": board.dropped,
            "lateness": board.lateness_us,
            "rate": board.thread_rate_hz,
        }
        return Reading([("node", (), fill(self._rows, found))], {})

    def _tree(self) -> Tuple[int, int]:
        try:
            return cost(self._self.read(), children=True)
        except (FileNotFoundError, ValueError):
            raise Absent("/proc/self/stat cannot be read")

    def _child(self, pid: int) -> Tuple[int, int]:
        try:
            return cost(self._host.read("/proc/%d/stat" % pid, 4096), children=False)
        except (
            OSError,
            ValueError,
        ):  # it has ended: its time is now in the parent's field for waited children
            return 0, 0

    def _descriptors(self) -> Optional[int]:
        if self._count % FDS_EVERY == 0:
            try:
                self._fds = len(self._host.listdir("/proc/self/fd"))
            except FileNotFoundError:
                self._fds = None
        self._count += 1
        return self._fds


def cost(stat: bytes, *, children: bool) -> Tuple[int, int]:
    """Return the clock ticks and resident pages of a /proc/PID/stat (proc_pid_stat(5)).

    Fields are counted after the last parenthesis: the name before it may hold anything.

    Args:
        stat: the file.
        children: whether to count the time of children that were waited for.

    Raises:
        ValueError: for what is no such file.
    """
    fields = stat[stat.rfind(b")") + 2 :].split()
    if len(fields) < 22 or max(map(len, fields)) > 20:
        raise ValueError("not a /proc/PID/stat")
    ticks = fields[11:15] if children else fields[11:13]
    return sum(map(int, ticks)), int(fields[21])
