"""Whose turn it is: which threads are looked at in each sample, which in turn, and which seldom."""

from collections import Counter
from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from gpuwatch.agent.ranks import Rank
from gpuwatch.agent.watch import Watched

ROLES = ("main", "loader", "checkpoint", "worker")
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
        self._sorted: List[Watched] = []
        self._others: List[Watched] = []
        self._warm: Dict[Watched, None] = {}
        self._is_grouped = False
        self._parted: Optional[Tuple[Set[Watched], Set[int]]] = None
        self._counts: Dict[Tuple[int, str], int] = {}
        self._sampled: Dict[Tuple[int, str], int] = {}

    def regroup(self) -> None:
        """Take it that threads came, ended, or are another rank's or role's now."""
        self._is_grouped = False

    def warm(self, watched: Watched) -> None:
        """Take it that a thread uses a CPU: `hot_until` lies ahead."""
        if not watched.is_main:
            self._warm[watched] = None

    def sort(
        self,
        watched: Iterable[Watched],
        now: float,
        rate_hz: float,
        asleep: Callable[[], Set[int]],
    ) -> None:
        """Choose anew, and count by rank and role.

        Thousands of threads are gone through only when those that are looked at in each sample are
        others than before.

        Args:
            watched: all threads.
            now: seconds, monotonic.
            rate_hz: samples a second.
            asleep: tells processes of which no other threads run than are looked at; only asked in a
                crowd.
        """
        if not self._is_grouped:
            self._group(watched)
        self._warm = {each: None for each in self._warm if each.hot_until > now}
        busy = sorted(self._warm, key=lambda w: w.thread.share or 0.0, reverse=True)
        first = self._sorted + busy
        ranks = sum(w.role == "main" for w in self._sorted)
        self.mains, self.hot.all = first[:ranks], first[ranks:MAX_HOT]
        chosen = set(first[:MAX_HOT])
        self.is_crowd = len(self._sorted) + len(self._others) - len(chosen) > KEPT_REST
        self._part(chosen, asleep() if self.is_crowd else set())
        self.close_s = max(CLOSE_S, 3 * len(self.hot.all) / LOOKS / rate_hz)
        self._sampled = Counter((id(w.rank), w.role) for w in self.mains + self.hot.all)

    def _group(self, watched: Iterable[Watched]) -> None:
        """Tell main threads from others, and count all."""
        every = list(watched)
        mains = [each for each in every if each.is_main]
        self._sorted = sorted(mains, key=lambda w: ROLES.index(w.role))
        self._others = [each for each in every if not each.is_main]
        self._warm = {each: None for each in self._others if each.hot_until > 0}
        self._counts = Counter((id(w.rank), w.role) for w in every)
        self._parted = None
        self._is_grouped = True

    def _part(self, chosen: Set[Watched], asleep: Set[int]) -> None:
        """Part what is not looked at in each sample by whether its process sleeps, if that changed."""
        if self._parted == (chosen, asleep):
            return
        self._parted = chosen, asleep
        rest = [each for each in self._sorted + self._others if each not in chosen]
        self._running.all = [each for each in rest if each.thread.pid not in asleep]
        self._asleep.all = [each for each in rest if each.thread.pid in asleep]

    def rest(self) -> List[Watched]:
        """Return those of the others whose turn it is."""
        return self._running.some(IN_TURN) + self._asleep.some(IN_SLEEP)

    def count(self, rank: Rank, role: str) -> Tuple[int, int]:
        """Return how many threads a rank has in a role, and how many of them are sampled."""
        key = id(rank), role
        return self._counts.get(key, 0), self._sampled.get(key, 0)
