"""What the screen costs the viewer, how soon it answers a key, and what it sends to the terminal.

    python bench/screen.py [SECONDS]

The screen runs as a process of its own in a terminal of its own. Beside it stand simulated agents
of 8 GPUs each: their frames come over a pipe, spread over each second, and are decoded, fused,
recorded and shown as those of real ones. Not measured here are SSH, and the judge: verdicts are
given, and bench/judge.py measures what they cost. Beside it, another monitor of one node with 8
GPUs, where it is installed (see Makefile: bench-screen).
"""

import argparse
import contextlib
import fcntl
import math
import os
import pty
import random
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import BinaryIO, NamedTuple, Self

import msgspec
import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from judge import COMPUTES, GREETING, READS, SECOND, Wired, node
from nvml import sim
from viewer import GPUS, HEADER

ROOT = Path(__file__).parents[1]
VIEWER = Path(__file__).parent / "viewer.py"
NVITOP = ROOT / "build/bench-tools/bin/nvitop"
SECONDS = 30.0
WARM_UP_S = 40.0
"""The cluster keeps half a minute of samples: memory grows until then."""
KINDS = 8
"""Agents that differ; the rest send what one of these sends."""
MOVES = 0.05
"""By how much of themselves readings move from second to second."""
PATIENCE_S = 30.0
OVERVIEW = b" of a core"
PAGES = ((b"w", b"culprits"), (b"$", b"GPU hours"), (b"?", b"Freeze the screen"))
"""Keys, and text that only that page has; the same key again goes back to the overview."""
QUIET_S = 0.05
ROUNDS = 17
CORE, MEMORY, KEY_MS, SLICE_MS, AT_REST = 0.25, 400e6, 100.0, 20.0, 4096.0


class Case(NamedTuple):
    """One row: how many nodes on how large a screen, and whether budgets are for it."""

    name: str
    nodes: int
    size: tuple[int, int]
    moves: float = MOVES
    judged: bool = False


class Cost(NamedTuple):
    """What was measured: share of a core, bytes, milliseconds, bytes a second."""

    core: float
    pss: float
    sent: float = math.nan
    keys_ms: tuple[float, ...] = ()
    slice_ms: float = math.nan


CASES = (
    Case("128 nodes, a map", 128, (120, 40), judged=True),
    Case("128 nodes, at rest", 128, (120, 40), 0.0, judged=True),
    Case("128 nodes, large", 128, (200, 60)),
    Case("64 nodes, a map", 64, (120, 40)),
    Case("60 nodes, a line each", 60, (200, 70)),
    Case("8 nodes, panes", 8, (120, 40)),
    Case("1,000 nodes, a map", 1000, (200, 60)),
)


class Agents:
    """Writes what so many agents send, spread over each second, until it is told to end."""

    def __init__(self, nodes: int, moves: float, pipe: int) -> None:
        self._moves = moves
        self._pipe = pipe
        self._kinds = [Wired(node(COMPUTES)) for _ in range(min(KINDS, nodes) - 1)]
        self._kinds.append(Wired(node(READS)))
        self._nodes = nodes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _write(self) -> None:
        chance = random.Random(1)
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._pipe, "wb") as out:
            for place in range(self._nodes):
                self._send(out, place, GREETING)
            tick = 0
            while not self._ended.is_set():
                tick += 1
                moved = [1 + chance.uniform(-self._moves, self._moves) for _ in self._kinds]
                sent = [
                    kind.tick(tick * SECOND, by)
                    for kind, by in zip(self._kinds, moved, strict=True)
                ]
                begin = time.monotonic()
                for place in range(self._nodes):
                    due = begin + place / self._nodes * 0.9 - time.monotonic()
                    if due > 0:
                        time.sleep(due)
                    kind = -1 if place == self._nodes - 1 else place % max(1, len(sent) - 1)
                    self._send(out, place, sent[kind])
                self._ended.wait(max(0.0, begin + 1 - time.monotonic()))

    def _send(self, out: BinaryIO, place: int, data: bytes) -> None:
        out.write(HEADER.pack(place, len(data)) + data)
        out.flush()


class Screen:
    """A program in a terminal; what it writes is counted, and the last of it kept."""

    def __init__(
        self, words: Sequence[str], size: tuple[int, int], env: dict[str, str], pipe: int | None
    ) -> None:
        self.sent = 0
        self._seen = b""
        self._viewer, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.process = subprocess.Popen(
            words,
            env={**os.environ, **env, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            pass_fds=() if pipe is None else (pipe,),
        )
        os.close(terminal)

    def watch(self, seconds: float) -> None:
        """Take what it writes for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._take(left)

    def answer_ms(self, key: bytes, text: bytes) -> float:
        """Press a key, and return how long it takes until the terminal has this text."""
        self._drain()
        self._seen = b""
        began = time.monotonic()
        os.write(self._viewer, key)
        while text not in self._seen:
            if time.monotonic() > began + PATIENCE_S:
                raise TimeoutError(f"no {text!r} after {key!r}; got {self._seen[-500:]!r}")
            self._take(0.1)
        return (time.monotonic() - began) * 1e3

    def _drain(self) -> None:
        """Take what an earlier key still draws."""
        while self._take(QUIET_S):
            pass

    def _take(self, wait_s: float) -> bool:
        """Take what it wrote; tell whether there was anything."""
        if not select.select([self._viewer], [], [], wait_s)[0]:
            return False
        data = os.read(self._viewer, 1 << 16)
        self.sent += len(data)
        self._seen = (self._seen + data)[-100_000:]
        return True

    def end(self, number: signal.Signals) -> None:
        """Let it end, and take what it still writes."""
        self.process.send_signal(number)
        until = time.monotonic() + PATIENCE_S
        with contextlib.suppress(OSError):
            while self.process.poll() is None and time.monotonic() < until:
                self._take(0.1)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._viewer)


@contextlib.contextmanager
def viewer(case: Case, folder: Path, *, shown: bool) -> Iterator[Screen]:
    """Let a viewer look at so many agents."""
    reads, writes = os.pipe()
    words = [sys.executable, str(VIEWER), str(case.nodes), str(reads), str(folder)]
    screen = Screen(words if shown else [*words, "--no-screen"], case.size, {}, reads)
    os.close(reads)
    with Agents(case.nodes, case.moves, writes):
        try:
            screen.watch(WARM_UP_S)
            yield screen
        finally:
            screen.end(signal.SIGTERM)


def cost_of(screen: Screen, seconds: float) -> Cost:
    """Measure a program and all that it starts."""
    top = psutil.Process(screen.process.pid)
    began, sent, before = time.monotonic(), screen.sent, spent(top)
    screen.watch(seconds)
    taken = time.monotonic() - began
    pss = sum(one.memory_full_info().pss for one in (top, *top.children(recursive=True)))
    return Cost((spent(top) - before) / taken, pss, (screen.sent - sent) / taken)


def spent(top: psutil.Process) -> float:
    """Return the CPU seconds of a process, of its children and of those that it waited for."""
    every = [one.cpu_times() for one in (top, *top.children(recursive=True))]
    own = top.cpu_times()
    return sum(t.user + t.system for t in every) + own.children_user + own.children_system


def measured(case: Case, seconds: float) -> tuple[Cost, Cost]:
    """Measure a case with its screen, and the same without a screen."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with viewer(case, folder, shown=True) as screen:
            screen.process.send_signal(signal.SIGUSR1)
            cost = cost_of(screen, seconds)
            keys = [
                screen.answer_ms(key, text)
                for _ in range(ROUNDS)
                for key, page in PAGES
                for text in (page, OVERVIEW)
            ]
        slices = msgspec.json.decode((folder / "measured.json").read_bytes(), type=list[float])
    with tempfile.TemporaryDirectory() as name, viewer(case, Path(name), shown=False) as screen:
        alone = cost_of(screen, seconds)
    return cost._replace(keys_ms=tuple(sorted(keys)), slice_ms=max(slices)), alone


def nvitop(seconds: float) -> Cost:
    """Measure nvitop over one node of 8 simulated GPUs, asking each second."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sim.build(folder)
        gpus = sim.Sim(folder / "state", GPUS)
        for gpu in range(GPUS):
            gpus.phase(gpu, "compute")
        env = {**gpus.env, "LD_LIBRARY_PATH": name}
        words = [str(NVITOP), "--monitor", "full", "--interval", "1"]
        screen = Screen(words, (120, 60), env, None)
        try:
            screen.watch(10)
            return cost_of(screen, seconds)
        finally:
            screen.end(signal.SIGTERM)


def row(case: Case, cost: Cost, alone: Cost) -> str:
    """Return a line of the table."""
    p99 = cost.keys_ms[math.ceil(0.99 * len(cost.keys_ms)) - 1]
    return (
        f"| {case.name}, {case.size[0]} x {case.size[1]} | {cost.core:.1%} | {alone.core:.1%}"
        f" | {(cost.core - alone.core) * 1e3:.0f} | {cost.pss / 1e6:.0f} | {median(cost.keys_ms):.0f}"
        f" | {p99:.0f} | {cost.slice_ms:.1f} | {cost.sent / 1e3:.1f} |"
    )


def over(case: Case, cost: Cost) -> list[str]:
    """Name the budgets that a case passes."""
    if not case.judged:
        return []
    p99 = cost.keys_ms[math.ceil(0.99 * len(cost.keys_ms)) - 1]
    limits = (
        ("CPU", cost.core, CORE), ("memory", cost.pss, MEMORY), ("keys", p99, KEY_MS),
        ("slice", cost.slice_ms, SLICE_MS),
        ("terminal", 0.0 if case.moves else cost.sent, AT_REST),
    )  # fmt: skip
    return [name for name, value, limit in limits if value > limit]


def main() -> int:
    """Print the table; return 1 where a budget is passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("seconds", nargs="?", type=float, default=SECONDS)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    given = parser.parse_args()
    passed: list[str] = []
    print(
        "| | CPU of one core | without a screen | screen, ms/s | PSS, MB | key to paint, ms: median"
        " | p99 | longest slice, ms | to the terminal, KB/s |\n|---|" + "---:|" * 8
    )
    for case in (c for c in CASES if c.name.startswith(given.only)):
        cost, alone = measured(case, given.seconds)
        print(row(case, cost, alone), flush=True)
        passed += [f"{case.name}: {what}" for what in over(case, cost)]
    if NVITOP.exists():
        cost = nvitop(given.seconds)
        print(
            f"| nvitop, one node of 8 GPUs, 120 x 60 | {cost.core:.1%} | | | {cost.pss / 1e6:.0f}"
            f" | | | | {cost.sent / 1e3:.1f} |"
        )
    print(f"over budget: {', '.join(passed) or 'nothing'}")
    return int(bool(passed))


if __name__ == "__main__":
    sys.exit(main())
