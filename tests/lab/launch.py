"""Starts a node's ranks, as torchrun does, and plays their GPUs through the simulated NVML.

    python -m lab.launch --ranks 2 --node 0 --addresses 10.77.0.1,10.77.0.2 ARGUMENT...

ARGUMENTs go to `lab.trainer`. Ranks tell through a pipe what their GPUs do from when on; a GPU
that was told for how long falls idle by itself, also when its rank was stopped meanwhile.
"""

import argparse
import contextlib
import os
import selectors
import subprocess
import sys
import time

from lab import control
from nvml.sim import Sim

STATE = control.FOLDER / "gpu.state"
USED_BYTES = 60_000_000_000
LOOK_S = 0.5
"""Between looks at the control file."""


class Board:
    """The GPUs of this node."""

    def __init__(self, gpus: int) -> None:
        self.sim = Sim(STATE, gpus)
        self._ends: dict[int, float] = {}
        for gpu in range(gpus):
            self.sim.fix(gpu, name="NVIDIA H100 80GB HBM3")
            self.sim.phase(gpu, "idle")

    def told(self, line: str) -> None:
        """Take what a rank says: GPU KIND SINCE SECONDS."""
        gpu, kind, at, seconds = line.split()
        self._ends.pop(int(gpu), None)
        self.sim.phase(int(gpu), kind, at=float(at))
        if float(seconds):
            self._ends[int(gpu)] = float(at) + float(seconds)

    def due_s(self) -> float:
        """Return seconds until something is to be done."""
        return max(0.0, min([LOOK_S, *(end - time.monotonic() for end in self._ends.values())]))

    def settle(self) -> None:
        """Let GPUs whose work is done fall idle."""
        for gpu, end in list(self._ends.items()):
            if end <= time.monotonic():
                del self._ends[gpu]
                self.sim.phase(gpu, "idle", at=end)

    def obey(self) -> None:
        """Let calls fail as the control file says."""
        lines = [f"fault {line}" for line in control.read(-1).nvml]
        if lines != self.sim.faults:
            self.sim.faults = lines
            self.sim.write()


def start(args: argparse.Namespace, rest: list[str], pipe: int) -> list["subprocess.Popen[bytes]"]:
    """Start the ranks of this node."""
    addresses = args.addresses.split(",")
    peers = ",".join(address for address in addresses for _ in range(args.ranks))
    ranks = []
    for local in range(args.ranks):
        env = {
            **os.environ, "RANK": str(args.node * args.ranks + local), "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(len(addresses) * args.ranks), "MASTER_ADDR": addresses[0],
            "MASTER_PORT": "29500", "LAB_GPU_PIPE": str(pipe),
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(args.ranks))),
        }  # fmt: skip
        words = [sys.executable, "-m", "lab.trainer", "--peers", peers]
        ranks.append(subprocess.Popen([*words, *rest], env=env, pass_fds=[pipe]))
    return ranks


def play(board: Board, ranks: list["subprocess.Popen[bytes]"], pipe: int) -> None:
    """Keep the GPUs going until a rank ends."""
    selector = selectors.DefaultSelector()
    selector.register(pipe, selectors.EVENT_READ)
    rest = ""
    looked = 0.0
    while all(rank.poll() is None for rank in ranks):
        if selector.select(board.due_s()):
            *lines, rest = (rest + os.read(pipe, 1 << 16).decode()).split("\n")
            for line in lines:
                board.told(line)
        board.settle()
        if time.monotonic() - looked >= LOOK_S:
            looked = time.monotonic()
            board.obey()


def main() -> None:
    """Parse the command line, start the ranks and play their GPUs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--addresses", required=True)
    args, rest = parser.parse_known_args()
    source, sink = os.pipe()
    board = Board(args.ranks)
    ranks = start(args, rest, sink)
    try:
        # A GPU runs on when the CPUs of its node are busy; so must what plays it.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, -15)
        for gpu, rank in enumerate(ranks):
            board.sim.process(gpu, rank.pid, USED_BYTES)
        play(board, ranks, source)
    finally:
        for gpu, rank in enumerate(ranks):
            rank.kill()
            board.sim.phase(gpu, "off")
            board.sim.left(gpu, rank.pid)


if __name__ == "__main__":
    main()
