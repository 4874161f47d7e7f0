"""Replay: the same events, at a chosen pace, from a chosen place, with the recorded verdicts."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

import gpuwatch.recording
from gpuwatch.engine.run import run
from gpuwatch.feed.replay import RecordedJudge, Replay
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Link, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.recording import Limits, create
from gpuwatch.recording.reader import Recording
from recording.kit import facts, stream, verdict, wall

EVENTS: list[AnyEvent] = [
    Link(event_no=0, arrived_us=0, wall_us=wall(0), node="gpu001", state="streaming", step="hello"),
    *stream(1, 99),
]
"""Fifty seconds: a sample each odd half second, a tick each even one."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    directory: Path = tmp_path_factory.mktemp("replay") / "rec"
    recorder = create(directory, facts(), lambda: b"state", Limits(seal_us=10_000_000))
    for event in EVENTS:
        recorder.event(event)
        if isinstance(event, Tick):
            view = View(event.event_no, event.arrived_us, event.wall_us, 1_000_000, ())
            recorder.judged(event, view, verdict(event.event_no / 1000))
    recorder.close()
    return gpuwatch.recording.open(directory)


async def taken(events: AsyncGenerator[AnyEvent, None], count: int) -> list[AnyEvent]:
    return [await asyncio.wait_for(anext(events), 20) for _ in range(count)]


async def is_still(events: AsyncGenerator[AnyEvent, None]) -> asyncio.Task[AnyEvent]:
    """Check that nothing comes by itself; the event that comes later is the task's."""
    waiting = asyncio.ensure_future(anext(events))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    return waiting


async def test_as_fast_as_it_goes_is_all_and_then_ends(recording: Recording) -> None:
    replay = Replay(recording, speed=None)
    assert [event async for event in replay.play()] == EVENTS
    assert replay.at_end
    assert replay.span == (wall(0), wall(99))
    assert replay.position_us == wall(99)


async def test_speed_is_kept(recording: Recording) -> None:
    replay = Replay(recording, speed=20)
    events = replay.play()
    await taken(events, 1)
    began = time.monotonic()
    await taken(events, 20)
    assert 0.45 <= time.monotonic() - began < 5
    await events.aclose()


async def test_a_change_of_speed_counts_at_once(recording: Recording) -> None:
    replay = Replay(recording, speed=0.001)
    events = replay.play()
    await taken(events, 1)
    waiting = await is_still(events)
    replay.speed = 1000
    assert await asyncio.wait_for(waiting, 20) == EVENTS[1]
    await events.aclose()


async def test_paused_it_goes_by_ticks(recording: Recording) -> None:
    replay = Replay(recording, speed=1000)
    replay.paused = True
    events = replay.play()
    waiting = await is_still(events)
    replay.step()
    assert [await waiting, *await taken(events, 2)] == EVENTS[:3]
    waiting = await is_still(events)
    replay.step()
    replay.step()
    assert [await waiting, *await taken(events, 3)] == EVENTS[3:7]
    waiting = await is_still(events)
    replay.paused = False
    assert [await waiting, *await taken(events, 92)] == EVENTS[7:]
    await (await ended(events, replay))


async def ended(events: AsyncGenerator[AnyEvent, None], replay: Replay) -> asyncio.Task[None]:
    """Check that it stays at the end; close it."""

    async def rest() -> None:
        assert [event async for event in events] == []

    waiting = asyncio.ensure_future(rest())
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    assert replay.at_end
    replay.close()
    return waiting


async def test_at_the_end_it_stays_until_a_seek(recording: Recording) -> None:
    replay = Replay(recording, speed=1e6)
    events = replay.play()
    assert await taken(events, len(EVENTS)) == EVENTS
    waiting = await is_still(events)
    replay.seek_by(-1)
    with pytest.raises(StopAsyncIteration):
        await waiting
    assert replay.position_us == wall(99)
    again = replay.play()
    assert (await taken(again, 10))[-1] not in EVENTS[:30]
    assert not replay.at_end
    replay.close()
    assert [event async for event in again] == []


@pytest.mark.parametrize("target", [95, 85, 75])
async def test_a_seek_starts_a_window_before_with_what_stands_there(
    recording: Recording, target: int
) -> None:
    replay = Replay(recording, speed=1)
    first = replay.play()
    await taken(first, 1)
    replay.seek(wall(target))
    assert [event async for event in first] == []
    events = replay.play()
    began = time.monotonic()
    run_up = await taken(events, 1)
    assert run_up == [EVENTS[0]], "the link of every node stands at the start"
    assert await taken(events, 71) == EVENTS[target - 70 : target + 1], "half seconds"
    assert time.monotonic() - began < 5, "the run-up is not paced"
    await is_paced(events)
    await events.aclose()


async def is_paced(events: AsyncGenerator[AnyEvent, None]) -> None:
    began = time.monotonic()
    await taken(events, 1)
    assert time.monotonic() - began > 0.3


async def test_a_seek_before_the_beginning_starts_at_it(recording: Recording) -> None:
    replay = Replay(recording, speed=1)
    replay.seek(0)
    assert await taken(replay.play(), 1) == EVENTS[:1]


async def test_a_seek_during_the_run_up_takes_over(recording: Recording) -> None:
    replay = Replay(recording, speed=1)
    replay.seek(wall(95))
    events = replay.play()
    await taken(events, 3)
    assert replay.running_up
    replay.seek(wall(45))
    assert [event async for event in events] == []
    assert (await taken(replay.play(), 15))[-1].wall_us < wall(45)


async def test_a_seek_while_paused_shows_the_new_place(recording: Recording) -> None:
    replay = Replay(recording)
    replay.paused = True
    replay.seek(wall(60))
    events = replay.play()
    run_up = await taken(events, 60)
    assert run_up[-1] == EVENTS[59]
    waiting = await is_still(events)
    replay.step()
    assert await waiting == EVENTS[60]
    replay.close()


async def test_a_long_gap_is_skipped(tmp_path: Path) -> None:
    recorder = create(tmp_path / "rec", facts(), None)
    hour = [*stream(0, 4), *stream(7200, 4)]
    for event in hour:
        recorder.event(event)
    recorder.close()
    replay = Replay(gpuwatch.recording.open(tmp_path / "rec"), speed=10)
    assert await taken(replay.play(), 8) == hour


class Screen:
    """A sink that remembers."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.events: list[AnyEvent] = []
        self.seen: list[tuple[int, JobVerdict]] = []
        self.ages: list[int | None] = []
        self._then = then

    def event(self, event: AnyEvent) -> None:
        self.events.append(event)

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        self.seen.append((tick.event_no, verdict))
        self.ages.append(view.nodes[0].age_us)
        self._then()


async def test_the_engine_shows_what_was_shown(recording: Recording) -> None:
    replay = Replay(recording, speed=None)
    screen = Screen()
    cluster = Cluster(recording.session.nodes, recording.session.interval_s)
    await run(replay.play(), cluster, RecordedJudge(replay), [screen])
    assert screen.events == EVENTS
    assert screen.seen == [(no, verdict(no / 1000)) for no in range(2, 100, 2)]
    assert set(screen.ages) == {500_000}


async def test_a_tick_without_a_recorded_verdict_is_unknown(tmp_path: Path) -> None:
    recorder = create(tmp_path / "rec", facts(), None)
    for event in stream(0, 4):
        recorder.event(event)
    recorder.close()
    replay = Replay(gpuwatch.recording.open(tmp_path / "rec"), speed=None)
    screen = Screen()
    await run(replay.play(), Cluster(("gpu001",), 1.0), RecordedJudge(replay), [screen])
    assert {(v.job.state, v.job.text) for _, v in screen.seen} == {
        ("UNKNOWN", "no verdict was recorded at this tick")
    }
