"""Ways that end, hang or carry damage in any phase of the start: each is told in one line, and heals."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Node
from gpuwatch.transport.payload import agent_config, payload
from gpuwatch.transport.ssh import Dialer
from gpuwatch.transport.supervise import Heard, _Link
from sshd import NEEDS_SSHD, Sshd

pytestmark = [*NEEDS_SSHD]

PLACES = (0, 5, 20, 45, 300, 900, 1150, 1350, 1500, 1700, 2000, 2300, 2450, 2600, 3000)
"""Bytes from the host before it happens: in its greeting, in the exchange of keys, in the login, as the
session is opened, as the shell starts, before and after the agent's first words."""
AT_ONCE = 6
JUNK = bytes(range(128, 192))
HOW: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
    "ends": lambda data, at: (data[:at], False),
    "hangs": lambda data, at: (data[:at], False),
    "is damaged": lambda data, at: (data[:at] + JUNK + data[at:], True),
}
"""What a chunk becomes, and whether more is carried after it."""


async def carried(how: str, after: int, reader: Any, writer: Any) -> None:
    """Carry what the host says until so many bytes, then let it happen."""
    at = after
    while data := await reader.read(1024):
        goes_on = True
        if 0 <= at < len(data):
            data, goes_on = HOW[how](data, at)
        at -= len(data)
        writer.write(data)
        if not goes_on and how == "hangs":
            await asyncio.Event().wait()
        if not goes_on:
            return


@asynccontextmanager
async def broken(server: Sshd, how: str, after: int) -> AsyncIterator[Node]:
    """Give a node whose way is broken so."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_host, to_host = await asyncio.open_connection("127.0.0.1", server.port)
        down = asyncio.create_task(carried(how, after, from_host, writer))
        up = asyncio.create_task(carried("ends", -1, reader, to_host))
        tasks.update({down, up})
        await asyncio.wait({down, up}, return_when=asyncio.FIRST_COMPLETED)
        writer.close()
        to_host.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as listener:
        port = listener.sockets[0].getsockname()[1]
        known = server.folder / f"known-{port}"
        known.write_text(server.known_hosts.read_text().replace(str(server.port), str(port)))
        yield server.node(port=port, known_hosts=known)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Ear:
    """Takes the stream's first bytes for a greeting, and hears no end of it."""

    def opened(self) -> None: ...

    def link(self, *_: Any) -> None: ...

    def beating(self, number: int) -> None: ...

    def received(self, data: bytes) -> Heard:
        return Heard(None, 0)


async def ended(server: Sshd, how: str, turn: asyncio.Semaphore, after: int) -> LinkError:
    """Return what is told of one attempt; what is carried to the end is ended by its silence."""
    dialer = Dialer()
    async with turn, broken(server, how, after) as node:
        opened: Callable[..., Any] = dialer.open
        try:
            link = _Link(node, Ear(), 0.2, (None, None))
            return await link.run(opened, payload().message(agent_config(node, 0.2)))
        finally:
            await dialer.close()


@pytest.mark.parametrize("how", list(HOW))
async def test_s12_s23_whatever_happens_to_a_way_is_one_line_that_heals(
    how: str, usual: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.supervise.HELLO_S", 0.5)
    if how != "ends":
        for limit in ("login.CONNECT_S", "ssh.SESSION_S", "bootstrap.GREETING_S"):
            monkeypatch.setattr(f"gpuwatch.transport.{limit}", 0.5)
    monkeypatch.setattr("gpuwatch.transport.ssh_pipe.CLOSE_S", 0.1)
    one = partial(ended, usual, how, asyncio.Semaphore(AT_ONCE))
    errors = await asyncio.gather(*map(one, PLACES))
    for after, error in zip(PLACES, errors, strict=True):
        assert error.heals, (after, error)
        assert error.hint, (after, error)
        assert str(error).isprintable(), (after, error)
        assert "internal" not in error.what, (after, error)
    if how == "ends":
        assert {error.step for error in errors} == {"connect", "login", "shell", "python"}
