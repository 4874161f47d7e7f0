"""One rank of a small data-parallel job: real files, real decoding, a real ring over TCP.

Only its GPU is not real: the rank tells `launch` what it would do, idle while it waits for data,
compute, spin while it waits for peers in the collective, copy while bytes move. The first rank of
a node prints a line a step, as jobs do; each writes what it truly does to `truth.RANK.jsonl`, with
both clocks.
"""

import argparse
import itertools
import json
import multiprocessing as mp
import os
import threading
import time
from multiprocessing.queues import Queue
from pathlib import Path

from lab import control
from lab.control import Control
from lab.loader import die_with_parent, load, name_thread
from lab.ring import Ring

SLICES = 4
"""Pieces of a step's computation; the main thread launches the next one while one runs."""
LAUNCH_S = 0.01
"""CPU time of one launch."""
BLOCK = b"\0" * (4 << 20)
"""Written and synced at a time by a checkpoint, over and over in a file of some blocks."""
BLOCKS = 16


class Gpu:
    """This rank's GPU: it does what it was last told, for as long as it was told."""

    def __init__(self, number: int, pipe: int) -> None:
        self._number = number
        self._pipe = pipe

    def phase(self, kind: str, seconds: float = 0.0) -> None:
        """Begin a phase; after `seconds`, when given, nothing is left to do."""
        line = f"{self._number} {kind} {time.monotonic():.6f} {seconds:.6f}\n"
        os.write(self._pipe, line.encode())


class Truth:
    """What a rank is truly doing, a line of JSON each time that changes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def phase(self, name: str, step: int) -> None:
        """Note the beginning of a phase."""
        clocks = {"mono": time.monotonic(), "wall": time.time()}
        self._file.write(json.dumps({"phase": name, "step": step, **clocks}) + "\n")


class Rank:
    """A rank in training."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._rank = int(os.environ["RANK"])
        self._local = int(os.environ["LOCAL_RANK"])
        self._args = args
        self._gpu = Gpu(self._local, int(os.environ["LAB_GPU_PIPE"]))
        self._truth = Truth(args.home / f"truth.{self._rank}.jsonl")
        self._batches: Queue[int] = mp.Queue(maxsize=2)
        for _ in range(args.loaders):
            given = (args.data, args.files, self._local, self._batches)
            mp.Process(target=load, args=given, daemon=True).start()
        name_thread("pt_main_thread")
        self._ring = Ring(self._rank, args.peers.split(","), int(os.environ["MASTER_PORT"]))
        self._saved = time.monotonic()
        self._writer: mp.Process | None = None

    def train(self) -> None:
        """Run steps until killed or told to end."""
        self._truth.phase("startup", 0)
        _start(control.read(self._local).startup_s)
        for step in itertools.count():
            began = time.monotonic()
            told = control.read(self._local)
            if told.end:
                return
            self._hang(told, step)
            for _ in range(told.accumulate):
                self._batch(told, step, "compute")
            self._truth.phase("exchange", step)
            size = int(self._args.bytes)
            self._ring.reduce(
                size, lambda: self._gpu.phase("spin"), lambda: self._gpu.phase("copy")
            )
            self._gpu.phase("idle")
            if told.evaluate_every and step % told.evaluate_every == told.evaluate_every - 1:
                for _ in range(told.evaluate_batches):
                    self._batch(told, step, "evaluate")
            self._checkpoint(told, step)
            if told.gap_s:
                self._truth.phase("gap", step)
                time.sleep(told.gap_s)
            if self._local == 0:
                print(f"step {step} {time.monotonic() - began:.3f} s", flush=True)

    def _batch(self, told: Control, step: int, phase: str) -> None:
        """Wait for data, then compute on them, piece by piece."""
        self._truth.phase("load", step)
        self._batches.get()
        if told.main_busy_s:
            self._truth.phase("main", step)
            _burn(told.main_busy_s)
        self._truth.phase(phase, step)
        seconds = self._args.compute * told.compute / SLICES
        _burn(LAUNCH_S)
        for _ in range(SLICES):
            self._gpu.phase(told.gpu, seconds)
            done = time.monotonic() + seconds
            _burn(LAUNCH_S)  # of the next piece, while this one runs
            if told.offload_bytes:
                self._offload(told.offload_bytes // SLICES)
            if told.spin_main:
                while time.monotonic() < done:
                    pass
            time.sleep(max(0.0, done - time.monotonic()))

    def _hang(self, told: Control, step: int) -> None:
        """Wait for a lock that nobody lets go, until told otherwise."""
        if told.hang:
            self._truth.phase("hang", step)
        while told.hang:
            threading.Event().wait(5)
            told = control.read(self._local)

    def _checkpoint(self, told: Control, step: int) -> None:
        """Write a checkpoint when one is due; the first rank does, for all."""
        if self._rank or not told.checkpoint_every_s:
            return
        if time.monotonic() - self._saved < told.checkpoint_every_s:
            return
        path = self._args.scratch / "checkpoint"
        if not told.checkpoint_apart:
            self._truth.phase("checkpoint", step)
            _save(path, told.checkpoint_s)
        elif self._writer is None or not self._writer.is_alive():
            given = (path, told.checkpoint_s)
            self._writer = mp.Process(target=_save_apart, args=given, daemon=True)
            self._writer.start()
        self._saved = time.monotonic()

    def _offload(self, size: int) -> None:
        """Put a part of the optimizer's state away and fetch it back."""
        path = self._args.scratch / f"offload.{self._rank}"
        with path.open("w+b") as file:
            file.write(bytes(size))
            file.seek(0)
            file.read()


def _start(seconds: float) -> None:
    """Import, read and compile for so long: half of the time at work."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _burn(0.2)
        time.sleep(0.2)


def _burn(seconds: float) -> None:
    """Use that much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def _save(path: Path, seconds: float) -> None:
    """Write and sync for so long, or until none is wanted; the one before stays until this is whole."""
    end = time.monotonic() + seconds
    part = path.with_suffix(".part")
    try:
        with part.open("wb", buffering=0) as file:
            for block in itertools.cycle(range(BLOCKS)):
                file.seek(block * len(BLOCK))
                file.write(BLOCK)
                os.fsync(file.fileno())
                if time.monotonic() > end or not control.read(0).checkpoint_every_s:
                    break
        part.replace(path)
    except OSError as error:
        part.unlink()
        print(f"no checkpoint: {error}", flush=True)


def _save_apart(path: Path, seconds: float) -> None:
    name_thread("pt_checkpoint")
    die_with_parent()
    _save(path, seconds)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", required=True, help="address of each rank")
    parser.add_argument("--data", required=True, help="directory or http:// address")
    parser.add_argument("--files", type=int, default=256)
    parser.add_argument("--home", type=Path, required=True, help="for the truth")
    parser.add_argument("--scratch", type=Path, required=True, help="for what it writes")
    parser.add_argument("--compute", type=float, default=0.4, help="seconds a batch")
    parser.add_argument("--bytes", type=float, default=2e6, help="of all gradients")
    parser.add_argument("--loaders", type=int, default=2)
    Rank(parser.parse_args()).train()


if __name__ == "__main__":
    main()
