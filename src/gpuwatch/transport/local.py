"""The same agent on this machine, as a child process in a session of its own."""

import asyncio
import contextlib
import os
import signal
import sys
from typing import cast

from gpuwatch.transport.bootstrap import FLAGS, PROGRAM
from gpuwatch.transport.link import LinkError, Pipe
from gpuwatch.transport.node import Node

__all__ = ["open_local"]

GRACE_S = 1.0
"""How long the agent may take to end by itself once its stdin is closed."""


async def open_local(node: Node, marker: str) -> Pipe:
    """Start an interpreter on this machine with the start program.

    Raises:
        LinkError: it cannot be started.
    """
    python = node.python or sys.executable
    environment = {**os.environ, "LC_ALL": "C", **node.env}
    loop = asyncio.get_running_loop()
    try:
        _, pipe = await loop.subprocess_exec(
            LocalPipe,
            *(python, *FLAGS, "-c", PROGRAM, marker),
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise LinkError(
            f"{python} cannot be run: {error.strerror}", "shell", "set python: for this node"
        ) from None
    return pipe


class LocalPipe(Pipe, asyncio.SubprocessProtocol):
    """A pipe to a child process."""

    transport: asyncio.SubprocessTransport

    def __init__(self) -> None:
        super().__init__()
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
        """Take the exit status; what is still in the pipes comes before `connection_lost`."""
        self.status = self.transport.get_returncode()
        self._exited.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names it
        """Take note of the end: the child has exited and its pipes are empty."""
        self.end()

    def write(self, data: bytes) -> None:
        """Send bytes to the child's stdin.

        Raises:
            OSError: the child is gone.
        """
        stdin = cast("asyncio.WriteTransport", self.transport.get_pipe_transport(0))
        if stdin.is_closing():
            raise BrokenPipeError("the agent is gone")
        stdin.write(data)

    async def close(self) -> None:
        """Close the child's stdin, wait a moment for it, then kill its session."""
        if stdin := self.transport.get_pipe_transport(0):
            stdin.close()
        try:
            await asyncio.wait_for(self._exited.wait(), GRACE_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.transport.get_pid(), signal.SIGKILL)
            await self._exited.wait()
        finally:
            self.transport.close()

    def _flow(self, *, on: bool) -> None:
        stdout = cast("asyncio.ReadTransport", self.transport.get_pipe_transport(1))
        if on:
            stdout.resume_reading()
        else:
            stdout.pause_reading()
