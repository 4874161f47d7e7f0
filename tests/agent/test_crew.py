"""The threads that call sources: one that hangs is relieved, and no source is called twice at once."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from gpuwatch.agent import crew
from gpuwatch.agent.crew import Crew, Round
from gpuwatch.agent.guard import Guard
from gpuwatch.agent.host import Board, Host
from gpuwatch.agent.metric import Reading

NAMES = ("clock", "cpu", "memory", "pressure", "tcp")


class Sources:
    """Guards of sources that each do what they are told to, and threads that call them."""

    def __init__(self) -> None:
        self.acts: dict[str, Callable[[], object]] = {}
        self.calls: dict[str, int] = dict.fromkeys(NAMES, 0)
        self.threads: set[int] = set()
        self.guards = [self._guard(name) for name in NAMES]
        self.done = threading.Event()
        self.crew = Crew(self.guards, Board(), 1.0, self.done.set)
        threading.Thread(target=self.crew.first.work, daemon=True).start()

    def read(self) -> Round:
        """Read all, relieving who hangs."""
        self.done.clear()
        round_ = self.crew.read(time.monotonic())
        deadline = time.monotonic() + 10
        while not self.done.wait(0.03):
            assert time.monotonic() < deadline
            self.crew.relieve(round_)
        self.crew.give_up(round_)
        return round_

    def _guard(self, name: str) -> Guard:
        acts, calls, threads = self.acts, self.calls, self.threads

        class Reader:
            def __init__(self, host: Host) -> None:
                self.host = host

            def read(self) -> Reading:
                calls[name] += 1
                threads.add(threading.get_ident())
                acts.get(name, bool)()
                return Reading([], {})

        guard = Guard(name, Host())
        guard._module = ModuleType(name)
        vars(guard._module).update(Reader=Reader)
        return guard


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sources]:
    monkeypatch.setattr(crew, "WATCH_S", 3600.0)
    yield Sources()
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture
def gate() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe: reading hangs in the kernel until the other end is written to."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_k28_what_hangs_costs_itself_only_and_is_called_once(
    sources: Sources, gate: tuple[int, int]
) -> None:
    """Two of five hang: three threads do, however often the others are read."""
    sources.acts.update(dict.fromkeys(("cpu", "pressure"), lambda: os.read(gate[0], 1)))
    for _ in range(3):
        round_ = sources.read()
        assert round_.rows.keys() == {"clock", "memory", "tcp"}
        assert not round_.late
    assert sources.calls == {"clock": 3, "cpu": 1, "memory": 3, "pressure": 1, "tcp": 3}
    assert len(sources.threads) == 3
    sources.acts.clear()
    os.write(gate[1], b"..")
    deadline = time.monotonic() + 10
    while (
        sources.read().rows.keys() != set(NAMES) or sources.crew.on_duty is not sources.crew.first
    ):
        assert time.monotonic() < deadline, "who came back is of use again"
    assert len(sources.threads) == 3


def test_who_works_or_was_blocked_again_and_again_does_not_hang(sources: Sources) -> None:
    until = time.monotonic() + 0.25

    def work() -> None:
        while time.monotonic() < until:
            pass

    def wait() -> None:
        for _ in range(25):
            time.sleep(0.01)

    sources.acts.update(cpu=work, memory=wait)
    assert sources.read().rows.keys() == set(NAMES)
    assert not sources.crew.spare
    assert sources.crew.on_duty is sources.crew.first


def test_what_was_not_called_in_time_is_late(sources: Sources, gate: tuple[int, int]) -> None:
    sources.acts.update(memory=lambda: os.read(gate[0], 1))
    round_ = sources.crew.read(time.monotonic())
    deadline = time.monotonic() + 10
    while not sources.calls["memory"]:
        assert time.monotonic() < deadline
    sources.crew.give_up(round_)
    assert round_.late == {"pressure", "tcp"}
    assert sources.read().rows.keys() == {"clock", "cpu", "pressure", "tcp"}
    os.write(gate[1], b".")


def test_who_gets_no_cpu_is_excused_and_so_is_the_source_that_it_calls(sources: Sources) -> None:
    """Two threads of one core want all of it, so each of them waits half of the time."""
    core = min(os.sched_getaffinity(0))
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    os.sched_setaffinity(spinner.pid, [core])

    def work() -> None:
        os.sched_setaffinity(0, [core])
        began = time.thread_time()
        while time.thread_time() - began < 0.1:
            pass

    sources.acts.update(memory=work)
    round_ = sources.crew.read(time.monotonic())
    began, excused_s = time.monotonic(), 0.0
    while not sources.done.wait(0.02):
        excused_s += sources.crew.relieve(round_)
    took_s = time.monotonic() - began
    excused_s += sources.crew.relieve(round_)
    spinner.kill()
    spinner.wait()
    assert round_.rows.keys() == set(NAMES)
    assert took_s > 0.12, "the other one had its share"
    assert excused_s == pytest.approx(took_s - 0.1, abs=0.06 + took_s / 4)
    assert 0 < sources.guards[NAMES.index("memory")].excused_s <= excused_s


@pytest.mark.parametrize(
    ("rate_hz", "passed_s", "wait_s"),
    [
        (5.0, 0.0, 0.2), (5.0, 0.19, 0.01), (5.0, 0.2, 0.2), (5.0, 0.75, 0.05), (5.0, 0.81, crew.FOR_EVER),
        (5.0, 7.0, crew.FOR_EVER), (2.0, 0.1, 0.4), (2.0, 0.6, crew.FOR_EVER), (1.0, 0.1, crew.FOR_EVER),
    ],
)  # fmt: skip
def test_samples_lie_evenly_between_two_ticks_and_none_beside_the_next(
    rate_hz: float, passed_s: float, wait_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board()
    board.thread_rate_hz = rate_hz
    idle = Crew([], board, 1.0, lambda: None)
    idle.read(1000.0)
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0 + passed_s)
    waits = idle.until_sample_s()
    monkeypatch.undo()
    assert waits == pytest.approx(wait_s)
