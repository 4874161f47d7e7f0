"""Kills recorders at random moments, some while they merge, and reads what they left.

    python tests/recording/killed.py [ROUNDS]

Each is fed thousands of times as fast as a live feed, and killed by SIGKILL, which nothing can catch.
Whatever it had acknowledged has to be there, in order and once; the recording opens; nothing of it
is missing but a last record that was being written. Rounds are seeded: a number is always the same.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from gpuwatch.recording import open as open_recording
from recording.kit import stream

CHILD = """
import sys, time
sys.path[:0] = sys.argv[2:]
from gpuwatch.recording import Limits, create
from recording.kit import facts, stream, verdict
from gpuwatch.model.event import Tick
from pathlib import Path
import gpuwatch.recording.writer as writer
writer.SYNC_S = 0.02
limits = Limits(seal_us=5_000_000, merge_us=(20_000_000, 80_000_000))
recorder = create(Path(sys.argv[1]), facts(), lambda: b"state", limits)
acknowledged, no = -1, 0
while True:
    for event in stream(no, 4):
        recorder.event(event)
        if isinstance(event, Tick):
            recorder.judged(event, None, verdict())
    no += 4
    if recorder.status.acknowledged_event_no > acknowledged:
        acknowledged = recorder.status.acknowledged_event_no
        print(acknowledged, recorder.status.segments, flush=True)
    time.sleep(0.001)
"""
ROUNDS = 50
PATIENCE_S = 20.0
PATHS = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])]


class Left(NamedTuple):
    """What a killed recorder left."""

    acknowledged: int
    events: int
    merging: bool


def killed(place: Path, seed: int) -> Left:
    """Start a recorder, kill it, and check what is there; of three rounds two are killed merging.

    Raises:
        AssertionError: something that was acknowledged is not there.
    """
    rng = random.Random(seed)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(place), *PATHS], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        lines.append(line)
        if len(lines) >= rng.randint(1, 5) and int(line.split()[1]) >= seed % 5:
            break
    merging = seed % 3 > 0 and _await_merge(place)
    time.sleep(rng.random() * (0.004 if merging else 0.02))
    child.send_signal(signal.SIGKILL)
    lines += child.stdout.readlines()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    whole = [line for line in lines if line.endswith("\n")]
    return _left(place, int(whole[-1].split()[0]), merging=merging)


def _await_merge(place: Path) -> bool:
    """Wait until a merged segment is being written; tell whether one was."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if any((place / "seg").glob(".*-*.tmp")):
            return True
    return False


def _left(place: Path, acknowledged: int, *, merging: bool) -> Left:
    recording = open_recording(place)
    events = list(recording.events())
    assert [event.event_no for event in events] == list(range(len(events)))
    assert len(events) > acknowledged
    assert events == stream(0, len(events))
    assert all("cut short" in gap.reason for gap in recording.gaps)
    return Left(acknowledged, len(events), merging)


def main() -> int:
    """Kill so many, and tell what was left."""
    rounds = int(sys.argv[1]) if sys.argv[1:] else ROUNDS
    left = []
    for seed in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            left.append(killed(Path(folder) / "rec", seed))
    merging = sum(each.merging for each in left)
    acknowledged = sum(each.acknowledged + 1 for each in left)
    print(
        f"{rounds} recorders killed, {merging} of them while merging: of {acknowledged:,} acknowledged"
        f" events none is missing, {sum(e.events for e in left):,} are there; every recording opens"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
