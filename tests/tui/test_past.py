"""Where a recording is worth a look."""

from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import JobVerdict, State, Verdict
from gpuwatch.recording.reader import Chunk
from gpuwatch.recording.record import Shown
from gpuwatch.tui.past import Past
from gpuwatch.tui.recorded import first_wait, judged


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


async def test_a_demo_begins_at_the_first_wait() -> None:
    chunks = [chunk(0, "UNKNOWN", "COMPUTE"), chunk(2, "COMPUTE", "NETWORK", "NETWORK")]
    past = Past(1.0, None)
    await past.read(judged(chunks))
    assert past.changes == [1_000_000, 3_000_000]
    assert first_wait(chunks) == 3_000_000


def test_a_job_that_never_waited_has_no_first_wait() -> None:
    assert first_wait([chunk(0, "UNKNOWN", "COMPUTE", "IDLE")]) is None
