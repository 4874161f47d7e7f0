"""A ProxyCommand: a program that carries a connection in its stdin and stdout (ssh_config(5)).

It is run here and not by asyncssh, which neither waits for it to end nor hears what it complains of.
"""

import asyncio
import contextlib
import os
import signal
import socket

__all__ = ["Proxy"]

GRACE_S = 0.5
CAPACITY = 2048


class Proxy:
    """A running ProxyCommand. Ours is the other end of its stdin and stdout."""

    def __init__(self, process: asyncio.subprocess.Process, ours: socket.socket) -> None:
        self.socket = ours
        self._process = process
        self._errors = b""
        self._hearing = asyncio.create_task(self._hear())

    @classmethod
    async def start(cls, command: str) -> "Proxy":
        """Start it with /bin/sh, whatever the user's shell is.

        Raises:
            OSError: it cannot be started.
        """
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", f"exec {command}"),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, ours)

    @property
    def complaint(self) -> str:
        """The last line that it wrote to stderr, of what is kept of it."""
        lines = self._errors.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    async def end(self) -> None:
        """Close our end, wait a moment for the program, then kill it and what it left in its group.

        Whoever gives up waiting only cuts that moment short.
        """
        self.socket.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await self._process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            # What has left for another session may hold its stderr open.
            await asyncio.wait({self._hearing}, timeout=GRACE_S)
            self._hearing.cancel()

    async def _hear(self) -> None:
        stderr = self._process.stderr
        while stderr and (data := await stderr.read(CAPACITY)):
            self._errors = (self._errors + data)[-CAPACITY:]
