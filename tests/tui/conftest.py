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
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        patch.delenv("NO_COLOR", raising=False)
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
