"""A terminal that keeps what it is sent: what leaves the driver, byte for byte."""

from collections.abc import Awaitable, Callable
from typing import Any

from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from gpuwatch.tui import Watch

__all__ = ["taped"]


class Tape(HeadlessDriver):
    """Draws for real, into a string."""

    written = ""

    @property
    def is_headless(self) -> bool:
        """Say that somebody looks on."""
        return False

    def write(self, data: str) -> None:
        """Keep what the app sends."""
        self.written += data


async def taped(
    app: Watch, size: tuple[int, int], act: Callable[[Pilot[int]], Awaitable[None]]
) -> str:
    """Run a screen while something is done to it, and return what its terminal was sent."""

    async def done(pilot: Pilot[Any]) -> None:
        await act(pilot)
        app.exit()

    app.driver_class = Tape
    await app.run_async(size=size, auto_pilot=done)
    assert isinstance(app._driver, Tape)
    return app._driver.written
