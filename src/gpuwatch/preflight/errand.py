"""A node's errand, from the viewer: one login, one request after another, gone with the connection."""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from gpuwatch.errors import GpuwatchError
from gpuwatch.model.text import sanitize
from gpuwatch.preflight.answers import Done, Ran, Texts, Which
from gpuwatch.transport.bootstrap import handshake, last_line, new_marker
from gpuwatch.transport.link import LinkError, Pipe
from gpuwatch.transport.node import Node
from gpuwatch.transport.payload import errand
from gpuwatch.transport.transports import Transports

__all__ = ["Errand", "ErrandError"]

BEAT_S = 10.0
"""Between two words to a node, which takes half a minute of silence for the end."""
GRACE_S = 10.0
"""Beyond the time that a request may take on the node."""
PLAIN_S = 20.0
"""For requests that only read."""
MAX_LINE = 4 << 20
MAX_REASON = 300
T = TypeVar("T")


class ErrandError(GpuwatchError):
    """A request that a node could not do, or did not answer in time."""


class _Envelope(msgspec.Struct, frozen=True):
    """What every answer has: to which request it is, and why there is no better one."""

    id: int
    error: str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_UNREADABLE = (msgspec.DecodeError, RecursionError)


class Errand:
    """One node's.

    Args:
        node: that it is on.
        transports: the way there.

    Attributes:
        node: that it is on.
        error: why it is not there (any more); None while it is.
    """

    def __init__(self, node: Node, transports: Transports) -> None:
        self.node = node
        self.error: GpuwatchError | None = None
        self._transports = transports
        self._pipe: Pipe | None = None
        self._number = 0
        self._waiting: dict[int, asyncio.Future[bytes | None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Log in and begin.

        Raises:
            GpuwatchError: why it could not, with the step that was reached where that is known.
        """
        marker = new_marker()
        try:
            self._pipe = pipe = await self._transports.open(self.node, marker, lambda _: None)
            message = errand().message({"marker": secrets.token_hex(16)})
            rest = await handshake(pipe, self.node, marker, message, lambda _: None)
            hello = asyncio.get_running_loop().create_future()
            self._waiting[0] = hello
            self._tasks = [
                asyncio.create_task(self._hear(pipe, rest)),
                asyncio.create_task(self._beat()),
            ]
            async with asyncio.timeout(PLAIN_S):
                await hello
        except TimeoutError:
            self.error = LinkError("python does not begin", "python", heals=True)
        except GpuwatchError as error:
            self.error = error
        if self.error is not None:
            raise self.error

    async def ask(
        self, operation: str, kind: type[T], within_s: float = PLAIN_S, **words: Any
    ) -> T:
        """Have the node do one thing, as `gpuwatch.errand.main.OPERATIONS` names it.

        Args:
            operation: its name.
            kind: of `gpuwatch.preflight.answers`, what it answers with.
            within_s: what it may take on the node.
            words: its arguments.

        Raises:
            ErrandError: it failed there, or there is no answer in time, or none of this kind.
        """
        line = await self._answer(operation, within_s, words)
        try:
            refused = _ENVELOPE.decode(line).error
            if refused is None:
                return msgspec.json.decode(line, type=kind)
        except _UNREADABLE:
            refused = "its answer is not to be understood"
        raise self._failed(f"{operation}: {sanitize(refused, MAX_REASON)}")

    async def run(self, argv: list[str], timeout_s: float) -> Ran:
        """Run a program to its end.

        Raises:
            ErrandError: it could not be started.
        """
        return await self.ask("run", Ran, timeout_s, argv=argv, timeout_s=timeout_s)

    async def lacks(self, *tools: str) -> tuple[str, ...]:
        """Return which of these programs the node has not."""
        found = (await self.ask("which", Which, names=list(tools))).found
        return tuple(tool for tool in tools if not found.get(tool))

    async def texts(self, *patterns: str) -> Mapping[str, str]:
        """Return small files by path: those that the patterns match and that can be read."""
        return (await self.ask("read", Texts, patterns=list(patterns))).texts

    async def close(self) -> None:
        """End it: with its stdin all that it started and wrote goes as well."""
        for task in self._tasks:
            task.cancel()
        if self._pipe is not None:
            await self._pipe.close()

    async def _answer(self, operation: str, within_s: float, words: Mapping[str, Any]) -> bytes:
        """Send a request; return the line that answers it."""
        if self._pipe is None or self.error is not None:
            raise self._failed(self.error.what if self.error else "not reached")
        self._number += 1
        number, answer = self._number, asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._pipe.write(msgspec.json.encode({"id": number, "op": operation, **words}) + b"\n")
            async with asyncio.timeout(within_s + GRACE_S):
                line: bytes | None = await answer
        except TimeoutError:
            raise self._failed(
                f"{operation} did not end within {within_s + GRACE_S:.0f} s"
            ) from None
        except OSError as error:
            raise self._failed(f"the connection is gone: {error}") from None
        finally:
            self._waiting.pop(number, None)
        if line is None:
            raise self._failed(self.error.what if self.error else "the connection ended")
        return line

    def _failed(self, why: str) -> ErrandError:
        return ErrandError(f"{self.node.name}: {why}")

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(ErrandError):
                await self.ask("beat", Done)

    async def _hear(self, pipe: Pipe, heard: bytes) -> None:
        """Hand answers to who waits for them, until there are no more."""
        while len(heard) <= MAX_LINE:
            *lines, heard = heard.split(b"\n")
            for line in lines:
                self._take(line)
            data = await pipe.read()
            if not data:
                failure = pipe.failure()
                said = failure.what if failure else last_line(pipe.errors)
                self._lose(said or "the connection ended")
                return
            heard += data
        self._lose("it sends what is no answer")

    def _take(self, line: bytes) -> None:
        """Take one answer; what is none is nobody's."""
        with suppress(*_UNREADABLE):
            self._settle(_ENVELOPE.decode(line).id, line)

    def _lose(self, why: str) -> None:
        """Take it that no answer will come any more."""
        self.error = ErrandError(sanitize(why, MAX_REASON))
        for number in list(self._waiting):
            self._settle(number, None)

    def _settle(self, number: int, line: bytes | None) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(line)
