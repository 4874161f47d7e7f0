"""Whose turn it is: which threads are looked at in each sample, which in turn, and which seldom."""

from collections import Counter
from typing import Callable, Dict, Iterable, List, Set, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.ranks import Rank
from gpuwatch.agent.thread import Watched

ROLES = ("main", "loader", "checkpoint", "worker")
HOT_SHARE = 0.02
"""Part of a CPU from which a thread is looked at in each sample."""
MAX_HOT = 256
LOOKS = 16
"""Of those, main threads of ranks aside, so many are looked at in each sample, in turn: at 40 us a
look, a hundred loaders at 5 Hz would cost more than all the rest."""
IN_TURN = 6
"""Other threads that are looked at in each sample."""
KEPT_REST = 100
"""More of those are a crowd: their files are not kept open, as descriptors are few, and a look costs
three times as much."""
IN_SLEEP = 1
"""Threads of such a crowd that are looked at in each sample, where their process runs no more than is
seen."""
CLOSE_S = 1.5
"""Between looks further apart (and by more than turns take), what a thread used does not count."""


class Ring(object):
    """Threads that take turns; who was next stays so, as far as possible, when they are others."""

    def __init__(self) -> None:
        self.all: List[Watched] = []
        self._place = 0

    def next(self) -> Watched:
        """Return the next one."""
        self._place = (self._place + 1) % len(self.all)
        return self.all[self._place]

    def some(self, most: int) -> List[Watched]:
        """Return the next ones, none twice."""
        return [self.next() for _ in range(min(most, len(self.all)))]


class Turns(object):
    """The order of looks.

    Attributes:
        mains: main threads of ranks: looked at in each sample.
        hot: those of loaders and checkpoint processes, and threads that lately used a CPU.
        is_crowd: whether the others are many.
        close_s: within it a look is close to the one before.
    """

    def __init__(self) -> None:
        self.mains: List[Watched] = []
        self.hot = Ring()
        self.is_crowd = False
        self.close_s = CLOSE_S
        self._running = Ring()
        self._asleep = Ring()
        self._is_counted = False
        self._counts: Dict[Tuple[int, str], int] = {}
        self._sampled: Dict[Tuple[int, str], int] = {}

    def regroup(self) -> None:
        """Take it that threads came, ended, or are another rank's or role's now."""
        self._is_counted = False

    def sort(
        self,
        watched: Iterable[Watched],
        now: float,
        rate_hz: float,
        asleep: Callable[[], Set[int]],
    ) -> None:
        """Choose anew, and count by rank and role.

        Args:
            watched: all threads.
            now: seconds, monotonic.
            rate_hz: samples a second.
            asleep: tells processes of which no other threads run than are looked at; only asked in a
                crowd.
        """
        mains: List[Watched] = []
        busy: List[Watched] = []
        rest: List[Watched] = []
        for each in watched:
            if each.is_main:
                mains.append(each)
            else:
                (busy if each.hot_until > now else rest).append(each)
        mains.sort(key=lambda w: ROLES.index(w.role))
        busy.sort(key=lambda w: w.thread.share or 0.0, reverse=True)
        first = mains + busy
        ranks = sum(w.role == "main" for w in mains)
        self.mains, self.hot.all = first[:ranks], first[ranks:MAX_HOT]
        rest += first[MAX_HOT:]
        self.is_crowd = len(rest) > KEPT_REST
        pids = asleep() if self.is_crowd else set()
        self._running.all = [each for each in rest if each.thread.pid not in pids]
        self._asleep.all = [each for each in rest if each.thread.pid in pids] if pids else []
        self.close_s = max(CLOSE_S, 3 * len(self.hot.all) / LOOKS / rate_hz)
        if not self._is_counted:
            self._is_counted = True
            self._counts = Counter((id(w.rank), w.role) for w in first + rest)
        self._sampled = Counter((id(w.rank), w.role) for w in self.mains + self.hot.all)

    def rest(self) -> List[Watched]:
        """Return those of the others whose turn it is."""
        return self._running.some(IN_TURN) + self._asleep.some(IN_SLEEP)

    def count(self, rank: Rank, role: str) -> Tuple[int, int]:
        """Return how many threads a rank has in a role, and how many of them are sampled."""
        key = id(rank), role
        return self._counts.get(key, 0), self._sampled.get(key, 0)


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
