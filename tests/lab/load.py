"""What the machine itself was doing meanwhile: a guest that gets no CPU proves nothing."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from lab.node import children

EVERY_S = 1.0
STEAL = 0.1
"""Share of the machine's CPU time taken by its hypervisor from which on a second is lost."""
DELAY = 0.4
"""Seconds a second in which a guest was ready to run and did not."""
OTHERS = 0.3
"""Share of the machine's CPU time used by others, for nodes that share its kernel."""


class Second(msgspec.Struct, frozen=True):
    """One second of the machine: shares of its CPU time, and the longest delay of a guest."""

    at_s: float
    busy: float
    others: float
    steal: float
    delay: float | None

    @property
    def starved(self) -> bool:
        """Whether what was seen in it proves nothing."""
        crowded = self.others > OTHERS if self.delay is None else self.delay > DELAY
        return self.steal > STEAL or crowded


class Load:
    """Watches the machine in a thread of its own, from `start` to `stop`.

    Args:
        kernels: processes of the machine that are guests' kernels; none where nodes share its own.
    """

    def __init__(self, kernels: Sequence[int]) -> None:
        self.seconds: list[Second] = []
        self._kernels = kernels
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()
        self._thread.join()

    def starved(self) -> tuple[tuple[float, float], ...]:
        """Return the periods in which guests were starved, on time.monotonic()."""
        periods: list[tuple[float, float]] = []
        for second in self.seconds:
            if not second.starved:
                continue
            begin = second.at_s - EVERY_S
            if periods and begin - periods[-1][1] < EVERY_S:
                periods[-1] = (periods[-1][0], second.at_s)
            else:
                periods.append((begin, second.at_s))
        return tuple(periods)

    def _watch(self) -> None:
        before = self._look()
        while not self._stopped.wait(EVERY_S):
            now = self._look()
            self.seconds.append(_second(before, now))
            before = now

    def _look(self) -> "_Look":
        delays = tuple({pid: _delay(pid) for pid in _family(kernel)} for kernel in self._kernels)
        own = {pid: _spent(pid) for pid in _family(os.getpid())}
        return _Look(time.monotonic(), _cpu(), own, delays)


class _Look(NamedTuple):
    """Counters at one instant: the machine's, and by process the lab's own CPU time and delays."""

    at_s: float
    cpu: list[int]
    own: dict[int, int]
    delays: tuple[dict[int, int], ...]


def _second(before: _Look, now: _Look) -> Second:
    spent = [b - a for a, b in zip(before.cpu, now.cpu, strict=True)]
    total = sum(spent) or 1
    idle, steal = spent[3] + spent[4], spent[7]
    busy = 1 - (idle + steal) / total
    own = _more(before.own, now.own) / total
    delays = [_more(a, b) for a, b in zip(before.delays, now.delays, strict=True)]
    delay = max(delays) / 1e9 / (now.at_s - before.at_s) if delays else None
    return Second(now.at_s, busy, max(0.0, busy - own), steal / total, delay)


def _cpu() -> list[int]:
    """Return the first line of /proc/stat, guest time left out: user time has it (proc(5))."""
    return [int(word) for word in Path("/proc/stat").read_text().split()[1:9]]


def _family(top: int) -> Iterator[int]:
    """Yield a process and all that it started."""
    open_ = [top]
    while open_:
        pid = open_.pop()
        yield pid
        with contextlib.suppress(OSError):
            open_ += children(pid)


def _delay(pid: int) -> int:
    """Return the nanoseconds that a process waited for a CPU (sched-stats of the kernel)."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except OSError:
        return 0  # it has ended


def _spent(pid: int) -> int:
    """Return the ticks of CPU time of a process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return sum(map(int, stat[stat.rfind(")") + 2 :].split()[11:13]))


def _more(before: dict[int, int], now: dict[int, int]) -> int:
    """Return how much counters of processes grew; a new process counts from nothing."""
    return sum(max(0, value - before.get(pid, 0)) for pid, value in now.items())
