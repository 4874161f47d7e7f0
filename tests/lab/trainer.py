"""One rank of a small data-parallel job: real files, real decoding, a real ring over TCP.

Its GPU is the simulated NVML (tests/nvml): a state file tells what the GPU is doing: idle while it
waits for data, compute, spin while it waits for a peer in the collective, copy while bytes move.
Needs the standard library and nvml/sim.py beside it. Started with RANK, LOCAL_RANK, WORLD_SIZE and
MASTER_PORT set, as torchrun sets them; prints a line a step.

    trainer.py --peers 10.77.0.1,10.77.0.2 --data DIR --state FILE [--compute 0.4] [--bytes 8e6]
"""

import argparse
import ctypes
import itertools
import multiprocessing as mp
import os
import random
import signal
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable
from multiprocessing.queues import Queue
from pathlib import Path

from nvml.sim import Sim

PR_SET_NAME = 15
CHUNK = 1 << 18
"""Bytes of one send or receive."""
BATCH = 16
"""Files of one batch."""


def name_thread(name: str) -> None:
    """Name this thread as PyTorch names its own, for ps and for gpuwatch."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def load(paths: list[Path], batches: "Queue[int]", seed: int) -> None:
    """Read and decode random files for ever, a batch at a time, as a loader process does."""
    name_thread("pt_data_worker")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    chosen = random.Random(seed)
    while True:
        size = 0
        for path in chosen.choices(paths, k=BATCH):
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                size += len(zlib.decompress(file.read()))
        batches.put(size)


class Ring:
    """A ring all-reduce of real bytes: to the next rank, from the one before."""

    def __init__(self, rank: int, peers: list[str], port: int) -> None:
        listener = socket.create_server(("", port + rank))
        self._sent = b"\0" * CHUNK
        with listener:
            self._next = _connect(peers[(rank + 1) % len(peers)], port + (rank + 1) % len(peers))
            self._before, _ = listener.accept()
        self._rounds = 2 * (len(peers) - 1)
        self._parts = len(peers)

    def reduce(self, size: int, first_bytes: Callable[[], None]) -> None:
        """Move what a ring all-reduce of `size` bytes moves; tell when the peer's bytes begin."""
        part = size // self._parts
        for turn in range(self._rounds):
            sender = threading.Thread(target=self._send, args=(part,))
            sender.start()
            self._receive(part, first_bytes if turn == 0 else None)
            sender.join()

    def _send(self, size: int) -> None:
        while size > 0:
            size -= self._next.send(self._sent[: min(CHUNK, size)])

    def _receive(self, size: int, first_bytes: Callable[[], None] | None) -> None:
        while size > 0:
            got = len(self._before.recv(min(CHUNK, size)))
            if not got:
                sys.exit("the rank before is gone")
            if first_bytes is not None:
                first_bytes()
                first_bytes = None
            size -= got


def _connect(host: str, port: int) -> socket.socket:
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection((host, port), timeout=None)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def train(args: argparse.Namespace) -> None:
    """Run steps until killed."""
    rank = int(os.environ["RANK"])
    gpu = Sim(Path(args.state))
    gpu.fix(0, name="NVIDIA H100 80GB HBM3")
    gpu.process(0, os.getpid(), 60_000_000_000)
    batches: Queue[int] = mp.Queue(maxsize=4)
    paths = sorted(Path(args.data).iterdir())
    for worker in range(args.loaders):
        mp.Process(target=load, args=(paths, batches, rank * 100 + worker), daemon=True).start()
    name_thread("pt_main_thread")
    ring = Ring(rank, args.peers.split(","), int(os.environ["MASTER_PORT"]))
    for step in itertools.count():
        began = time.monotonic()
        gpu.phase(0, "idle")
        batches.get()
        gpu.phase(0, "compute")
        time.sleep(args.compute)
        gpu.phase(0, "spin")
        ring.reduce(int(args.bytes), lambda: gpu.phase(0, "copy"))
        print(f"step {step} {time.monotonic() - began:.3f} s", flush=True)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("--compute", type=float, default=0.4)
    parser.add_argument("--bytes", type=float, default=8e6)
    parser.add_argument("--loaders", type=int, default=2)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
