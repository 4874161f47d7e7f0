"""The levels of a good run, from its recording to the judge and into the new recording."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from gpuwatch.cli.baseline import levels_of
from gpuwatch.cli.watch import Watch
from gpuwatch.errors import RecordingError
from gpuwatch.job.types import Job, JobNode
from gpuwatch.recording import session
from gpuwatch.recording.store import Folder
from gpuwatch.verdict.judge import State

GOOD = Path(__file__).parents[2] / "recordings/net-loss"
"""Healthy for its first minute."""


def test_full_work_is_what_gpus_drew_over_a_slow_window() -> None:
    """The lab's simulated GPUs draw 520 W and more at full work, and 150 W in a collective."""
    (model, watts), *others = levels_of(GOOD).items()
    assert (model, others) == ("NVIDIA H100 80GB HBM3", [])
    assert 450 < watts < 650


def test_a_watch_begins_with_them_and_its_recording_keeps_them(tmp_path: Path) -> None:
    job = Job(name="new", nodes=(JobNode(name="n", host="127.0.0.1", port=9),), baseline=GOOD)

    async def begun() -> bytes:
        watch = await Watch.opened(job, tmp_path / "new")
        watch.record(tmp_path / "new", int(time.time() * 1e6), 0).close()
        return watch.judge.state()

    state = asyncio.run(begun())
    kept = session.load(Folder(tmp_path / "new")).baseline
    assert kept == levels_of(GOOD)
    assert msgspec.msgpack.decode(state, type=State).baseline == kept


def test_what_is_no_good_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="not a recording"):
        levels_of(tmp_path)
