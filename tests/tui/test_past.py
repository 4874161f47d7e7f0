"""Where a recording is worth a look."""

from pathlib import Path

import pytest

import gpuwatch.recording
from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import JobVerdict, State, Verdict
from gpuwatch.recording import create
from gpuwatch.recording.reader import Chunk
from gpuwatch.recording.record import Shown
from gpuwatch.tui.past import Past
from gpuwatch.tui.recorded import first_wait, judged
from recording.kit import facts, tick

ROOT = Path(__file__).parents[2]


def chunk(first: int, *states: State) -> Chunk:
    """A chunk of ticks a second apart, each with the job in one state."""
    ticks = tuple(
        Tick(
            event_no=first + i,
            arrived_us=(first + i) * 1_000_000,
            wall_us=(first + i) * 1_000_000,
        )
        for i in range(len(states))
    )
    shown = tuple(
        Shown(
            event_no=tick.event_no,
            wall_us=tick.wall_us,
            verdict=JobVerdict(job=Verdict(scope="job", state=state)),
        )
        for tick, state in zip(ticks, states, strict=True)
    )
    return Chunk(ticks, shown, ())


async def test_changes_are_read_part_by_part() -> None:
    chunks = [chunk(0, "UNKNOWN", "COMPUTE"), chunk(2, "COMPUTE", "NETWORK", "NETWORK")]
    past = Past(1.0, None)
    await past.read(judged(chunks))
    assert past.changes == [1_000_000, 3_000_000]


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
