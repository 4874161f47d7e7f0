"""A ring all-reduce of real bytes over real TCP: to the next rank, from the one before."""

import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence

CHUNK = 1 << 18
"""Bytes of one send or receive."""
CONNECT_S = 60.0


class Ring:
    """One rank's two connections.

    Args:
        rank: its own.
        peers: the address of each rank, in their order.
        port: rank R listens on `port` + R.
    """

    def __init__(self, rank: int, peers: Sequence[str], port: int) -> None:
        after = (rank + 1) % len(peers)
        self._sent = b"\0" * CHUNK
        with socket.create_server((peers[rank], port + rank)) as listener:
            self._next = _connect(peers[after], port + after)
            self._before, _ = listener.accept()
        self._parts = len(peers)

    def reduce(self, size: int, waits: Callable[[], None], moves: Callable[[], None]) -> None:
        """Move what a ring all-reduce of `size` bytes moves.

        Args:
            size: bytes that are reduced.
            waits: called in each turn before any byte of the rank before came.
            moves: called when the first byte came.
        """
        part = size // self._parts
        for _ in range(2 * (self._parts - 1)):
            waits()
            sender = threading.Thread(target=self._send, args=(part,))
            sender.start()
            self._receive(part, moves)
            sender.join()

    def _send(self, size: int) -> None:
        while size > 0:
            size -= self._next.send(self._sent[: min(CHUNK, size)])

    def _receive(self, size: int, moves: Callable[[], None]) -> None:
        rest = size
        while rest > 0:
            got = len(self._before.recv(min(CHUNK, rest)))
            if not got:
                sys.exit("the rank before is gone")
            if rest == size:
                moves()
            rest -= got


def _connect(host: str, port: int) -> socket.socket:
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            return socket.create_connection((host, port), timeout=None)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
