"""A ProxyCommand: a program that carries a connection in its stdin and stdout (ssh_config(5)).

It is run here and not by asyncssh, which does not wait for it to end.
"""

import asyncio
import contextlib
import os
import signal
import socket

__all__ = ["Proxy"]

GRACE_S = 0.5


class Proxy:
    """A running ProxyCommand. Ours is the other end of its stdin and stdout."""

    def __init__(self, process: asyncio.subprocess.Process, ours: socket.socket) -> None:
        self.socket = ours
        self._process = process

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
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, ours)

    async def end(self) -> None:
        """Close our end, wait a moment for the program, then kill it and what it started."""
        self.socket.close()
        try:
            await asyncio.wait_for(self._process.wait(), GRACE_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
