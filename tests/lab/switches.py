"""Faults and oddities of the trainer itself, switched through its control file."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab import job, launch
from lab.node import HOME, PYTHON, Node

STEPS = 4
SILENCE_S = 4.0
BITE_S = 30.0
NVML = """
import ctypes, os
nvml = ctypes.CDLL(os.environ["LIB"])
device = ctypes.c_void_p()
print(nvml.nvmlInitWithFlags(0), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)))
print("code", nvml.nvmlDeviceGetUtilizationRates(device, ctypes.byref((ctypes.c_uint * 2)())))
"""
HANGS = "code hangs"
TIMED_OUT = 124
"""Exit status of timeout(1)."""


@dataclass(frozen=True)
class Switch:
    """Switches of the control file on one node, or on all.

    Attributes:
        on: name of the node; "" is all of them.
        switches: as `control.Control` has them.
        slower: steps take at least this many times as long; 0: no step ends at all.
        nvml: instead, what the GPU library says of utilisation, as `code N`.
    """

    name: str
    on: str
    switches: dict[str, Any]
    slower: float = 1.0
    nvml: str = ""

    def apply(self, nodes: Sequence[Node]) -> None:
        """Switch on."""
        for node in self._chosen(nodes):
            job.switch(node, self.switches)

    def lift(self, nodes: Sequence[Node]) -> None:
        """Switch all off."""
        for node in self._chosen(nodes):
            job.switch(node, {})

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return how long steps take by the job's log, or what the GPU library says."""
        if self.nvml:
            return self._library(self._chosen(nodes)[0])
        node = nodes[0]
        if self.slower == 0:
            return _silence(node)
        return _slowdown(node, self.slower)

    def _chosen(self, nodes: Sequence[Node]) -> list[Node]:
        return [node for node in nodes if self.on in ("", node.name)]

    def _library(self, node: Node) -> str:
        script = (
            f"GPUWATCH_SIM_STATE={launch.STATE} LIB={HOME}/lib/libnvidia-ml.so.1"
            f" timeout 3 {PYTHON} -Ic '{NVML}' || test $? -ne {TIMED_OUT} || echo {HANGS}"
        )
        deadline = time.monotonic() + BITE_S
        told = ""
        while told != self.nvml and time.monotonic() < deadline:
            told = (node.run(["sh", "-c", script]).splitlines() or ["nothing"])[-1]
        if told != self.nvml:
            raise RuntimeError(f"it does not bite: utilisation: {told}")
        return f"utilisation: {told}"


def _slowdown(node: Node, factor: float) -> str:
    """Wait until some steps took that many times as long as those before."""
    steps = job.steps(node)
    before, healthy = len(steps), statistics.fmean(steps[1:])
    deadline = time.monotonic() + BITE_S
    told = f"no {STEPS} steps in {BITE_S:.0f} s"
    while time.monotonic() < deadline:
        time.sleep(0.5)
        # The step that it came in is no measure.
        steps = job.steps(node)[before + 1 :][-STEPS:]
        if len(steps) == STEPS:
            now = statistics.fmean(steps)
            told = f"steps of {now:.2f} s, {healthy:.2f} s before"
            if now >= factor * healthy:
                return told
    raise RuntimeError(f"it does not bite: {told}")


def _silence(node: Node) -> str:
    """Wait until the job has stood still for some seconds."""
    deadline = time.monotonic() + BITE_S
    while time.monotonic() < deadline:
        before = len(job.steps(node))
        time.sleep(SILENCE_S)
        if len(job.steps(node)) == before:
            return f"no step in {SILENCE_S:.0f} s"
    raise RuntimeError(f"it does not bite: steps go on {BITE_S:.0f} s later")
