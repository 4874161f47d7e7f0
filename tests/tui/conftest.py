"""A screen on a scripted job, in one time zone."""

import time
from collections.abc import Callable, Iterator

import pytest
from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]

from gpuwatch.tui import Session, Watch
from tui.scenarios import Scenario
from tui.scripted import Feed

# The plugin sets an older syrupy's name of this; browsers and reviews know pictures by their suffix.
SVGImageExtension.file_extension = "svg"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """UTC, and a terminal of 256 colours: Textual keeps styles as it first sent them."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        patch.setenv("TERM", "xterm-256color")
        for name in ("COLORTERM", "NO_COLOR", "TEXTUAL_COLOR_SYSTEM"):
            patch.delenv(name, raising=False)
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def screen() -> Callable[..., Watch]:
    """Return the screen of a scenario; `hold` stops the feed after a second."""

    def make(scenario: Scenario, theme: str | None = "dark", hold: float | None = None) -> Watch:
        feed = Feed(scenario.events())
        if hold is not None:
            feed.hold_after(hold)
        session = Session(
            scenario.title, scenario.nodes, 1.0, aiter(feed), scenario.judge, theme=theme
        )
        return Watch(session)

    return make
