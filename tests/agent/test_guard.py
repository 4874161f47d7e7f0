"""Guards: a source that fails, hangs or is absent costs itself only, and tells no secret."""

import errno
import itertools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent.kit import unpack
from gpuwatch.agent import catalogue
from gpuwatch.agent.guard import Guard, told
from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import Absent, Reading

SECRET = "hunter2-s3cr3t"


def source_that(acts: list[Any]) -> Any:
    """Return a source's module whose reader does these things, one a reading."""

    class Reader:
        def __init__(self, host: Host) -> None:
            self.host = host

        def read(self) -> Any:
            act = acts.pop(0)
            if isinstance(act, BaseException):
                raise act
            return act

    module = ModuleType("source")
    vars(module).update(ROWS=(), Reader=Reader, acts=acts)
    return module


WIDTH = len(catalogue.VALUES["cpu_core"])
GOOD = Reading([("cpu_core", (0,), (1,) * WIDTH)], {})
garbage_of: Any = Reading
GARBAGE: tuple[Any, ...] = (
    None, 7, "rows", ([], {}), garbage_of(None, {}), garbage_of([], None), garbage_of([()], {}),
    garbage_of([("cpu_core", (), (1,) * WIDTH)], {}), garbage_of([("cpu_core", (0,), (1,))], {}),
    garbage_of([("nowhere", (0,), (1,) * WIDTH)], {}), garbage_of([("cpu_core", ([],), (1,) * WIDTH)], {}),
    garbage_of([("cpu_core", (0,), ("1",) * WIDTH)], {}),
    garbage_of([("cpu_core", (0,), (float("nan"),) * WIDTH)], {}),
    garbage_of([("cpu_core", (0,), (float("inf"),) * WIDTH)], {}),
    garbage_of([("cpu_core", (0,), (True,) * WIDTH)], {}), garbage_of([], {"cpu": 7}),
)  # fmt: skip


@pytest.fixture
def clock() -> list[float]:
    return [1000.0]


@pytest.fixture
def guard(clock: list[float]) -> Guard:
    return Guard("cpu", Host(), lambda: clock[0])


def test_an_absent_source_is_asked_again_each_minute(guard: Guard, clock: list[float]) -> None:
    guard._module = source_that([Absent("not here"), GOOD])
    assert guard.read() == []
    assert guard.missing == {"cpu": "not here"}
    clock[0] += 59
    assert guard.read() == []
    clock[0] += 2
    assert guard.read() == GOOD.rows
    assert guard.missing == {}


def test_a_failing_source_rests_longer_each_time(guard: Guard, clock: list[float]) -> None:
    failures = [ValueError(SECRET)] * 9
    guard._module = source_that([*failures, GOOD])
    asked = []
    for _ in range(1500):
        left = len(guard._module.acts)
        if guard.read():
            break
        if len(guard._module.acts) < left:
            asked.append(clock[0])
        clock[0] += 1
    rests = [b - a for a, b in itertools.pairwise(asked)]
    assert rests == [5, 10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_is_a_failure_and_goes_no_further(
    garbage: Any, guard: Guard, clock: list[float]
) -> None:
    guard._module = source_that([garbage, GOOD])
    assert guard.read() == []
    assert guard.missing["cpu"].startswith("failed: ")
    clock[0] += 6
    assert (guard.read(), guard.missing) == (GOOD.rows, {})


def test_what_an_exception_quotes_stays_on_the_node(guard: Guard) -> None:
    guard._module = source_that([ValueError(f"invalid literal: {SECRET}")])
    guard.read()
    reason = guard.missing["cpu"]
    assert reason.startswith("failed: ValueError in ")
    assert SECRET not in reason


def test_the_watchdog_may_bite_at_any_moment(guard: Guard) -> None:
    """Also while a reading returns: it costs that reading only, never the agent."""
    lines = itertools.count()
    for bite in range(60):
        guard._module = source_that([GOOD])
        guard._reader, guard._rest_until = None, 0.0
        lines = itertools.count()

        def trace(stack: Any, event: str, _: Any, at: int = bite, seen: Any = lines) -> Any:
            if stack.f_code.co_name == "interrupt":
                return None
            if event == "line" and next(seen) == at:
                guard.interrupt(float("inf"))
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            rows = guard.read()
        finally:
            sys.settrace(before)
        assert rows in ([], GOOD.rows)
        assert guard.since is None
    assert next(lines) < 60, "no line is left out"


def test_what_the_kernel_says_of_a_file_is_told() -> None:
    error = OSError(errno.EACCES, "x", "/proc/7/io")
    assert told(error) == "failed: PermissionError: Permission denied: /proc/7/io"


def test_reasons_are_bounded_and_one_line(guard: Guard) -> None:
    guard._module = source_that([Reading([], {"cpu.x": "a\n" * 500})])
    guard.read()
    assert len(guard.missing["cpu.x"]) <= 200
    assert "\n" not in guard.missing["cpu.x"]


def test_a_slow_source_is_named(guard: Guard, clock: list[float]) -> None:
    guard._module = source_that([GOOD])
    guard._clock = iter([0.0, 0.0, 0.3, 0.3]).__next__
    assert guard.read() == GOOD.rows
    assert guard.missing == {"cpu.time": "slow: over 250 ms a reading"}


def test_a_guarded_source_reads_a_host(tmp_path: Path) -> None:
    guard = Guard("memory", unpack("virtio", tmp_path))
    guard.prepare()
    assert guard.read()[0][:2] == ("node", ())
    guard.sample()
    guard.close()
