"""One task a node: connect, start the agent, keep the stream alive, try again when it may heal."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal, NamedTuple, Protocol

from gpuwatch.errors import GpuwatchError
from gpuwatch.model.text import sanitize
from gpuwatch.transport.bootstrap import agent_error, ended_with, handshake, new_marker
from gpuwatch.transport.link import LinkError, Pipe, Step
from gpuwatch.transport.node import Node

__all__ = ["Heard", "Listener", "Open", "State", "supervise"]

HELLO_S = 20.0
"""From the payload to the first frame of the agent."""
LEAST_PATIENCE_S = 5.0
PATIENCE_INTERVALS = 5
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
DENIED_PAUSE_S = 300.0
"""fail2ban locks out who fails five times in ten minutes."""
STEADY_S = 60.0
"""A stream that lasted so long is no part of what was lost before it."""
MAX_REASON = 400
ALLOWED = 1 << 16
"""Bytes that a node may send an interval, or a second: some 16 times what one with 8 GPUs does."""
SAVED = 1 << 20
"""Bytes that it may have saved up: the names of thousands of entities come at once."""
FRAME_COSTS = 1 << 12
"""Bytes that a frame counts beside its own: small ones take the time that their number does."""
FLOOD_HINT = "look at what its rc files start in the background, and who else has this login"

State = Literal["connecting", "streaming", "lost", "refused", "ended"]
Open = Callable[[Node, str, Callable[[Step], None]], Awaitable[Pipe]]
"""Opens a pipe to the start command on a node, given its marker; tells the steps."""


class Heard(NamedTuple):
    """What bytes of the stream turned out to be.

    Attributes:
        step: that whole frames among them show, None if none is.
        frames: how many those were.
    """

    step: Step | None
    frames: int


class Listener(Protocol):
    """Hears what becomes of one node's link. Must not block and must not raise."""

    def opened(self) -> None:
        """A new stream of bytes begins."""

    def link(
        self, state: State, step: Step, reason: str | None = None, hint: str | None = None
    ) -> None:
        """The link changed; fields as in `gpuwatch.model.event.Link`."""

    def received(self, data: bytes) -> Heard:
        """Take bytes of the stream; return what they are."""

    def beating(self, number: int) -> int | None:
        """Heartbeat `number` is sent now; return the newest frame's number, None before the first."""


async def supervise(
    node: Node,
    open_pipe: Open,
    message: bytes,
    listener: Listener,
    interval_s: float,
    knock: asyncio.Event,
) -> None:
    """Keep one node streaming until cancelled.

    What does not heal by itself is tried again only when somebody knocks. But what breaks a link
    that has streamed before always is: a node that restarts may refuse logins or names for a while.

    Args:
        node: to watch.
        open_pipe: the node's transport.
        message: the payload.
        listener: hears of it all.
        interval_s: of the agent's frames.
        knock: set to have it try again now.
    """
    loop = asyncio.get_running_loop()
    lost_at: float | None = None
    streamed = False
    reason: tuple[str | None, str | None] = None, None
    while True:
        link = _Link(node, listener, interval_s, reason)
        error = await link.run(open_pipe, message)
        streamed = streamed or link.streaming_since is not None
        reason = sanitize(error.what, MAX_REASON), sanitize(error.hint, MAX_REASON) or None
        knock.clear()
        if not (error.heals or streamed):
            listener.link("refused", error.step, *reason)
            await knock.wait()
            continue
        steady = link.streaming_since is not None and (
            loop.time() - link.streaming_since >= STEADY_S
        )
        if steady or lost_at is None:
            lost_at = loop.time()
        listener.link("lost", error.step, *reason)
        # Our own logins remember what was denied, with which keys; a program that logs in does not.
        denied = not error.heals and node.transport != "asyncssh"
        with suppress(TimeoutError):
            async with asyncio.timeout(_pause_s(loop.time() - lost_at, denied=denied)):
                await knock.wait()


def _pause_s(lost_s: float, *, denied: bool = False) -> float:
    """Return how long to wait before the next attempt.

    At most as long as the link is lost already: what lasted a moment is over a moment later, and
    attempts become rare as it lasts. Full jitter, so that a thousand nodes do not come back at once.
    A login that is denied is tried seldom: hosts lock out who fails often.
    """
    longest = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, lost_s))
    if denied:
        return DENIED_PAUSE_S * random.uniform(0.6, 1)  # noqa: S311 - no secret
    return random.uniform(0, longest)  # noqa: S311 - no secret


class _Allowance:
    """What a node may still send: one that floods takes the time of all others to read it."""

    def __init__(self, interval_s: float) -> None:
        self._rate = ALLOWED * max(1.0, 1.0 / interval_s)
        self._left = float(SAVED)
        self._at = asyncio.get_running_loop().time()

    def spend(self, count: int) -> bool:
        """Take note of so many bytes, and tell whether they were still allowed."""
        now = asyncio.get_running_loop().time()
        self._left = min(float(SAVED), self._left + (now - self._at) * self._rate) - count
        self._at = now
        return self._left >= 0


class _Link:
    """One attempt, from connecting to the end of its stream."""

    def __init__(
        self,
        node: Node,
        listener: Listener,
        interval_s: float,
        reason: tuple[str | None, str | None],
    ) -> None:
        self.node = node
        self.listener = listener
        self.interval_s = interval_s
        self.step: Step = "resolve"
        self.streaming_since: float | None = None
        self._reason = reason

    async def run(self, open_pipe: Open, message: bytes) -> LinkError:
        """Connect and stream; return what ended it."""
        self.listener.link("connecting", "resolve", *self._reason)
        try:
            return await self._attempt(open_pipe, message)
        except LinkError as error:
            return error
        except OSError as error:
            return LinkError(f"the link broke: {error}", self.step, heals=True)
        except GpuwatchError as error:
            return LinkError(error.what, self.step, error.hint)
        except Exception as error:  # one node's fault is never another's
            task = asyncio.current_task()
            if task and task.cancelling():  # it was raised in cleaning up, and hid that
                raise asyncio.CancelledError from error
            return LinkError(f"internal error: {error!r}", self.step, "report it", heals=True)

    async def _attempt(self, open_pipe: Open, message: bytes) -> LinkError:
        marker = new_marker()
        pipe = await open_pipe(self.node, marker, self._reached)
        try:
            rest = await handshake(pipe, self.node, marker, message, self._reached)
            self.listener.opened()
            return await self._stream(pipe, rest)
        finally:
            await pipe.close()

    def _reached(self, step: Step) -> None:
        self.step = step
        self.listener.link("connecting", step, *self._reason)

    async def _stream(self, pipe: Pipe, data: bytes) -> LinkError:
        """Pass on the stream until it ends or falls silent; beat as soon as the agent greets."""
        loop = asyncio.get_running_loop()
        patience_s = max(LEAST_PATIENCE_S, PATIENCE_INTERVALS * self.interval_s)
        allowance = _Allowance(self.interval_s)
        heart: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(HELLO_S) as limit:
                while True:
                    heard = self.listener.received(data)
                    if not allowance.spend(len(data) + FRAME_COSTS * heard.frames):
                        return LinkError(
                            "it sends without end: cut off", self.step, FLOOD_HINT, heals=True
                        )
                    if heard.step is not None:
                        heart = heart or self._start_heart(pipe)
                        self._show(heard.step)
                        limit.reschedule(loop.time() + patience_s)
                    data = await pipe.read()
                    if not data:
                        return self._ended(pipe)
        except TimeoutError:
            if self.streaming_since is None:
                return LinkError(
                    f"no word from the agent in {HELLO_S:.0f} s",
                    self.step,
                    "the node, or the way to it, may be overloaded",
                    heals=True,
                )
            return LinkError(f"no word for {patience_s:.0f} s", "streaming", heals=True)
        finally:
            if heart:
                heart.cancel()
                await asyncio.wait({heart})  # awaited itself, it would hide that we are cancelled
                if not heart.cancelled():
                    heart.result()

    def _show(self, step: Step) -> None:
        if step == "streaming":
            if self.streaming_since is None:
                self.streaming_since = asyncio.get_running_loop().time()
                self.step = step
                self.listener.link("streaming", step)
        elif self.streaming_since is None:
            self._reached(step)

    def _ended(self, pipe: Pipe) -> LinkError:
        if self.step == "python":
            return agent_error(pipe)
        if failure := pipe.failure():
            return LinkError(failure.what, self.step, failure.hint, heals=True)
        if pipe.status is None:
            return LinkError("the connection closed", self.step, heals=True)
        last = pipe.errors.strip().splitlines()[-1:]
        said = f": {sanitize(last[0])}" if last else ""
        return LinkError(
            f"the agent ended with {ended_with(pipe.status)}{said}", self.step, heals=True
        )

    def _start_heart(self, pipe: Pipe) -> "asyncio.Task[None]":
        """Beat beside the reading; an error there ends the stream, not some silence later."""
        heart = asyncio.create_task(self._beat(pipe))
        heart.add_done_callback(
            lambda task: pipe.end() if not task.cancelled() and task.exception() else None
        )
        return heart

    async def _beat(self, pipe: Pipe) -> None:
        """Send heartbeats until the pipe breaks; reading notices that, too."""
        every_s = min(self.interval_s, self.node.silence_s / 3)
        number = 0
        with suppress(OSError):
            while True:
                number += 1
                seen = self.listener.beating(number)
                words = f"beat {number}" if seen is None else f"beat {number} {seen}"
                pipe.write(f"{words}\n".encode())
                await asyncio.sleep(every_s)
