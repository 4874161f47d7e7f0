"""One node's task: whatever is raised in it stays with that node, and is tried again."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any
from unittest.mock import Mock

import pytest

from gpuwatch.model.event import Link, Sample
from gpuwatch.transport.link import Pipe
from gpuwatch.transport.node import Node
from gpuwatch.transport.supervise import FIRST_PAUSE_S, LONGEST_PAUSE_S, Heard, _Link, _pause_s

STEPS = (
    "transport.transports.Transports.open", "transport.supervise.handshake", "feed.live._Ear.opened",
    "feed.live._Ear.received", "feed.live._Ear.beating", "transport.supervise._Link._show",
)  # fmt: skip


def name_of(word: Any) -> str | None:
    """Return the node's name, given the node, its listener or its link."""
    node = getattr(word, "node", getattr(word, "_node", word))
    name = getattr(node, "name", node)
    return name if isinstance(name, str) else None


def planted(step: str, raised: Counter[str]) -> Callable[..., Any]:
    """Return a step that raises twice, for the node that is called after it alone."""
    original = resolve_name(f"gpuwatch.{step}")

    def call(*words: Any) -> Any:
        if step in map(name_of, words) and raised[step] < 2:
            raised[step] += 1
            raise ZeroDivisionError(step)
        return original(*words)

    return call


async def test_an_error_in_one_nodes_task_never_touches_another(
    watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node beside them streams on; those that failed stream once nothing is raised any more."""
    monkeypatch.setattr("gpuwatch.transport.supervise.FIRST_PAUSE_S", 0.05)
    raised: Counter[str] = Counter()
    missing = {*STEPS, "well"}
    async with watching(*(Node(name, "h", transport="local") for name in missing)) as watch:
        for step in STEPS:
            monkeypatch.setattr(f"gpuwatch.{step}", planted(step, raised))
        while missing:
            sample = await watch.until(lambda e: isinstance(e, Sample) and e.node in missing)
            if sample.node == "well" or raised[sample.node] == 2:
                missing.discard(sample.node)
        await watch.sample("well", sequence=5)
    lost = {(e.node, e.reason) for e in watch.events if isinstance(e, Link) and e.state == "lost"}
    assert {(step, f"internal error: ZeroDivisionError('{step}')") for step in STEPS} <= lost
    assert "well" not in {node for node, _ in lost}


class Ending(Pipe):
    """Has ended, and calls what it is given when it is asked why."""

    def __init__(self, asked: Callable[[], Any]) -> None:
        super().__init__()
        self._asked = asked
        self.end()

    def failure(self) -> None:
        self._asked()

    def write(self, data: bytes) -> None:
        """Take everything."""

    async def close(self) -> None:
        """Have nothing to close."""

    def _flow(self, *, on: bool) -> None:
        """Have nothing to pause."""


async def test_a_node_that_is_let_go_as_its_stream_ends_is_not_tried_again() -> None:
    """Else a screen that is closed as its job ends would wait for it for ever."""
    pipe = Ending(lambda: asyncio.get_running_loop().call_soon(task.cancel))
    hears = Mock()
    hears.received.return_value, hears.beating.return_value = Heard("streaming", 1), None
    link = _Link(Node("n", "h"), hears, 1.0, (None, None))
    task = asyncio.create_task(link._stream(pipe, b"a frame"))
    await asyncio.wait({task})
    assert task.cancelled()


class Stuck(Ending):
    """Cannot be closed."""

    async def close(self) -> None:
        raise ZeroDivisionError("close")


async def test_an_error_in_closing_is_the_nodes_own_and_heals() -> None:
    async def opened(*_: Any) -> Pipe:
        return Stuck(Mock())

    error = await _Link(Node("n", "h"), Mock(), 1.0, (None, None)).run(opened, b"")
    assert error.what == "internal error: ZeroDivisionError('close')"
    assert error.heals


async def test_an_error_in_closing_does_not_hide_that_the_node_is_let_go() -> None:
    """Else a viewer that ends would wait for ever for a node that it tries anew."""
    reached = asyncio.Event()

    class Silent(Stuck):
        async def read(self) -> bytes:
            reached.set()
            await asyncio.Event().wait()
            return b""

    async def opened(*_: Any) -> Pipe:
        return Silent(Mock())

    task = asyncio.create_task(_Link(Node("n", "h"), Mock(), 1.0, (None, None)).run(opened, b""))
    await reached.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


def test_a_denied_login_of_a_program_is_tried_seldom() -> None:
    """At most thrice in ten minutes: fail2ban locks out at five."""
    pauses = [_pause_s(lost_s, denied=True) for lost_s in (0.0, 30.0, 10_000.0) for _ in range(100)]
    assert min(pauses) >= 180
    assert max(pauses) <= 300


def test_a_pause_is_at_most_as_long_as_the_link_is_lost() -> None:
    """S14: back soon from what lasts a moment, and no storm where it lasts; never in step."""
    for lost_s, longest in ((0.0, FIRST_PAUSE_S), (8.0, 8.0), (10_000.0, LONGEST_PAUSE_S)):
        pauses = [_pause_s(lost_s) for _ in range(300)]
        assert 0 <= min(pauses) < longest / 4
        assert longest * 3 / 4 < max(pauses) <= longest
