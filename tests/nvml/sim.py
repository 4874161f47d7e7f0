"""Builds the simulated NVML and tells it what its GPUs do."""

import os
import subprocess
import time
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = "libnvidia-ml.so.1"
HISTORY_S = 5.0
"""Phases that ended longer ago are folded into `spent`: no average of NVML looks back further."""


def build(into: Path) -> Path:
    """Compile the library into a directory, for LD_LIBRARY_PATH, and return its path.

    Raises:
        FileNotFoundError: no C compiler (`cc`) is installed.
    """
    library = into / LIBRARY
    part = into / f".{LIBRARY}.{os.getpid()}"
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command += ["-o", str(part), str(HERE / "libnvidia_ml_sim.c"), "-lm", "-lpthread"]
    subprocess.run(command, check=True)
    part.replace(library)
    return library


class Sim:
    """The state file of a simulated node, rewritten whole at each change.

    Args:
        path: the state file; its directory must exist.
        gpus: how many there are.
    """

    def __init__(self, path: Path, gpus: int = 1) -> None:
        self.path = path
        self.count = gpus
        self.driver = "570.124.06"
        self.faults: list[str] = []
        self._phases: dict[int, list[tuple[float, str, float]]] = defaultdict(list)
        self._spent: dict[tuple[int, str], float] = defaultdict(float)
        self._fixed: dict[tuple[int, str], str] = {}
        self._processes: dict[tuple[int, int], int] = {}
        self._xids: list[tuple[int, int, float]] = []
        self.write()

    @property
    def env(self) -> dict[str, str]:
        """What the agent's environment needs besides LD_LIBRARY_PATH."""
        return {"GPUWATCH_SIM_STATE": str(self.path)}

    def phase(self, gpu: int, kind: str, share: float = 1.0, at: float | None = None) -> None:
        """Begin a phase: off, idle, compute, spin, copy or throttled.

        Args:
            gpu: its index.
            kind: what it does from now on.
            share: active for this part of the time, idle for the rest.
            at: when it began, on time.monotonic(); default now.
        """
        self._phases[gpu].append((time.monotonic() if at is None else at, kind, share))
        self.write()

    def fix(self, gpu: int, **readings: int | str) -> None:
        """Fix readings by their key in the state file (util, power_mw, name, ...)."""
        for key, value in readings.items():
            self._fixed[gpu, key] = str(value)
        self.write()

    def field(self, gpu: int, number: int, base: int) -> None:
        """Set the base of a field's counter."""
        self._fixed[gpu, f"field {number}"] = str(base)
        self.write()

    def process(self, gpu: int, pid: int, used_bytes: int) -> None:
        """Give a process a compute context."""
        self._processes[gpu, pid] = used_bytes
        self.write()

    def left(self, gpu: int, pid: int) -> None:
        """Take a process's context away."""
        del self._processes[gpu, pid]
        self.write()

    def xid(self, gpu: int, number: int) -> None:
        """Let the driver report a critical error now."""
        self._xids.append((gpu, number, time.monotonic()))
        self.write()

    def fault(self, function: str, what: str, gpu: int | str = "*") -> None:
        """Make a call fail: `error CODE`, `sleep SECONDS`, `hang` or `crash`."""
        self.faults.append(f"fault {gpu} {function} {what}")
        self.write()

    def heal(self) -> None:
        """Take all faults away."""
        self.faults.clear()
        self.write()

    def write(self) -> None:
        """Replace the state file."""
        self._fold(time.monotonic() - HISTORY_S)
        lines = [f"driver {self.driver}", f"count {self.count}", *self.faults]
        for (gpu, key), value in self._fixed.items():
            lines.append(f"gpu {gpu} {key} {value}")
        for (gpu, pid), used in self._processes.items():
            lines.append(f"gpu {gpu} process {pid} {used}")
        for gpu, number, at in self._xids:
            lines.append(f"gpu {gpu} xid {number} {at:.6f}")
        for (gpu, kind), seconds in self._spent.items():
            lines.append(f"gpu {gpu} spent {kind} {seconds:.6f}")
        for gpu, phases in self._phases.items():
            lines += [f"gpu {gpu} phase {at:.6f} {kind} {share}" for at, kind, share in phases]
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        part.write_text("\n".join(lines) + "\n")
        part.replace(self.path)

    def _fold(self, before: float) -> None:
        for gpu, phases in self._phases.items():
            while len(phases) > 1 and phases[1][0] <= before:
                (at, kind, share), (end, _, _) = phases.pop(0), phases[0]
                rest = "off" if kind == "off" else "idle"
                self._spent[gpu, kind] += share * (end - at)
                self._spent[gpu, rest] += (1 - share) * (end - at)
