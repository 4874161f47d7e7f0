"""Following a recording that is being written: what is there, then what comes, until it ends."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import gpuwatch.recording
from gpuwatch.engine.run import run
from gpuwatch.feed.follow import SILENT, Follow
from gpuwatch.feed.replay import RecordedJudge
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.recording import Limits, Recorder, create, writer
from recording.kit import facts, stream, verdict

POLL_S = 0.01


def feed(recorder: Recorder, first: int, count: int) -> list[AnyEvent]:
    given = stream(first, count)
    for event in given:
        recorder.event(event)
        if isinstance(event, Tick):
            recorder.judged(event, None, verdict(event.event_no / 1000))  # type: ignore[arg-type]
    return given


def begun(place: Path) -> Recorder:
    return create(place, facts(), limits=Limits(seal_us=5_000_000, merge_us=(20_000_000,)))


@pytest.fixture(autouse=True)
def durable_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SYNC_S", 0.01)


async def until(met: Callable[[], bool]) -> None:
    """Wait until something is so; the test's own timeout is the deadline."""
    while not met():  # noqa: ASYNC110 - a recorder is no asyncio
        await asyncio.sleep(0.005)


async def written(recorder: Recorder, event_no: int) -> None:
    await until(lambda: recorder.status.acknowledged_event_no >= event_no)


async def test_it_tells_what_is_there_and_then_what_comes(tmp_path: Path) -> None:
    """Through seals and merges; each event once and in order; it ends when the recorder does."""
    recorder = begun(tmp_path / "rec")
    given = feed(recorder, 0, 50)
    await written(recorder, 49)
    follow = Follow(gpuwatch.recording.open(tmp_path / "rec"), POLL_S)
    got: list[AnyEvent] = []

    async def listen() -> None:
        async for event in follow:
            if not got or event.event_no > got[-1].event_no:
                got.append(event)

    listening = asyncio.create_task(listen())
    for first in range(50, 150, 10):
        given += feed(recorder, first, 10)
        await written(recorder, first + 9)
        await until(lambda last=given[-1]: got[-1:] == [last])  # type: ignore[misc]
        assert not follow.ended
    await asyncio.to_thread(recorder.close)
    await listening
    assert got == given
    assert (follow.ended, follow.words()) == (True, "the recording has ended")


class Kept:
    """A sink that keeps verdicts."""

    def __init__(self) -> None:
        self.told: dict[int, JobVerdict] = {}

    def event(self, event: AnyEvent) -> None:
        """Take nothing of it."""

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        """Keep it."""
        self.told.setdefault(tick.event_no, verdict)


async def test_verdicts_are_those_that_were_shown(tmp_path: Path) -> None:
    recorder = begun(tmp_path / "rec")
    feed(recorder, 0, 40)
    await written(recorder, 39)
    follow = Follow(gpuwatch.recording.open(tmp_path / "rec"), POLL_S)
    kept = Kept()
    cluster = Cluster(("gpu001",), 1.0)
    watching = asyncio.create_task(run(aiter(follow), cluster, RecordedJudge(follow), [kept]))
    await until(lambda: len(kept.told) >= 20)
    await asyncio.to_thread(recorder.close)
    await watching
    assert kept.told.items() >= {no: verdict(no / 1000) for no in range(0, 40, 2)}.items()


async def test_where_nothing_comes_the_time_goes_on_and_what_is_shown_grows_old(
    tmp_path: Path,
) -> None:
    recorder = begun(tmp_path / "rec")
    given = feed(recorder, 0, 10)
    await written(recorder, 9)
    events = aiter(Follow(gpuwatch.recording.open(tmp_path / "rec"), POLL_S))
    got = [await anext(events) for _ in range(len(given) + 3)]
    late = got[len(given) :]
    assert all(isinstance(tick, Tick) for tick in late)
    passed = [(tick.arrived_us - given[-1].arrived_us) / 1e6 for tick in late]
    assert passed == [round(POLL_S * (SILENT + n), 6) for n in range(3)]
    given += feed(recorder, 10, 2)
    while (event := await anext(events)).event_no < 11:
        pass
    assert event == given[-1]
    await asyncio.to_thread(recorder.close)
