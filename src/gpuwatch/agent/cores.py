"""Which of a node's CPUs are worth a row of their own, by the lines of /proc/stat.

A node has up to hundreds; what matters is whether one of them is full while the others idle: of
interrupts of one network queue, or of loaders that were pinned together. So the growth of whichever
CPU had most goes into two counters, reading by reading, and the CPUs named are those that had much,
changed rarely: an entity that comes and goes has no rates.
"""

from typing import Dict, List, Set, Tuple

HOTTEST = 3
"""CPUs shown for their soft interrupts; one more is shown for being busiest."""
CHOOSE_EVERY = 5
"""Readings between two choices."""
HOT = 0.05
"""Part of a CPU in soft interrupts from which one takes the place of another."""
FULL = 0.9
FREE = 0.5
"""Busy parts: a CPU above the first takes the place of one below the second."""
IDLE, IOWAIT, SOFTIRQ, TIMES = 3, 4, 6, 8
"""Fields of a line: what comes after steal, guest time, is contained in user time (proc_stat(5))."""


Use = Tuple[int, int, int]
"""Ticks of one CPU since the boot: in soft interrupts, busy, and idle. Busy is summed from what the
CPU did: idle and iowait may go down a little."""


def use(fields: List[bytes]) -> Use:
    """Return the use of a CPU whose line has these fields.

    Raises:
        ValueError: one is no number.
        IndexError: there are too few.
    """
    times = [int(field) for field in fields[:TIMES]]
    idle = times[IDLE] + times[IOWAIT]
    return times[SOFTIRQ], sum(times) - idle, idle


class Cores(object):
    """Follows the CPUs of a node.

    Attributes:
        shown: CPUs that have a row now.
        hottest: ticks in soft interrupts of whichever CPU had most, summed over readings.
        busiest: busy ticks of whichever CPU had most, summed over readings.
    """

    def __init__(self) -> None:
        self.shown: Set[int] = set()
        self.hottest = 0
        self.busiest = 0
        self._hot: List[int] = []
        self._busy: List[int] = []
        self._last: Dict[int, Use] = {}
        self._chosen_by: Dict[int, Use] = {}
        self._readings = 0

    def take(self, uses: Dict[int, Use]) -> None:
        """Take a reading: the CPUs that are online, and what each was used for since the boot.

        One that was not there before has grown by nothing, one that is gone is forgotten.
        """
        grown = _growth(self._last, uses)
        self.hottest += max((softirq for softirq, _, _ in grown.values()), default=0)
        self.busiest += max((busy for _, busy, _ in grown.values()), default=0)
        self._last = uses
        if self._readings % CHOOSE_EVERY == 0 or not self.shown <= set(uses):
            self._choose(_growth(self._chosen_by, uses) if self._chosen_by else uses)
            self._chosen_by = uses
        self._readings += 1

    def _choose(self, grown: Dict[int, Use]) -> None:
        wall = max((busy + idle for _, busy, idle in grown.values()), default=0)
        hot = sorted(grown, key=lambda core: (-grown[core][0], core))
        self._hot = [core for core in self._hot if core in grown]
        for core in hot:
            if core in self._hot:
                continue
            if len(self._hot) < HOTTEST:
                self._hot.append(core)
                continue
            coolest = min(self._hot, key=lambda c: grown[c][0])
            if grown[core][0] > max(HOT * wall, 2 * grown[coolest][0]):
                self._hot[self._hot.index(coolest)] = core
        others = [core for core in grown if core not in self._hot]
        self._busy = [core for core in self._busy if core in others]
        top = max(others, key=lambda core: (grown[core][1], -core), default=None)
        if top is not None and (
            not self._busy
            or (grown[top][1] > FULL * wall and grown[self._busy[0]][1] < FREE * wall)
        ):
            self._busy = [top]
        self.shown = set(self._hot + self._busy)


def _growth(before: Dict[int, Use], now: Dict[int, Use]) -> Dict[int, Use]:
    """Return what each CPU was used for in between, never negative."""
    grown = {}
    for core, (softirq, busy, idle) in now.items():
        old = before.get(core)
        if old is None:
            grown[core] = 0, 0, 0
        else:
            grown[core] = max(0, softirq - old[0]), max(0, busy - old[1]), max(0, idle - old[2])
    return grown
