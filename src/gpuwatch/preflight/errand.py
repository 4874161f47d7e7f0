"""A node's errand, from the viewer: one login, one request after another, gone with the connection."""

import asyncio
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gpuwatch.errors import GpuwatchError
from gpuwatch.model.text import sanitize
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


class ErrandError(GpuwatchError):
    """A request that a node could not do, or did not answer in time."""


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
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Log in and begin.

        Raises:
            LinkError: the step at which it failed, and why.
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
            raise self.error from None
        except GpuwatchError as error:
            self.error = error
            raise

    async def ask(self, operation: str, within_s: float = PLAIN_S, **words: Any) -> dict[str, Any]:
        """Have the node do one thing, as `gpuwatch.errand.main.OPERATIONS` names it.

        Args:
            operation: its name.
            within_s: what it may take on the node.
            words: its arguments.

        Raises:
            ErrandError: it failed there, or there is no answer in time.
        """
        if self._pipe is None or self.error is not None:
            raise ErrandError(
                f"{self.node.name}: {self.error.what if self.error else 'not reached'}"
            )
        self._number += 1
        number, answer = self._number, asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._pipe.write(json.dumps({"id": number, "op": operation, **words}).encode() + b"\n")
            async with asyncio.timeout(within_s + GRACE_S):
                found: dict[str, Any] = await answer
        except TimeoutError:
            raise ErrandError(
                f"{self.node.name}: {operation} did not end within {within_s + GRACE_S:.0f} s"
            ) from None
        except OSError as error:
            raise ErrandError(f"{self.node.name}: the connection is gone: {error}") from None
        finally:
            self._waiting.pop(number, None)
        if "error" in found:
            raise ErrandError(
                f"{self.node.name}: {operation}: {sanitize(str(found['error']), 300)}"
            )
        return found

    async def run(self, argv: list[str], timeout_s: float) -> "Ran":
        """Run a program to its end.

        Raises:
            ErrandError: it could not be started.
        """
        return Ran(await self.ask("run", timeout_s, argv=argv, timeout_s=timeout_s))

    async def lacks(self, *tools: str) -> tuple[str, ...]:
        """Return which of these programs the node has not."""
        found = (await self.ask("which", names=list(tools)))["found"]
        return tuple(tool for tool in tools if not found.get(tool))

    async def texts(self, *patterns: str) -> Mapping[str, str]:
        """Return small files by path: those that the patterns match and that can be read."""
        found = (await self.ask("read", patterns=list(patterns)))["texts"]
        return {str(path): str(text) for path, text in found.items()}

    async def close(self) -> None:
        """End it: with its stdin all that it started and wrote goes as well."""
        for task in self._tasks:
            task.cancel()
        if self._pipe is not None:
            await self._pipe.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(ErrandError):
                await self.ask("beat")

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
        with suppress(ValueError):
            found = json.loads(line)
            waiting = self._waiting.get(found.get("id", -1)) if isinstance(found, dict) else None
            if waiting is not None and not waiting.done():
                waiting.set_result(found)

    def _lose(self, why: str) -> None:
        """Take it that no answer will come any more."""
        self.error = ErrandError(sanitize(why, 300))
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result({"error": why})


class Ran:
    """What came of a program.

    Attributes:
        status: its exit status; None: it was killed as its time was up.
        out: the end of its stdout.
        err: the last line of its stderr, safe to show.
        seconds: that it took.
    """

    def __init__(self, found: Mapping[str, Any]) -> None:
        status = found.get("status")
        self.status = status if isinstance(status, int) else None
        self.out = str(found.get("out", ""))
        lines = str(found.get("err", "")).strip().splitlines()
        self.err = sanitize(lines[-1], 200) if lines else ""
        self.seconds = float(found.get("seconds", 0.0))

    @property
    def ended_well(self) -> bool:
        """Whether it came to its end without complaint."""
        return self.status == 0

    def why(self, name: str) -> str:
        """Say how it failed."""
        if self.status is None:
            return f"{name} did not end in time"
        return f"{name} ended with status {self.status}" + (f": {self.err}" if self.err else "")
