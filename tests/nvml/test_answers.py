"""What the parent makes of the bytes that its child writes, whole, split or garbled."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent.child import unkillable
from gpuwatch.agent.host import Host
from gpuwatch.agent.nvml.child import LENGTH
from gpuwatch.agent.nvml.locator import RefusedError
from gpuwatch.agent.nvml.parent import Probe
from gpuwatch.agent.nvml.poller import plausible
from gpuwatch.agent.sources.nvml import Reader

messages = st.lists(
    st.lists(st.integers() | st.text(max_size=20) | st.none(), max_size=5), max_size=5
)


def framed(message: list[Any]) -> bytes:
    body = json.dumps(message).encode("ascii")
    return LENGTH.pack(len(body)) + body


@given(messages, st.lists(st.integers(1, 40), min_size=1))
def test_messages_split_anywhere(sent: list[list[Any]], sizes: list[int]) -> None:
    reader = Reader(Host())
    data = b"".join(map(framed, sent))
    got = []
    place = turn = 0
    while place < len(data):
        size = sizes[turn % len(sizes)]
        reader.probe._buffer += data[place : place + size]
        got.extend(reader.probe.messages())
        place, turn = place + size, turn + 1
    assert got == sent
    assert reader.probe._buffer == b""


@given(st.binary())
def test_anything_else_is_refused_as_a_value(data: bytes) -> None:
    reader = Reader(Host())
    reader.probe._buffer = data
    try:
        reader.probe.messages()
    except ValueError:
        return
    assert len(reader.probe._buffer) < 1 << 20


words = st.sampled_from(["count", "util", "full", "processes", "xids", "end", ""])
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
bodies = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


@given(st.lists(st.tuples(words, bodies, bodies, bodies), max_size=4))
def test_any_messages_give_a_reading(sent: list[tuple[Any, ...]]) -> None:
    reader = Reader(Host())
    ours, reader.probe._pipe = reader.probe._pipe, os.open(os.devnull, os.O_RDONLY)
    reader.probe._buffer = b"".join(framed(list(message)) for message in sent)
    reader.sample()
    reading = reader._reading()
    assert all(isinstance(reason, str) for reason in reading.missing.values())
    assert ours == -1


@pytest.mark.parametrize("data", [b"\xff" * 64, framed([]), framed(["util", 3]), LENGTH.pack(1) + b"{"])  # fmt: skip
def test_a_child_that_garbles_is_killed_and_told(data: bytes) -> None:
    child = subprocess.Popen(["sleep", "60"])
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    reader = Reader(Host())
    reader.probe.pid, reader.probe._pipe = child.pid, ours
    os.write(theirs, data)
    reader.sample()
    assert (reader.probe.pid, reader.probe.dying) == (0, child.pid)
    assert reader.read().missing == {"nvml": "the NVML probe garbled its answer"}
    child.wait(10)  # returns at once where the reader has buried it already
    assert not Path(f"/proc/{child.pid}").exists()
    assert reader.read().missing == {"nvml": "the NVML probe garbled its answer"}
    assert reader.probe.dying == 0
    os.close(theirs)
    reader.close()


def test_a_stuck_child_is_one_with_a_kill_pending_in_uninterruptible_sleep() -> None:
    status = b"Name:\tx\nState:\t%s\nSigPnd:\t%s\nShdPnd:\t%s\n"
    none, kill, term = b"0" * 16, b"0000000000000100", b"0000000000004000"
    assert unkillable(status % (b"D (disk sleep)", none, kill))
    assert unkillable(status % (b"D (disk sleep)", kill, none))
    assert not unkillable(status % (b"S (sleeping)", none, kill))
    assert not unkillable(status % (b"D (disk sleep)", term, none))
    assert not unkillable(b"")


class Memory:
    """As NVML tells it."""

    def __init__(self, total: int, used: int, free: int, reserved: int = 0) -> None:
        self.total, self.used, self.free, self.reserved = total, used, free, reserved


def test_memory_must_add_up() -> None:
    plausible(Memory(100, 40, 60))
    plausible(Memory(100, 40, 55, reserved=5))
    with pytest.raises(RefusedError):
        plausible(Memory(128, 7, 8))


def test_each_silence_makes_the_next_deadline_longer_up_to_a_minute() -> None:
    """E25: a driver that hangs under load is not started again and again."""
    child = subprocess.Popen(["sleep", "60"])
    probe = Probe(Host(), [], lambda message, now: None)
    deadlines = []
    for _ in range(6):
        ours, theirs = os.pipe()
        os.close(theirs)
        probe.pid, probe._pipe, probe.full_at = child.pid, ours, probe._began + 1
        deadlines.append(next(s for s in range(1, 100) if silent(probe, s)))
        probe.dying = 0
    assert deadlines == [11, 21, 41, 61, 61, 61]
    child.wait(10)


def silent(probe: Probe, seconds: int) -> bool:
    """Whether a child is killed after so long a silence."""
    probe._next_start = float("inf")
    probe.care(probe._answered + seconds)
    return not probe.pid
