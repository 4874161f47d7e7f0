"""A pipe to a program that runs on a node, over a connection of its own."""

import asyncio
import contextlib
from signal import Signals

import asyncssh

from gpuwatch.transport.link import Pipe

__all__ = ["SshPipe", "closed"]

CLOSE_S = 2.0
LAST_WORDS_S = 2.0
"""How long output may still come after the exit status: sshd may send the status first."""


class SshPipe(Pipe, asyncssh.SSHClientSession[bytes]):
    """A pipe to the one program of one connection."""

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        super().__init__()
        self._connection = connection
        self._channel: asyncssh.SSHClientChannel[bytes]

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Take the channel."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Take what the program wrote."""
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            self.take_errors(data)
        else:
            self.take(data)

    def exit_status_received(self, status: int) -> None:
        """Take the exit status; a background job of the shell may hold the channel open."""
        self.status = status
        asyncio.get_running_loop().call_later(LAST_WORDS_S, self.end)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:  # noqa: ARG002, FBT001 - asyncssh names them
        """Take the signal that ended the program."""
        number = Signals.__members__.get(f"SIG{signal}", 1)
        self.exit_status_received(-number)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncssh names it
        """Take note of the end."""
        self.end()

    def write(self, data: bytes) -> None:
        """Send bytes to the program's stdin."""
        self._channel.write(data)

    async def close(self) -> None:
        """Close the channel and its connection; sshd then closes the program's pipes."""
        await closed(self._connection)

    def _flow(self, *, on: bool) -> None:
        if on:
            self._channel.resume_reading()
        else:
            self._channel.pause_reading()


async def closed(connection: asyncssh.SSHClientConnection) -> None:
    """Close a connection, whether or not the other side answers."""
    connection.close()
    with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
        async with asyncio.timeout(CLOSE_S):
            await connection.wait_closed()
    connection.abort()
