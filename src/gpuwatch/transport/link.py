"""What all transports share: the steps on the way to a stream, a pipe to a program, its failure."""

import asyncio
from abc import abstractmethod
from contextlib import suppress
from typing import Literal

from gpuwatch.errors import GpuwatchError

__all__ = ["LinkError", "Pipe", "Step"]

Step = Literal["resolve", "connect", "host key", "login", "shell", "python", "hello", "streaming"]
"""In the order in which a link reaches them."""


class LinkError(GpuwatchError):
    """A link that did not come about, or broke.

    Args:
        reason: what is wrong, one line.
        step: the last step that was reached.
        hint: the one thing to do about it; may be empty.
        heals: whether it may be gone by itself when tried again.
    """

    def __init__(self, reason: str, step: Step, hint: str = "", *, heals: bool = False) -> None:
        super().__init__(reason, hint)
        self.step: Step = step
        self.heals = heals


class Pipe:
    """A program that runs on a node: its stdin, stdout, stderr and end.

    Transports feed it from their callbacks. Both directions are bounded: reading pauses when
    `CAPACITY` bytes wait, and of stderr the last `ERROR_CAPACITY` bytes are kept.
    """

    CAPACITY = 1 << 20
    SLICE = 1 << 14
    ERROR_CAPACITY = 4096

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._errors = bytearray()
        self._news = asyncio.Event()
        self._ended = False
        self._paused = False
        self.status: int | None = None
        """Exit status; negative: the signal that ended it; None: runs, or the link is gone."""

    async def read(self) -> bytes:
        """Return what has come since the last call, waiting for something; empty at the end.

        At most SLICE bytes, with the event loop between two slices: a node that sends without
        end holds up no other.
        """
        await asyncio.sleep(0)
        while not self._waiting and not self._ended:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._waiting[: self.SLICE])
        del self._waiting[: self.SLICE]
        if self._paused and not self._waiting:
            self._paused = False
            self._flow(on=True)
        return data

    @property
    def errors(self) -> str:
        """The end of what the program wrote to stderr."""
        return self._errors.decode("utf-8", "replace")

    def take(self, data: bytes) -> None:
        """Take bytes of stdout."""
        self._waiting += data
        self._news.set()
        if len(self._waiting) >= self.CAPACITY and not self._paused:
            self._paused = True
            self._flow(on=False)

    def take_errors(self, data: bytes) -> None:
        """Take bytes of stderr."""
        self._errors += data
        del self._errors[: -self.ERROR_CAPACITY]

    def end(self) -> None:
        """Take note that nothing more will come."""
        self._ended = True
        self._news.set()

    async def heard(self, within_s: float) -> None:
        """Wait until something has come or the end, but no longer than so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._news.wait()

    def failure(self) -> LinkError | None:
        """Return what the way to the node says of its own end; None: the program there ended."""
        return None

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send bytes to stdin.

        Raises:
            OSError: the link is gone.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the program and the link, whatever state they are in."""

    @abstractmethod
    def _flow(self, *, on: bool) -> None:
        """Resume, or pause, the delivery of stdout."""
