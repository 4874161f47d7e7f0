"""Kernel workers by work queue: who the kernel works for."""

import re
from collections import deque
from typing import Deque, Dict, List, Optional, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import (
    COUNTER,
    LABEL,
    Absent,
    Labels,
    Metric,
    Reading,
    Values,
)

KTHREADD = b"2"
PF_KTHREAD = 0x00200000
CHILDREN = "/proc/2/task/2/children"
LIST_EVERY = 5
"""Readings between two looks at the list: of 2,000 threads it takes a millisecond."""
RELIST_EVERY = 60
"""Readings between two looks through all of /proc, where the kernel has no `children` file."""
WATCHED = 128
"""Threads looked at in each reading, with a descriptor kept."""
ROTATED = 24
"""Of the others this many are looked at in each reading, in turn: their files are opened each time."""
STILL = 10
SELDOM = 4
"""Those watched that did not run in STILL looks are looked at in every so many readings."""
MAX_THREADS = 8192
MAX_QUEUES = 128
OTHER = "other"
TICK_MS = 10
NO_STATISTICS = (b"", b"0 0 0")
PID = re.compile(rb"[0-9]{1,18}\Z")
WORKER = re.compile(rb"kworker/[^-+]*(?:[-+](.*))?\Z", re.DOTALL)
"""`kworker/3:1H-kblockd`, `kworker/u8:2+flush-7:0`: since Linux 4.18 the queue that it works on
(+) or worked on last (-); kernel/workqueue.c, wq_worker_comm()."""
RESCUER = re.compile(rb"kworker/R-")

ROWS = (
    Metric("queue", "kworker", LABEL, "str", "", "queue", "Work queue, or the kernel thread's name (`kswapd`, `ksoftirqd`)."),
    Metric("kworker_cpu_ms", "kworker", COUNTER, "int", "ms", "cpu", "CPU time of the kernel threads that worked on it."),
)  # fmt: skip


class Reader(object):
    """Sums the CPU time of kernel threads under what they worked on when they were looked at."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._children = host.keep(CHILDREN)
        self._listing = b""
        self._watched: List[Thread] = []
        self._others: Deque[Thread] = deque()
        self._ticks: Dict[str, int] = {}
        self._count = 0

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when kernel threads are not to be seen from here.
        """
        if not self._listing and not _is_kthreadd(self._host):
            raise Absent("kernel threads are not visible here (hidepid, or a PID namespace)")
        if self._count % LIST_EVERY == 0:
            listing = self._list()
            if listing != self._listing:
                self._enrol(listing)
        for place, thread in enumerate(self._watched):
            if thread.still < STILL or (place + self._count) % SELDOM == 0:
                self._look(thread)
        for _ in range(min(ROTATED, len(self._others))):
            self._take_turn(self._others.popleft())
        self._count += 1
        rows: List[Tuple[str, Labels, Values]] = [
            ("kworker", (queue,), (ticks * TICK_MS,)) for queue, ticks in self._ticks.items()
        ]
        return Reading(rows, {})

    def _list(self) -> bytes:
        try:
            return self._children.read()
        except OSError:
            pass
        if self._count % RELIST_EVERY and self._listing:
            return self._listing
        return b" ".join(_children_of_kthreadd(self._host))

    def _enrol(self, listing: bytes) -> None:
        """Take up threads that are new and forget those that are gone."""
        born = bool(self._listing)
        self._listing = listing
        pids = {pid for pid in listing.split()[:MAX_THREADS] if PID.match(pid)}
        self._watched = [thread for thread in self._watched if thread.pid in pids]
        self._others = deque(thread for thread in self._others if thread.pid in pids)
        known = {thread.pid for thread in self._watched}
        known.update(thread.pid for thread in self._others)
        for pid in sorted(pids - known, key=int):
            thread = Thread(self._host, pid, born=born)
            (self._watched if len(self._watched) < WATCHED else self._others).append(thread)

    def _look(self, thread: "Thread") -> bool:
        spent = thread.look()
        if spent is None:
            return False
        queue, ticks = spent
        if queue not in self._ticks and len(self._ticks) >= MAX_QUEUES:
            queue = OTHER
        self._ticks[queue] = self._ticks.get(queue, 0) + ticks
        return ticks > 0

    def _take_turn(self, thread: "Thread") -> None:
        """Look at one of the others; a busy one changes places with the stillest watched."""
        if self._look(thread):
            place = max(range(len(self._watched)), key=lambda i: self._watched[i].still)
            thread, self._watched[place] = self._watched[place], thread
        thread.close()
        self._others.append(thread)


class Thread(object):
    """One kernel thread.

    Args:
        host: where it runs.
        pid: its number, as text.
        born: whether it came into being under our eyes, so that all its time counts.

    Attributes:
        still: looks since it last ran.
    """

    def __init__(self, host: Host, pid: bytes, *, born: bool) -> None:
        self.pid = pid
        self.still = 0
        self._host = host
        base = "/proc/" + pid.decode("ascii")
        self._schedstat = host.keep(base + "/schedstat", 256)
        self._stat = base + "/stat"
        self._moves = b""
        self._ticks: Optional[int] = 0 if born else None
        self._start = b""

    def look(self) -> Optional[Tuple[str, int]]:
        """Return what it works on and the clock ticks since the last look; None if it was still.

        /proc/PID/schedstat is a third of the cost of /proc/PID/stat, and stays the same for a
        thread that did not run; a kernel without these statistics prints zeros.
        """
        moves = self._read_moves()
        if moves == self._moves and moves not in NO_STATISTICS:
            self.still += 1
            return None
        self._moves = moves
        self.still = 0
        try:
            text = self._host.read(self._stat, 4096)
        except OSError:  # it has ended
            return None
        return self._spent(text)

    def close(self) -> None:
        """Give its descriptor back."""
        self._schedstat.close()

    def _read_moves(self) -> bytes:
        try:
            return self._schedstat.read().strip()
        except OSError:  # it has ended, or the kernel keeps no such statistics
            return b""

    def _spent(self, text: bytes) -> Optional[Tuple[str, int]]:
        fields = _fields(text)
        if len(fields) < 20 or not (PID.match(fields[11]) and PID.match(fields[12])):
            return None
        if self._start not in (b"", fields[19]):
            self._ticks = 0  # another thread under the same number
        self._start = fields[19]
        total = int(fields[11]) + int(fields[12])
        ticks = 0 if self._ticks is None else max(0, total - self._ticks)
        self._ticks = total
        comm = text[text.find(b"(") + 1 : text.rfind(b")")]
        return None if RESCUER.match(comm) else (queue_of(comm), ticks)


def queue_of(comm: bytes) -> str:
    """Return the work queue of a worker, or a kernel thread's name without its number.

    `ksoftirqd/3` is ksoftirqd, `kswapd0` is kswapd, `jbd2/sda1-8` is jbd2.
    """
    worker = WORKER.match(comm)
    if worker:
        name = worker.group(1) or b"kworker"
    else:
        name, slash, _ = comm.partition(b"/")
        if not slash:
            name = comm.rstrip(b"0123456789").rstrip(b"_:")
        name = name or comm
    return name.decode("utf-8", "replace")


def _fields(stat: bytes) -> List[bytes]:
    """Return the fields of a /proc/PID/stat from the state on: the name may hold anything."""
    return stat[stat.rfind(b")") + 1 :].split()


def _is_kthreadd(host: Host) -> bool:
    """Tell whether pid 2 is the kernel's: in a PID namespace it is anybody."""
    try:
        fields = _fields(host.read("/proc/2/stat", 4096))
    except OSError:
        return False
    return len(fields) > 6 and bool(PID.match(fields[6])) and bool(int(fields[6]) & PF_KTHREAD)


def _children_of_kthreadd(host: Host) -> List[bytes]:
    """Search all of /proc: for kernels without CONFIG_PROC_CHILDREN, and seldom."""
    found = []
    for name in host.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = _fields(host.read("/proc/%s/stat" % name, 4096))
        except OSError:  # it has ended
            continue
        if len(fields) > 1 and fields[1] == KTHREADD:
            found.append(name.encode("ascii", "replace"))
    return found
