"""How well the agent keeps its schedule: alone, beside spinners on each core, with a source that hangs.

    python bench/jitter.py [SECONDS]

The agent is started as on a node, all sources on, ticking several times a second so that a
percentile means something. Two things are told of each tick: how late it began, by the agent's own
word or by its stamp against the schedule, whichever is worse; and how long after that its frame was
here. The source that hangs waits in open(2) of a pipe that nobody writes to, mounted over the file
that it reads: needs root. Exits with 1 where the idle node's 99th percentile is over the budget.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuwatch.agent import catalogue
from gpuwatch.feed.decode import Decoder, Frame
from gpuwatch.transport.bootstrap import FLAGS, PROGRAM, new_marker
from gpuwatch.transport.node import Node
from gpuwatch.transport.payload import agent_config, payload

SECONDS = 60.0
INTERVAL_S = 0.2
WARM_UP_S = 3.0
BUDGET_MS = 50.0
SPINNERS = 2
"""On each core."""
HANGS = "/proc/pressure/io"
"""The file of the source that hangs."""
LATENESS = catalogue.INDEX["node"]["agent_lateness_us"]
PERCENTILES = (50, 99, 100)


class Tick(NamedTuple):
    """One tick, in milliseconds: how late it began, and how long its frame took to be here."""

    late_ms: float
    took_ms: float


def ticks(seconds: float, before: Sequence[str] = ()) -> list[Tick]:
    """Run the agent for so long.

    Args:
        seconds: after warming up.
        before: words that the interpreter's are given to.
    """
    node = Node(name="bench", host="localhost", match="python")
    words = [*before, "/usr/bin/python3", *FLAGS, "-c", PROGRAM, new_marker()]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    try:
        process.stdin.write(payload().message(agent_config(node, INTERVAL_S)))
        process.stdin.flush()
        threading.Thread(target=beat, args=(process,), daemon=True).start()
        frames: list[tuple[Frame, float]] = []
        decoder = Decoder()
        until = time.monotonic() + WARM_UP_S + seconds
        while time.monotonic() < until:
            data = os.read(process.stdout.fileno(), 1 << 16)
            now_us = time.monotonic() * 1e6
            frames += [(found, now_us) for found in decoder.feed(data) if isinstance(found, Frame)]
    finally:
        process.kill()
        process.communicate()
    return measured(frames[round(WARM_UP_S / INTERVAL_S) :])


def measured(frames: Sequence[tuple[Frame, float]]) -> list[Tick]:
    """Return what each frame and the moment of its coming (us, the same clock) tell of its tick."""
    step_us = INTERVAL_S * 1e6
    node = catalogue.SCOPES.index("node")
    since = (frame.mono_us - frames[0][0].mono_us for frame, _ in frames)
    offs = [(passed + step_us / 2) % step_us - step_us / 2 for passed in since]
    found = []
    for (frame, came_us), off in zip(frames, offs, strict=True):
        told = frame.tables[node][0].values[LATENESS] or 0
        late = max(told, off - min(offs))
        found.append(Tick(late / 1e3, (came_us - frame.mono_us) / 1e3))
    return found


def beat(process: "subprocess.Popen[bytes]") -> None:
    """Let the agent know each second that somebody watches."""
    assert process.stdin
    with contextlib.suppress(OSError, ValueError):
        while True:
            process.stdin.write(b"\n")
            process.stdin.flush()
            time.sleep(1)


@contextlib.contextmanager
def spinning(each: int) -> Iterator[None]:
    """Let so many processes on each core want all of it."""
    count = each * (os.cpu_count() or 1)
    words = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(words) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextlib.contextmanager
def hanging() -> Iterator[list[str]]:
    """Give the words that start a program for which reading HANGS never returns."""
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / "pipe"
        os.mkfifo(pipe)
        script = f'mount --bind {pipe} {HANGS} && exec "$@"'
        yield ["unshare", "--mount", "sh", "-c", script, "sh"]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that so many percent of them do not pass."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def row(name: str, found: Sequence[Tick]) -> str:
    """Return a line of the table."""
    columns = [[tick.late_ms for tick in found], [tick.took_ms for tick in found]]
    cells = [f"{percentile(column, p):.1f} ms" for column in columns for p in PERCENTILES]
    return f"| {name} | {len(found)} | {' | '.join(cells)} |"


def main() -> int:
    """Print the table; return 1 where an idle node's ticks are late."""
    seconds = float(sys.argv[1]) if sys.argv[1:] else SECONDS
    print("| | ticks | late: p50 | p99 | max | frame after: p50 | p99 | max |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    idle = ticks(seconds)
    print(row("idle", idle), flush=True)
    with spinning(SPINNERS):
        print(row(f"{SPINNERS} spinners a core", ticks(seconds)), flush=True)
    if os.geteuid() == 0 and Path(HANGS).exists():
        with hanging() as before:
            print(row("a source hangs", ticks(seconds, before)), flush=True)
    print(f"\nbudget: an idle node's ticks at most {BUDGET_MS:.0f} ms late (p99)")
    return int(percentile([tick.late_ms for tick in idle], 99) > BUDGET_MS)


if __name__ == "__main__":
    sys.exit(main())
