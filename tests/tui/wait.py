"""Waiting for what a screen shows."""

import asyncio
import time
from collections.abc import Callable

from textual.events import Key
from textual.keys import _character_to_key
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


async def press(pilot: Pilot[int], *keys: str) -> None:
    """Press keys, each handled before the next; what they lay out anew is painted after a pause.

    Sooner than Textual's own, which watches 40 ms a key whether the process is idle.
    """
    driver = pilot.app._driver
    assert driver is not None
    for key in keys:
        name = _character_to_key(key) if len(key) == 1 else key
        driver.send_message(Key(name, key if len(key) == 1 else None))
        await _handled()


async def _handled() -> None:
    """Let the loop run until nothing is left that could go on without a timer or a file."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)
    while loop._ready:  # type: ignore[attr-defined] # noqa: ASYNC110 - no event tells that
        await asyncio.sleep(0)


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
