"""How well the agent keeps its schedule: on an idle node, and beside two spinners on each core.

    python bench/jitter.py [SECONDS]

The agent is started as on a node, all sources on, ticking several times a second so that a
percentile means something. How late a tick began is told twice: by the agent itself, and by the
node's monotonic stamps, which lie on the schedule of the earliest of them. The worse one counts.
Exits with 1 where the 99th percentile of the idle node is over the budget.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

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
LATENESS = catalogue.INDEX["node"]["agent_lateness_us"]


def lateness_ms(seconds: float) -> list[float]:
    """Run the agent for so long; return how late each of its ticks began."""
    node = Node(name="bench", host="localhost", match="python")
    words = ["/usr/bin/python3", *FLAGS, "-c", PROGRAM, new_marker()]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    try:
        process.stdin.write(payload().message(agent_config(node, INTERVAL_S)))
        process.stdin.flush()
        threading.Thread(target=beat, args=(process,), daemon=True).start()
        frames = []
        decoder = Decoder()
        until = time.monotonic() + WARM_UP_S + seconds
        while time.monotonic() < until:
            data = os.read(process.stdout.fileno(), 1 << 16)
            frames += [found for found in decoder.feed(data) if isinstance(found, Frame)]
    finally:
        process.kill()
        process.communicate()
    return late(frames[round(WARM_UP_S / INTERVAL_S) :])


def late(frames: Sequence[Frame]) -> list[float]:
    """Return for each frame how late it is, by what it says and by its stamp, in milliseconds."""
    step_us = INTERVAL_S * 1e6
    node = catalogue.SCOPES.index("node")
    told = [frame.tables[node][0].values[LATENESS] or 0 for frame in frames]
    since = (frame.mono_us - frames[0].mono_us for frame in frames)
    offs = [(passed + step_us / 2) % step_us - step_us / 2 for passed in since]
    return [max(a, b - min(offs)) / 1e3 for a, b in zip(told, offs, strict=True)]


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


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that so many percent of them do not pass."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def main() -> int:
    """Print the table; return 1 where an idle node's ticks are late."""
    seconds = float(sys.argv[1]) if sys.argv[1:] else SECONDS
    print("| | ticks | p50 | p99 | max |\n|---|---:|---:|---:|---:|")
    over = False
    for name, each in (("idle", 0), (f"{SPINNERS} spinners a core", SPINNERS)):
        with spinning(each):
            found = lateness_ms(seconds)
        p50, p99 = percentile(found, 50), percentile(found, 99)
        print(
            f"| {name} | {len(found)} | {p50:.1f} ms | {p99:.1f} ms | {max(found):.1f} ms |",
            flush=True,
        )
        over = over or (each == 0 and p99 > BUDGET_MS)
    print(f"\nbudget: p99 of an idle node {BUDGET_MS:.0f} ms")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
