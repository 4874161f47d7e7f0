"""Waiting for what a screen shows."""

import time
from collections.abc import Callable

from textual.pilot import Pilot

from gpuwatch.tui import Watch
from gpuwatch.tui.screens.page import Page
from gpuwatch.tui.widgets.canvas import Canvas
from tui.scripted import START_US

DEADLINE_S = 20.0


async def until(pilot: Pilot[int], met: Callable[[], bool]) -> None:
    """Wait until something is so, and painted."""
    deadline = time.monotonic() + DEADLINE_S
    while not met():
        assert time.monotonic() < deadline, text(pilot.app)
        await pilot.pause(0.005)
    await pilot.pause()


async def until_second(pilot: Pilot[int], second: float) -> None:
    """Wait until the tick of a second is shown."""
    app = watch(pilot.app)

    def reached() -> bool:
        return app.scene is not None and app.scene.view.now_us >= START_US + second * 1e6

    await until(pilot, reached)


def watch(app: object) -> Watch:
    """Return the app as what it is."""
    assert isinstance(app, Watch)
    return app


def text(app: object) -> str:
    """Return what the page shows, as lines of text."""
    page = watch(app).screen
    assert isinstance(page, Page)
    lines: list[str] = []
    for canvas in page.query(Canvas):
        if canvas.display:
            lines += [canvas.render_line(y).text.rstrip() for y in range(canvas.size.height)]
    return "\n".join(lines)
