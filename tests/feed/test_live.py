import asyncio
import time

import pytest

from gpuwatch.feed.live import Live
from gpuwatch.feed.queue import wall_us
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Sample, Tick
from gpuwatch.transport.node import Node

HERE = Node("here", "localhost", transport="local")


async def taken(live: Live, count: int) -> list[AnyEvent]:
    async with asyncio.timeout(20):
        return [await anext(live) for _ in range(count)]


async def test_ticks_keep_an_absolute_schedule_when_the_loop_is_held_up() -> None:
    live = Live([], 0.05)
    (first,) = await taken(live, 1)
    time.sleep(0.125)  # noqa: ASYNC251 - two and a half intervals: a relative schedule would shift
    later = [event for event in await taken(live, 12) if isinstance(event, Tick)][-6:]
    await live.close()
    phases_us = [(tick.arrived_us - first.arrived_us + 25_000) % 50_000 - 25_000 for tick in later]
    assert min(map(abs, phases_us)) < 10_000


async def test_s41_a_machine_that_slept_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its nodes are all stale at once then, and that is nobody's fault."""
    live = Live([], 0.05)
    await taken(live, 2)
    real = wall_us
    monkeypatch.setattr("gpuwatch.feed.live.wall_us", lambda: real() + 1_800_000_000)
    events = await taken(live, 12)
    await live.close()
    told = [e.text for e in events if isinstance(e, Fault)]
    assert told == ["this machine slept, or its clock was set: a step of +1800 s"]


async def test_the_story_of_a_link_is_told_in_order_and_ends() -> None:
    live = Live([HERE], 0.1)
    events: list[AnyEvent] = []
    async with asyncio.timeout(20):
        async for event in live:
            events.append(event)
            if isinstance(event, Sample) and event.sequence == 3:
                await live.close()
    told = [(e.state, e.step) for e in events if isinstance(e, Link)]
    assert told == [
        ("connecting", "resolve"), ("connecting", "shell"), ("connecting", "python"),
        ("connecting", "hello"), ("streaming", "streaming"), ("ended", "streaming"),
    ]  # fmt: skip
    hello = next(e for e in events if isinstance(e, Hello))
    samples = [e for e in events if isinstance(e, Sample)]
    assert {s.agent_id for s in samples} == {hello.agent_id}
    assert [s.sequence for s in samples[:4]] == [0, 1, 2, 3]
    assert [e.event_no for e in events] == list(range(len(events)))
    assert sorted(e.arrived_us for e in events) == [e.arrived_us for e in events]


async def test_a_closed_feed_stays_closed() -> None:
    live = Live([HERE])
    await live.close()
    await live.close()
    events = [event async for event in live]
    assert [(e.node, e.state) for e in events if isinstance(e, Link)] == [("here", "ended")]


async def test_an_error_of_the_feed_itself_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ModuleNotFoundError("no source of pynvml")

    monkeypatch.setattr("gpuwatch.feed.live.payload", broken)
    live = Live([HERE])
    with pytest.raises(ModuleNotFoundError, match="no source of pynvml"):
        await taken(live, 1)
    await live.close()
