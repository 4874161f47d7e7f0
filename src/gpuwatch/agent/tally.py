"""What adds up over thread samples: counters by rank and role, waits, bytes to and from storage."""

from typing import Dict, List, Optional, Set, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.lines import after
from gpuwatch.agent.metric import Label, Labels, Values

MAX_ENTITIES = 4096
LEAP = 1 << 50
"""No thread or process uses so many nanoseconds or bytes between two looks: that was misread."""


def growth(before: int, now: int) -> int:
    """Return how much a counter grew between two looks, 0 where it fell or was misread."""
    return now - before if 0 <= now - before < LEAP else 0


class Totals(object):
    """Counters of one role of one rank; they only grow while the agent lives."""

    __slots__ = ("delay_ns", "major_faults", "read_bytes", "run_ns", "samples", "write_bytes")

    def __init__(self) -> None:
        self.samples = self.run_ns = self.delay_ns = self.major_faults = 0
        self.read_bytes = self.write_bytes = 0


class Tally(object):
    """All counters of all ranks, those of ranks that ended too: one may come back."""

    def __init__(self) -> None:
        self._totals: Dict[Labels, Totals] = {}
        self._waits: Dict[Labels, int] = {}

    def totals(self, labels: Labels) -> Totals:
        """Return the counters of one thread_group, new ones at 0."""
        if len(self._totals) >= MAX_ENTITIES and labels not in self._totals:
            self._totals.clear()
        return self._totals.setdefault(labels, Totals())

    def wait(self, labels: Labels, samples: int = 1) -> None:
        """Count samples of one thread_wait."""
        if len(self._waits) >= MAX_ENTITIES and labels not in self._waits:
            self._waits.clear()
        self._waits[labels] = self._waits.get(labels, 0) + samples

    def wait_rows(self, live: Set[Tuple[Label, Label]]) -> List[Tuple[str, Labels, Values]]:
        """Return the thread_wait rows of these (group, rank)."""
        waits = self._waits.items()
        return [("thread_wait", key, (count,)) for key, count in waits if key[:2] in live]


class Io(object):
    """Bytes that one process moved from and to storage (proc(5), /proc/PID/io)."""

    __slots__ = ("_before", "_file")

    def __init__(self, host: Host, pid: int) -> None:
        self._file = host.keep("/proc/%d/io" % pid, 512)
        self._before: Optional[Tuple[int, int]] = None

    def moved(self) -> Optional[Tuple[int, int]]:
        """Return the bytes read and written since the last call, None where that is hidden."""
        try:
            text = self._file.read()
        except PermissionError:
            return None
        except OSError:
            return 0, 0
        read, written = after(text, b"read_bytes:"), after(text, b"write_bytes:")
        if read is None or written is None:
            return None
        try:
            now = int(read), int(written)
        except ValueError:
            return None
        before, self._before = self._before or now, now
        return growth(before[0], now[0]), growth(before[1], now[1])

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()
