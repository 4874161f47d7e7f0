"""The process that talks to NVML: it may hang or crash alone, the agent goes on without it.

NVML calls end in ioctls that can block for ever inside the kernel, so they belong in a process,
never in a thread. It holds nothing of the agent's but one pipe, into which it writes its answers:
length-framed JSON, one of

    ["count", N, DRIVER]                GPUs listed; first, and when it changes
    ["util", [[GPU, PERCENT], ...]]     several times an interval; a string is a reason
    ["full", [[GPU, UUID, NAME, [VALUE, ...]], ...], SECONDS, REASON]
                                        in the order of the locators, how long it took, and why
                                        no errors of GPUs are heard of
    ["processes", [[GPU, PID, BYTES], ...]]             or a reason in place of the list
    ["xids", [[GPU, XID], ...]]         when there are some
    ["end", "absent" or "error", REASON]
"""

import contextlib
import json
import os
import struct
import time
from typing import Any, List, Sequence

from gpuwatch.agent.nvml.locator import why

LENGTH = struct.Struct(">I")
NAME = b"gpuwatch-nvml"
UTIL_HZ = 5
LIST_EVERY = 5
PROCESSES_EVERY = 10
"""Polls between two looks at the list of GPUs, and at those of processes."""
NO_LIBRARY = "no libnvidia-ml.so.1: no NVIDIA driver, or not on this library path"


def run(pipe: int, parent: int, locators: Sequence[str], interval_s: float) -> None:
    """Poll until the parent is gone or NVML ends.

    Args:
        pipe: where answers go.
        parent: process id of the agent.
        locators: of the metrics of one GPU.
        interval_s: seconds between two full polls.
    """
    try:
        _poll(pipe, parent, locators, interval_s)
    except OSError:
        pass  # the agent closed its end
    except Exception as error:
        with contextlib.suppress(OSError):
            _send(pipe, ["end", "error", why(error)])


def _send(pipe: int, message: List[Any]) -> None:
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    data = LENGTH.pack(len(body)) + body
    while data:
        data = data[os.write(pipe, data) :]


def _poll(pipe: int, parent: int, locators: Sequence[str], interval_s: float) -> None:
    try:
        import pynvml

        pynvml.nvmlInit()
        driver = _driver(pynvml)
    except Exception as error:
        absent = type(error).__name__ == "NVMLError_LibraryNotFound"
        _send(pipe, ["end", "absent" if absent else "error", NO_LIBRARY if absent else why(error)])
        return
    from gpuwatch.agent.nvml.poller import Poller

    poller = Poller(pynvml, locators, interval_s)
    _give_back()
    steps = max(1, round(UTIL_HZ * min(interval_s, 1.0)))
    step_s = interval_s / steps
    due = time.monotonic()
    turn = 0
    while os.getppid() == parent:
        if turn % (steps * LIST_EVERY) == 0 and poller.count():
            _send(pipe, ["count", len(poller.devices), driver])
        if turn % steps == 0:
            _look(pipe, poller)
        else:
            _send(pipe, ["util", poller.util()])
        if turn % (steps * PROCESSES_EVERY) == 0:
            _send(pipe, ["processes", poller.processes()])
        turn += 1
        due = max(due + step_s, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _give_back() -> None:
    """Return to the kernel what compiling the binding took, 11 MB (malloc_trim(3), which glibc has)."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _look(pipe: int, poller: Any) -> None:
    """Make a full poll."""
    began = time.monotonic()
    rows = poller.full()
    xids = poller.xids.take() if poller.xids else []
    unheard = poller.xids.reason if poller.xids else ""
    _send(pipe, ["full", rows, round(time.monotonic() - began, 1), unheard])
    if xids:
        _send(pipe, ["xids", xids])


def _driver(nvml: Any) -> str:
    """Return the driver's version, "" where it is not told (or not in UTF-8)."""
    try:
        return str(nvml.nvmlSystemGetDriverVersion())
    except Exception:
        return ""
