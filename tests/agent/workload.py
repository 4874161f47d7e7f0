"""A rank of a job, as far as /proc tells: it forks loaders that block, each in its own way.

workload.py MARK KIND...      KIND: pipe futex unix tcp poll epoll sleep spin direct checkpoint
"""

import ctypes
import mmap
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15


def pipe() -> None:
    os.read(os.pipe()[0], 1)


def futex() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def unix() -> None:
    ours, _theirs = socket.socketpair()
    ours.recv(1)


def tcp() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    _server = listener.accept()
    client.recv(1)


def poll() -> None:
    waiting = select.poll()
    waiting.register(os.pipe()[0], select.POLLIN)
    waiting.poll()


def epoll() -> None:
    select.epoll().poll()


def sleep() -> None:
    time.sleep(1e6)


def spin() -> None:
    while True:
        pass


def direct() -> None:
    """Read past the page cache, again and again."""
    with tempfile.TemporaryFile(dir="/var/tmp") as file:
        file.write(bytes(1 << 22))
        file.flush()
        os.fsync(file.fileno())
        path = f"/proc/self/fd/{file.fileno()}"
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, 1 << 22)
        while True:
            os.preadv(descriptor, [buffer], 0)


def checkpoint() -> None:
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"ckpt_writer", 0, 0, 0)
    time.sleep(1e6)


def main() -> None:
    """Fork one process a kind, then wait for them."""
    kinds = [word for word in sys.argv[2:] if not word.startswith("-")]
    for kind in kinds:
        if os.fork():
            continue
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(PR_SET_NAME, b"pt_data_worker", 0, 0, 0)
        globals()[kind]()
    print("ready", flush=True)
    os.wait() if kinds else time.sleep(1e6)


if __name__ == "__main__":
    main()
