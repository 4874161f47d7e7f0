"""Threads that call the sources, so that the tick waits for none that hangs.

One is on duty: it works through what a round asks for, and samples until the next. A call that
hangs in the kernel keeps its thread, and no signal need bring it back: another thread takes over
what is left. The first is the main thread, as Python lets signals interrupt that one alone. None
ever ends: a child dies with the thread that forked it (PR_SET_PDEATHSIG, prctl(2)). As no source
is called twice at once, there are never more threads than sources, and one.
"""

import _thread
import os
import signal
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Set, Tuple

from gpuwatch.agent.guard import Guard, Rows
from gpuwatch.agent.host import LIMIT, Board, whole
from gpuwatch.agent.lines import after

WATCH_S = 0.5
"""How often the watchdog looks at the main thread while it calls sources."""
FOR_EVER = -1.0
RUNNABLE = b"R"

Call = Tuple[Guard, Callable[[], Optional[Rows]]]


class Round(object):
    """What is to be called, in this order, and what came of it.

    Attributes:
        left: sources that were not called yet, each with the call.
        rows: of each source that was read.
        late: sources that were not called in time.
        is_done: nothing is left to wait for.
    """

    def __init__(self, calls: Sequence[Call] = ()) -> None:
        self.left: Deque[Call] = deque(calls)
        self.rows: Dict[str, Rows] = {}
        self.late: Set[str] = set()
        self.is_done = False


class Crew(object):
    """The threads, of which one is on duty.

    Args:
        guards: of the sources, in the order in which they are read.
        board: tells how often threads are sampled.
        interval_s: between two ticks.
        wake: called, in any thread, when a round is done.

    Attributes:
        on_duty: who does what is asked for.
        spare: who came back from a call after somebody else took over.
    """

    def __init__(
        self, guards: Sequence[Guard], board: Board, interval_s: float, wake: Callable[[], None]
    ) -> None:
        self.wake = wake
        self.first = self.on_duty = Worker(self)
        self.spare: List[Worker] = []
        self._guards = guards
        self._samples: List[Call] = [(guard, guard.sample) for guard in guards if guard.samples]
        self._board = board
        self._interval_s = interval_s
        self._tick_at = 0.0

    def prepare(self) -> Round:
        """Have all readers made, with all that they import."""
        return self._ask([(guard, guard.prepare) for guard in self._guards])

    def read(self, tick_at: float) -> Round:
        """Have all sources read for a tick that was due at that time."""
        self._tick_at = tick_at
        return self._ask(self._samples + [(guard, guard.read) for guard in self._guards])

    def relieve(self, round_: Round) -> float:
        """Let another thread go on with a round where the one on duty hangs: ask again and again.

        Returns:
            The seconds for which it wanted for a CPU since this was last asked, or the round began.
            They do not count against the source that it calls.
        """
        worker = self.on_duty
        wanted_s = worker.wanted_s()
        if worker.guard is not None:
            worker.guard.excused_s += wanted_s
        if worker.hangs():
            self._replace(round_)
        return wanted_s

    def give_up(self, round_: Round) -> None:
        """Wait for a round no longer: a call that still runs has its thread for itself."""
        round_.late = {guard.name for guard, _ in list(round_.left)}
        round_.left.clear()
        if not round_.is_done and self.on_duty.guard is not None:
            self._replace(Round())

    def watch(self, *_: Any) -> None:
        """End, from a signal's handler and so in the main thread, its call if that takes long."""
        guard = self.first.guard
        if guard is not None:
            guard.interrupt(time.monotonic())

    def samples(self) -> Round:
        """Return what is called between two ticks."""
        return Round(self._samples)

    def until_sample_s(self) -> float:
        """Return the time to the next sample; FOR_EVER where the tick comes before."""
        period_s = 1.0 / self._board.thread_rate_hz
        passed_s = time.monotonic() - self._tick_at
        due_s = (int(passed_s / period_s) + 1) * period_s
        return due_s - passed_s if due_s <= self._interval_s - period_s / 2 else FOR_EVER

    def _ask(self, calls: List[Call]) -> Round:
        round_ = Round(calls)
        if self.first in self.spare:
            self.spare.remove(self.first)
            other, self.on_duty = self.on_duty, self.first
            other.ask(Round())  # so that it sees that it is spare now
        self.on_duty.wanted_s()
        self.on_duty.ask(round_)
        return round_

    def _replace(self, round_: Round) -> None:
        before = self.on_duty
        if self.spare:
            self.on_duty = self.spare.pop()
        else:
            self.on_duty = Worker(self)
            try:
                _thread.start_new_thread(self.on_duty.work, ())
            except RuntimeError:  # no more threads are allowed here
                self.on_duty = before
                return
        self.on_duty.wanted_s()
        self.on_duty.ask(round_)


class Worker(object):
    """One thread.

    Attributes:
        guard: whose call runs now; None while none does.
    """

    def __init__(self, crew: Crew) -> None:
        self.guard: Optional[Guard] = None
        self._crew = crew
        self._round = Round()
        self._asked = _thread.allocate_lock()
        self._asked.acquire()
        self._status = self._schedule = -1
        self._wanted_ns = 0
        self._calls = 0
        self._seen: Tuple[int, Tuple[bytes, ...]] = (0, ())

    def ask(self, round_: Round) -> None:
        """Let it do a round next."""
        self._round = round_
        if self._asked.locked():
            self._asked.release()

    def work(self) -> None:
        """Do what is asked for, and sample in between, for ever."""
        self._status, self._schedule = map(_of_this_thread, ("status", "schedstat"))
        while True:
            on_duty = self._crew.on_duty is self
            if not on_duty:
                self._asked.acquire(blocking=False)
                self._crew.spare.append(self)
            wait_s = self._crew.until_sample_s() if on_duty else FOR_EVER
            if self._asked.acquire(timeout=wait_s):
                round_ = self._round
                self._do(round_)
                if self._crew.on_duty is self:
                    round_.is_done = True
                    self._crew.wake()
            else:
                self._do(self._crew.samples())

    def hangs(self) -> bool:
        """Tell whether it has been blocked in one call ever since this was last asked.

        A thread that waits for a CPU does not hang, nor does one that went on and was blocked anew.
        """
        moves = _moves(self._status)
        before, self._seen = self._seen, (self._calls, moves)
        blocked = bool(moves) and moves[0] != RUNNABLE
        return self.guard is not None and blocked and before == self._seen

    def wanted_s(self) -> float:
        """Return how long it could have run and got no CPU, since this was last asked."""
        before, self._wanted_ns = self._wanted_ns, _wanted_ns(self._schedule)
        return (self._wanted_ns - before) / 1e9

    def _do(self, round_: Round) -> None:
        is_watched = self._crew.first is self
        if is_watched:
            signal.setitimer(signal.ITIMER_REAL, WATCH_S, WATCH_S)
        while self._crew.on_duty is self:
            try:
                guard, call = round_.left.popleft()
            except IndexError:
                break
            if not guard.turn.acquire(blocking=False):
                continue  # the call of another thread still runs
            self.guard = guard
            self._calls += 1
            rows = call()
            if rows is not None:
                round_.rows[guard.name] = rows
            self.guard = None
            guard.turn.release()
        if is_watched:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _of_this_thread(name: str) -> int:
    """Open what the kernel tells of this thread; -1 where it does not (Linux before 3.17)."""
    try:
        return os.open("/proc/thread-self/" + name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _moves(status: int) -> Tuple[bytes, ...]:
    """Return a thread's state and how often it began to wait; nothing where that is not told."""
    try:
        text = whole(status, LIMIT)
    except OSError:
        return ()
    state, waits = after(text, b"State:\t"), after(text, b"voluntary_ctxt_switches:\t")
    return (state[:1], waits) if state and waits else ()


def _wanted_ns(schedule: int) -> int:
    """Return how long a thread has waited on run queues: the second number of its schedstat."""
    try:
        return int(whole(schedule, LIMIT).split()[1])
    except (OSError, ValueError, IndexError):
        return 0
