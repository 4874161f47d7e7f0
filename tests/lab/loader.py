"""A loader process: reads and decodes random files for ever, from a file system or over HTTP."""

import ctypes
import http.client
import os
import random
import signal
import zlib
from collections.abc import Callable
from multiprocessing.queues import Queue
from pathlib import Path
from urllib.parse import urlsplit

from lab import control

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
BATCH = 16
"""Files of one batch."""
TIMEOUT_S = 60.0
"""Of a request to an object store."""


def name_thread(name: str) -> None:
    """Name this thread as PyTorch names its own, for ps and for gpuwatch."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def die_with_parent() -> None:
    """Let the kernel end this process when the rank that forked it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def load(data: str, files: int, local_rank: int, batches: "Queue[int]") -> None:
    """Put the size of one decoded batch after another into a queue.

    Args:
        data: a directory, or the http:// address of an object store.
        files: how many there are: 0000.z and so on.
        local_rank: of the rank that is served.
        batches: as long as loaders may run ahead.
    """
    name_thread("pt_data_worker")
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    chosen = random.Random(os.getpid())
    everywhere = os.sched_getaffinity(0)
    read = _store(data) if data.startswith("http://") else _directory(Path(data))
    while True:
        told = control.read(local_rank)
        wanted = set(told.pin) or everywhere
        if os.sched_getaffinity(0) != wanted:
            os.sched_setaffinity(0, wanted)
        size = 0
        for _ in range(BATCH):
            raw = read(f"{chosen.randrange(files):04}.z")
            for _ in range(told.decode):
                size += len(zlib.decompress(raw))
        batches.put(size)


def _directory(folder: Path) -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        with (folder / name).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return file.read()

    return read


def _store(address: str) -> Callable[[str], bytes]:
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=TIMEOUT_S)

    def read(name: str) -> bytes:
        connection.request("GET", f"{where.path}/{name}")
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise OSError(f"{address}/{name}: {answer.status} {answer.reason}")
        return body

    return read
