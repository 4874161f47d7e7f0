"""A TCP proxy on loopback that treats what it carries badly, in the ways in which networks do."""

import asyncio
import contextlib
import socket
from types import TracebackType
from typing import Self

CHUNK = 1024
BUFFER = 4096
"""Of sockets: what a slow way holds back should wait in the sender, as far as may be."""


class TcpProxy:
    """Carries connections to a port of loopback.

    Attributes:
        flowing: clear it, and nothing more is carried, either way.
        rate: bytes a second towards the client; None: as many as come.
        flips: bits that are still to be flipped on the way to the client.
    """

    def __init__(self, target: int) -> None:
        self.port = 0
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.rate: float | None = None
        self.flips = 0
        self._target = target
        self._carriers: set[asyncio.Task[None]] = set()
        self._sockets: set[socket.socket] = set()

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.refuse()

    async def listen(self) -> None:
        """Take connections, on the same port as before."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        listener.setblocking(False)
        self._sockets.add(listener)
        self._carriers.add(asyncio.create_task(self._accept(listener)))

    async def refuse(self) -> None:
        """Drop all connections, and refuse new ones."""
        carriers, self._carriers = self._carriers, set()
        for task in carriers:
            task.cancel()
        await asyncio.gather(*carriers, return_exceptions=True)
        for each in self._sockets:
            each.close()
        self._sockets.clear()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            server = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            self._sockets |= {client, server}
            for each in (client, server):
                each.setblocking(False)
            await loop.sock_connect(server, ("127.0.0.1", self._target))
            self._carriers |= {
                asyncio.create_task(self._carry(client, server, down=False)),
                asyncio.create_task(self._carry(server, client, down=True)),
            }

    async def _carry(self, source: socket.socket, sink: socket.socket, *, down: bool) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(source, CHUNK):
                await self.flowing.wait()
                if down and self.flips:
                    self.flips -= 1
                    data = bytes([data[0] ^ 1]) + data[1:]
                if down and self.rate:
                    await asyncio.sleep(len(data) / self.rate)
                await loop.sock_sendall(sink, data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
