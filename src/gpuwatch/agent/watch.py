"""What is under watch: threads with what they count for, and the processes that have them."""

from typing import Dict, List, Mapping, Optional

from gpuwatch.agent.host import Host
from gpuwatch.agent.ranks import Rank
from gpuwatch.agent.tally import Io, Totals
from gpuwatch.agent.thread import Access, Thread

HOT_SHARE = 0.02
"""Part of a CPU from which a thread is looked at in each sample."""


class Watched(object):
    """A thread under watch, with the rank and role that it counts for.

    Attributes:
        skipped: states of GPUs in the samples in which it was not looked at as it slept: they
            count when the next look shows that it has slept all the time.
    """

    __slots__ = ("hot_until", "is_main", "rank", "role", "skipped", "thread", "totals")

    def __init__(self, thread: Thread, *, is_main: bool) -> None:
        self.thread = thread
        self.is_main = is_main
        self.hot_until = 0.0
        self.skipped: List[Mapping[Optional[int], str]] = []
        self.rank: Optional[Rank] = None
        self.role = ""
        self.totals = Totals()


class Unseen(object):
    """CPU time of a process beyond what the threads that are looked at used.

    Args:
        host: whose process.
        pid: of the process.
    """

    __slots__ = ("_at", "_seen_ns", "_stat", "_used_ns")

    def __init__(self, host: Host, pid: int) -> None:
        self._stat = host.keep("/proc/%d/stat" % pid, 1024)
        self._at = 0.0
        self._used_ns = self._seen_ns = -1

    def is_much(self, now: float, seen_ns: int) -> bool:
        """Tell whether another thread may be hot, since the last call; at the first any may.

        Args:
            now: seconds, monotonic.
            seen_ns: CPU time of its threads, as far as they are looked at.
        """
        used_ns = self._read()
        is_first = self._used_ns < 0
        unseen_ns = (used_ns - self._used_ns) - (seen_ns - self._seen_ns)
        passed_ns = (now - self._at) * 1e9
        self._at, self._used_ns, self._seen_ns = now, used_ns, seen_ns
        return is_first or used_ns < 0 or unseen_ns >= HOT_SHARE * passed_ns

    def close(self) -> None:
        """Give the descriptor back."""
        self._stat.close()

    def _read(self) -> int:
        """Return user and system time (proc_pid_stat(5), in ticks of 10 ms), -1 where it is not told."""
        try:
            raw = self._stat.read()
            user, system = raw[raw.rfind(b")") + 2 :].split(None, 13)[11:13]
            return (int(user[:20]) + int(system[:20])) * 10000000
        except (OSError, ValueError):
            return -1


class Watch(object):
    """One process, and all of its threads.

    Args:
        host: whose.
        pid: of the process.
        access: shared by all threads.

    Attributes:
        threads: under watch, by their ids.
        io: what the process moved from and to storage.
        unseen: what it used beyond what the threads that are looked at used.
        size: threads that it had when they were listed.
    """

    __slots__ = (
        "_access",
        "_folder",
        "_host",
        "_listed",
        "_rank",
        "_role",
        "io",
        "pid",
        "size",
        "threads",
        "unseen",
    )

    def __init__(self, host: Host, pid: int, access: Access) -> None:
        self.pid = pid
        self.io = Io(host, pid)
        self.unseen = Unseen(host, pid)
        self.size = 0
        self.threads: Dict[int, Watched] = {}
        self._host = host
        self._folder = "/proc/%d/task" % pid
        self._access = access
        self._rank: Optional[Rank] = None
        self._role = ""
        self._listed = ""

    @property
    def main(self) -> Optional[Watched]:
        """Its first thread, None while that is not under watch."""
        return self.threads.get(self.pid)

    @property
    def has_changed(self) -> bool:
        """Whether it has more or fewer threads than when they were listed, as far as that was seen."""
        main = self.main
        return main is not None and main.thread.threads not in (0, self.size)

    def list(self, rank: Rank, role: str) -> bool:
        """List the threads; tell whether they, their rank or role are others than before.

        A rank may have hundreds of threads, which stay the same for hours: what is done for each of
        them is done only where there is a change.

        Args:
            rank: whose process it is.
            role: of its first thread.
        """
        if self._is_as_listed() and rank is self._rank and role == self._role:
            return False
        try:
            names = self._host.listdir(self._folder)
        except OSError:
            names = []
        main = self.main
        self.size = main.thread.threads if main and main.thread.threads else len(names)
        listed = " ".join(names)
        if listed == self._listed and rank is self._rank and role == self._role:
            return False
        self._listed, self._rank, self._role = listed, rank, role
        return True

    def _is_as_listed(self) -> bool:
        """Tell whether it has as many threads as are under watch: of those none is known to have ended."""
        try:
            return bool(self.threads) and self._host.subfolders(self._folder) == len(self.threads)
        except OSError:
            return False

    def follow(self, most: int) -> None:
        """Put the threads that were listed under watch, and no others.

        Args:
            most: threads that may come under watch in addition.
        """
        tids = [int(name) for name in self._listed.split() if name.isdigit()]
        for tid in set(self.threads) - set(tids):
            self.threads.pop(tid).thread.close()
        new = [tid for tid in tids if tid not in self.threads]
        for tid in new[: max(0, most)]:
            thread = Thread(self._host, self.pid, tid, self._access)
            self.threads[tid] = Watched(thread, is_main=tid == self.pid)

    def lose(self, tid: int) -> None:
        """Forget a thread that ended; its id may soon be another's."""
        lost = self.threads.pop(tid, None)
        if lost is not None:
            lost.thread.close()
        self._listed = ""

    def close(self) -> None:
        """Give all descriptors back."""
        for watched in self.threads.values():
            watched.thread.close()
        self.io.close()
        self.unseen.close()
