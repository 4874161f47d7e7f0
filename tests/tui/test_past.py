"""Where a recording is worth a look."""

from itertools import pairwise
from pathlib import Path

import pytest

import gpuwatch.recording
from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import JobVerdict, State, Verdict
from gpuwatch.recording import create
from gpuwatch.report.timeline import Said, said_of
from gpuwatch.tui.history import JOB
from gpuwatch.tui.past import Past
from gpuwatch.tui.recorded import first_wait, told
from recording.kit import facts, tick

SECOND = 1_000_000
ROOT = Path(__file__).parents[2]


def portion(first: int, *states: State) -> list[Said]:
    """What ticks a second apart said, each of the job in one state."""
    verdicts = [JobVerdict(job=Verdict(scope="job", state=state)) for state in states]
    times = range(first * SECOND, (first + len(states)) * SECOND, SECOND)
    ticks = [Tick(event_no=us // SECOND, arrived_us=us, wall_us=us) for us in times]
    return list(said_of(zip(ticks, verdicts, strict=True)))


async def test_changes_are_read_part_by_part() -> None:
    portions = [portion(0, "UNKNOWN", "COMPUTE"), portion(2, "COMPUTE", "NETWORK", "NETWORK")]
    past = Past(1.0, None)
    await past.read(iter(portions))
    assert past.changes == [1_000_000, 3_000_000]


async def test_lanes_read_through_are_those_of_whole_verdicts() -> None:
    recording = gpuwatch.recording.open(ROOT / "recordings/net-loss")
    past, played = Past(1.0, None), Past(1.0, None)
    await past.read(told(recording))
    shown = dict(recording.shown())
    ticks = [e for e in recording.events() if isinstance(e, Tick)]
    for before, now in pairwise(ticks):
        played.play(before.arrived_us, now, shown[now.event_no])
    end_us = ticks[-1].arrived_us
    for key in (JOB, ("gpu01",), ("gpu02",)):
        assert past.history.letters(key, end_us, 25) == played.history.letters(key, end_us, 25)
    assert past.changes == played.changes


def test_a_replay_begins_at_the_first_wait() -> None:
    recording = gpuwatch.recording.open(ROOT / "recordings/net-loss")
    found = first_wait(recording)
    assert found is not None
    waits = [
        next(e.wall_us for e in c.events if e.event_no == s.event_no)
        for c in recording.chunks()
        for s in c.shown
        if s.verdict.job.state == "NETWORK" and s.verdict.job.suspected_us is not None
    ]
    assert found == waits[0]


@pytest.mark.parametrize("state", ["COMPUTE", "IDLE"])
def test_a_job_that_never_waited_has_no_first_wait(tmp_path: Path, state: State) -> None:
    recorder = create(tmp_path / "rec", facts())
    job = Verdict(scope="job", state=state, suspected_us=1)
    recorder.event(tick(0))
    recorder.judged(tick(0), None, JobVerdict(job=job))  # type: ignore[arg-type]
    recorder.close()
    assert first_wait(gpuwatch.recording.open(tmp_path / "rec")) is None
