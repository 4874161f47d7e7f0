"""A running reader_loop.py, and how tests wait for what it prints."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SRC = str(Path(__file__).parents[2] / "src")
LOOP = str(Path(__file__).with_name("reader_loop.py"))


class Loop:
    """A running reader_loop.py."""

    def __init__(
        self, env: dict[str, str], interval_s: float = 0.1, deadline_s: float = 0.3
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, LOOP, str(interval_s), "10", str(deadline_s)],
            env={**env, "PYTHONPATH": SRC},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def until(self, holds: Callable[[dict[str, Any]], object], within_s: float = 20) -> Any:
        """Return the first reading for which something holds."""
        deadline = time.monotonic() + within_s
        assert self._process.stdout is not None
        line = ""
        while time.monotonic() < deadline:
            line = self._process.stdout.readline()
            assert line, "the reader ended"
            reading = json.loads(line)
            assert reading["took_s"] < 1, "the reader waited"
            if holds(reading):
                return reading
        pytest.fail(f"never came; last: {line}")

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def state(pid: int) -> str:
    """State letter of a process, "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def wait_for(holds: Callable[[], object], within_s: float = 10) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "never came"
        time.sleep(0.01)


def live(reading: dict[str, Any]) -> bool:
    """Tell whether GPUs answer, and what needs two samples has them."""
    return "gpu" in reading and "starting" not in str(reading["missing"])


@contextlib.contextmanager
def ended(loop: Loop) -> Iterator[Loop]:
    try:
        yield loop
    finally:
        loop.end()
