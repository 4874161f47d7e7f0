"""What the screen looks like: a few pictures, compared as SVG."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import textual
from textual.pilot import Pilot

from gpuwatch.tui import Watch
from tui import scenarios
from tui.wait import until_second

ROOT = Path(__file__).parents[2]

PICTURES = {
    "healthy": (scenarios.healthy(), (120, 40), "dark", ()),
    "storage": (scenarios.storage(), (120, 40), "dark", ()),
    "small": (scenarios.storage(), (80, 24), "dark", ()),
    "large": (scenarios.storage(), (200, 60), "dark", ()),
    "many": (scenarios.storage(16), (120, 40), "dark", ()),
    "unreachable": (scenarios.unreachable(), (120, 34), "dark", ()),
    "light": (scenarios.storage(), (120, 40), "light", ()),
    "mono": (scenarios.lost(), (100, 30), "mono", ()),
    "node": (scenarios.storage(), (120, 50), "dark", ("enter",)),
    "why": (scenarios.storage(), (120, 40), "dark", ("w",)),
    "help": (scenarios.storage(), (120, 50), "dark", ("question_mark",)),
}


@pytest.fixture(autouse=True)
def same_textual() -> None:
    """Refuse to compare or to update with another Textual: it draws other bytes."""
    pinned = re.search(
        r"^textual==([\d.]+)", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE
    )
    assert pinned is not None
    if textual.__version__ != pinned[1]:
        pytest.fail(f"snapshots are of textual {pinned[1]}, this is {textual.__version__}")


@pytest.mark.parametrize("name", PICTURES)
def test_picture(
    name: str, snap_compare: Callable[..., bool], screen: Callable[..., Watch]
) -> None:
    scenario, size, theme, keys = PICTURES[name]

    async def ready(pilot: Pilot[int]) -> None:
        await until_second(pilot, scenario.seconds)
        await pilot.press(*keys)

    assert snap_compare(screen(scenario, theme), terminal_size=size, run_before=ready)
