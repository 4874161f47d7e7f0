"""One node's task: whatever is raised in it stays with that node, and is tried again."""

from pkgutil import resolve_name
from typing import Any

import pytest

from gpuwatch.model.event import Link
from gpuwatch.transport.node import Node
from gpuwatch.transport.supervise import FIRST_PAUSE_S, LONGEST_PAUSE_S, _pause_s

STEPS = (
    "transport.transports.Transports.open", "transport.supervise.handshake", "feed.live._Ear.opened",
    "feed.live._Ear.received", "feed.live._Ear.beating", "transport.supervise._Link._show",
)  # fmt: skip


def is_bad(word: Any) -> bool:
    """Tell whether an argument is the bad node, its listener or its link."""
    node = getattr(word, "node", getattr(word, "_node", word))
    return "bad" in {node, getattr(node, "name", None)}


@pytest.mark.parametrize("step", STEPS)
async def test_an_error_in_one_nodes_task_never_touches_another(
    watching: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The node beside it streams on; the one that failed streams once nothing is raised any more."""
    monkeypatch.setattr("gpuwatch.transport.supervise.FIRST_PAUSE_S", 0.05)
    raised = 0
    original = resolve_name(f"gpuwatch.{step}")

    def planted(*words: Any) -> Any:
        nonlocal raised
        if any(map(is_bad, words)) and raised < 2:
            raised += 1
            raise ZeroDivisionError("planted")
        return original(*words)

    bad, well = (Node(name, "h", transport="local") for name in ("bad", "well"))
    async with watching(bad, well) as watch:
        monkeypatch.setattr(f"gpuwatch.{step}", planted)
        lost = await watch.link("bad", "lost")
        await watch.sample("bad", sequence=2)
        await watch.sample("well", sequence=2)
    assert (lost.reason, lost.hint) == (
        "internal error: ZeroDivisionError('planted')", "report it",
    )  # fmt: skip
    assert raised == 2
    assert not any(
        isinstance(e, Link) and (e.node, e.state) == ("well", "lost") for e in watch.events
    )


def test_a_pause_is_at_most_as_long_as_the_link_is_lost() -> None:
    """S14: back soon from what lasts a moment, and no storm where it lasts; never in step."""
    for lost_s, longest in ((0.0, FIRST_PAUSE_S), (8.0, 8.0), (10_000.0, LONGEST_PAUSE_S)):
        pauses = [_pause_s(lost_s) for _ in range(300)]
        assert 0 <= min(pauses) < longest / 4
        assert longest * 3 / 4 < max(pauses) <= longest
