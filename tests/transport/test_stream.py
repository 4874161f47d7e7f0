from collections.abc import Callable
from typing import Any

from gpuwatch.model.event import Hello, Sample, Tick
from sshd import NEEDS_SSHD, Sshd

pytestmark = [*NEEDS_SSHD]
Start = Callable[..., Sshd]


async def test_two_nodes_stream_side_by_side(sshd: Start, watching: Any) -> None:
    one, two = sshd(), sshd()
    async with watching(one.node("a"), two.node("b")) as watch:
        await watch.sample("a", sequence=2)
        await watch.sample("b", sequence=3)
        await watch.until(lambda e: isinstance(e, Tick))
    hellos = {e.node: e for e in watch.events if isinstance(e, Hello)}
    assert hellos["a"].agent_id != hellos["b"].agent_id
    assert hellos["a"].facts["uid"] == 0
    assert [e.event_no for e in watch.events] == list(range(len(watch.events)))
    samples = [e for e in watch.events if isinstance(e, Sample)]
    for node in "ab":
        numbers = [sample.sequence for sample in samples if sample.node == node]
        assert numbers == list(range(len(numbers)))
    sample = next(sample for sample in samples if sample.sequence == 2)
    assert sample.rows("node")[0].values[0] is not None
    assert abs(sample.offset_us or 10**9) <= (sample.offset_error_us or 0) + 1000
