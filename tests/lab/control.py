"""The trainer's control file: switches that a rank and its loaders read anew at each step.

    {"decode": 60, "ranks": {"1": {"main_busy_s": 0.8}}}

Runs on nodes: standard library only. A switch under `ranks` is for that local rank alone. The file
lies in a file system in memory, where reading it disturbs nothing.
"""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

FOLDER = Path("/run/job")
"""Writable for the job's user."""
FILE = FOLDER / "control.json"


@dataclass(frozen=True)
class Control:
    """What a rank does besides its plain steps.

    Attributes:
        compute: factor of the time that its GPU computes.
        gpu: what its GPU does while it computes, in words of the simulated NVML.
        decode: how often loaders decode each file.
        pin: CPUs of the loaders; empty: all.
        main_busy_s: seconds for which the main thread works before the GPU gets anything.
        spin_main: it spins while its GPU computes, as CUDA does when told to.
        hang: it stops in a lock, for as long as this is set.
        accumulate: batches computed for each exchange.
        startup_s: seconds for which the main thread gets ready for its first step.
        end: it ends as if its last step were done.
        gap_s: seconds in which nothing happens after each step.
        evaluate_every: steps between evaluations, which exchange nothing; 0: never.
        evaluate_batches: how long an evaluation is.
        checkpoint_every_s: seconds from the end of a checkpoint to the next; 0: none.
        checkpoint_s: for how long it writes and syncs.
        checkpoint_apart: a child writes it while training goes on.
        offload_bytes: written to and read from a file while the GPU computes.
        nvml: lines of faults for the simulated library: `GPU FUNCTION error CODE`; of the node.
    """

    compute: float = 1.0
    gpu: str = "compute"
    decode: int = 1
    pin: tuple[int, ...] = ()
    main_busy_s: float = 0.0
    spin_main: bool = False
    hang: bool = False
    end: bool = False
    startup_s: float = 0.0
    accumulate: int = 1
    gap_s: float = 0.0
    evaluate_every: int = 0
    evaluate_batches: int = 20
    checkpoint_every_s: float = 0.0
    checkpoint_s: float = 8.0
    checkpoint_apart: bool = False
    offload_bytes: int = 0
    nvml: tuple[str, ...] = ()


def read(local_rank: int) -> Control:
    """Return what stands in this node's control file for one of its ranks."""
    try:
        told: dict[str, Any] = json.loads(FILE.read_text())
    except FileNotFoundError:
        return Control()
    known = {field.name for field in fields(Control)}
    own = told.pop("ranks", {}).get(str(local_rank), {})
    unknown = (told.keys() | own.keys()) - known
    if unknown:
        raise ValueError(f"no such switch: {', '.join(sorted(unknown))}")
    return replace(Control(), **{**told, **own})
