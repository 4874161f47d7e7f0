"""A pipe to a program of this machine, in a session of its own: it leads to an agent, or is one."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from gpuwatch.transport.bootstrap import ended_with, last_line
from gpuwatch.transport.link import LinkError, Pipe

__all__ = ["Child", "Explain", "start", "told"]

GRACE_S = 1.0
"""How long a program may take to end by itself once its stdin is closed."""
LAST_WORDS_S = 2.0
"""How long output may still come after its end: what it left behind may hold its pipes open."""
UNREAD = 1 << 20
"""Bytes for a program that does not read its stdin: the payload is a tenth of it."""
NOT_ITS_OWN = ("python", "Unknown option: -I", "gpuwatch")

Explain = Callable[[int, str], LinkError | None]
"""Turns a program's exit status and stderr into words, None where the agent's end is meant."""


async def start(words: Sequence[str], environment: Mapping[str, str], explain: Explain) -> "Child":
    """Start a program.

    Args:
        words: its name, looked for on PATH, and its arguments; no shell reads them.
        environment: all of it.
        explain: its own failures.

    Raises:
        LinkError: it cannot be started.
    """
    loop = asyncio.get_running_loop()
    try:
        _, child = await loop.subprocess_exec(
            lambda: Child(explain), *words, env=environment, start_new_session=True
        )
    except OSError as error:
        raise LinkError(
            f"{words[0]} cannot be run: {error.strerror}",
            "resolve",
            "install it, or correct its path",
        ) from None
    return child


def told(program: str, status: int, errors: str) -> LinkError | None:
    """Say in general words how a program ended that should have led to a node.

    None if the interpreter there could not be run, or the agent complained: that has words of
    its own.
    """
    if any(words in errors for words in NOT_ITS_OWN):
        return None
    said = last_line(errors)
    return LinkError(
        f"{program} ended with {ended_with(status)}{': ' if said else ''}{said}",
        "resolve",
        heals=True,
    )


class Child(Pipe, asyncio.SubprocessProtocol):
    """A pipe to a child process; at the end its whole process group is gone."""

    transport: asyncio.SubprocessTransport

    def __init__(self, explain: Explain) -> None:
        super().__init__()
        self._explain = explain
        self._exited = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what the child wrote."""
        if fd == 1:
            self.take(data)
        else:
            self.take_errors(data)

    def process_exited(self) -> None:
        """Take the exit status, and end what the child left in its group."""
        self.status = self.transport.get_returncode()
        self._kill_group()
        self._exited.set()
        asyncio.get_running_loop().call_later(LAST_WORDS_S, self.end)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names it
        """Take note of the end: the child has exited and its pipes are empty."""
        self.end()

    def failure(self) -> LinkError | None:
        """Return what the program says of its own end."""
        return None if self.status is None else self._explain(self.status, self.errors)

    def write(self, data: bytes) -> None:
        """Send bytes to the child's stdin.

        Raises:
            OSError: the child is gone, or does not read.
        """
        stdin = cast("asyncio.WriteTransport", self.transport.get_pipe_transport(0))
        if stdin.is_closing() or stdin.get_write_buffer_size() > UNREAD:
            raise BrokenPipeError("the agent is gone")
        stdin.write(data)

    async def close(self) -> None:
        """Close the child's stdin, wait a moment for it, then kill its group."""
        stdin = cast("asyncio.WriteTransport | None", self.transport.get_pipe_transport(0))
        if stdin:
            stdin.close()
        try:
            async with asyncio.timeout(GRACE_S):
                await self._exited.wait()
        except TimeoutError:
            self._kill_group()
            await self._exited.wait()
        finally:
            if stdin and stdin.get_write_buffer_size():
                stdin.abort()  # what it did not read waits for a reader that will not come
            self.transport.close()

    def _kill_group(self) -> None:
        """End the child and all that it started, but for what has left for another session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.transport.get_pid(), signal.SIGKILL)

    def _flow(self, *, on: bool) -> None:
        stdout = cast("asyncio.ReadTransport", self.transport.get_pipe_transport(1))
        if on:
            stdout.resume_reading()
        else:
            stdout.pause_reading()
