import pytest

from gpuwatch.feed.queue import QUEUED_SAMPLES, Queue
from gpuwatch.model.event import Fault, Link, Sample, Tick


async def drained(queue: Queue) -> list[tuple[type, dict[str, object]]]:
    queue.close()
    taken = []
    try:
        while True:
            taken.append(await queue.take())
    except StopAsyncIteration:
        return taken


async def test_of_samples_that_nobody_takes_the_oldest_go_and_that_is_said() -> None:
    queue = Queue()
    queue.put(Link, node="a", state="streaming", step="streaming")
    queue.put_sample(node="b", sequence=0)
    for sequence in range(5000):
        queue.put_sample(node="a", sequence=sequence)
    queue.put_tick()
    taken = await drained(queue)
    kept = [(f["node"], f["sequence"]) for kind, f in taken if kind is Sample]
    assert kept == [("b", 0), *(("a", n) for n in range(5000 - QUEUED_SAMPLES, 5000))]
    assert taken[0][0] is Link
    assert [(f["node"], f["text"]) for kind, f in taken if kind is Fault] == [
        ("a", f"the viewer was too slow: {5000 - QUEUED_SAMPLES} samples dropped")
    ]


async def test_memory_is_bounded_while_nobody_takes() -> None:
    queue = Queue()
    for sequence in range(10_000):
        queue.put_sample(node="a", sequence=sequence)
    assert len(queue._waiting) < 2000


async def test_ticks_are_not_piled_up() -> None:
    queue = Queue()
    for _ in range(3):
        queue.put_tick()
    assert (await queue.take())[0] is Tick
    queue.put_tick()
    kinds = [(kind, f.get("text")) for kind, f in await drained(queue)]
    assert kinds == [(Tick, None), (Fault, "the viewer was too slow: 2 ticks left out")]


async def test_events_come_in_the_order_and_with_the_times_at_which_they_happened() -> None:
    queue = Queue()
    for sequence in range(4):
        queue.put_sample(node="a", sequence=sequence)
        queue.put(Fault, node="a", source="wire", text=str(sequence))
    taken = await drained(queue)
    assert [f.get("sequence", f.get("text")) for _, f in taken] == [0, "0", 1, "1", 2, "2", 3, "3"]
    times = [f["arrived_us"] for _, f in taken]
    assert times == sorted(times)  # type: ignore[type-var]


async def test_a_closed_queue_ends() -> None:
    queue = Queue()
    queue.close()
    with pytest.raises(StopAsyncIteration):
        await queue.take()
