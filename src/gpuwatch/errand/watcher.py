"""The watcher: a forked process that clears up behind an errand, however that ends.

It holds one end of a pipe. When the other end closes (the errand ended, was killed, crashed), it
kills what carries the errand's mark in its environment, which children inherit wherever they go, and
removes the folders that it was told of.
"""

import os
import shutil
import signal
import time
from typing import Dict, List

VARIABLE = "GPUWATCH_ERRAND"
PREFIX = ".gpuwatch-preflight-"
TRIES = 20
PAUSE_S = 0.1

_marker = ""
_pipe = -1


def begin(marker: str) -> None:
    """Fork the watcher of this errand."""
    global _marker, _pipe
    ours, theirs = os.pipe()
    if os.fork() == 0:
        try:
            os.close(theirs)
            _watch(ours, marker)
        finally:
            os._exit(0)
    os.close(ours)
    _marker, _pipe = marker, theirs


def marked() -> Dict[str, str]:
    """Return the environment that all programs of this errand get."""
    return dict(os.environ, **{VARIABLE: _marker, "LC_ALL": "C"})


def owns(path: str) -> str:
    """Return the name of this errand's folder below another, and have it removed in the end."""
    mine = os.path.join(path, PREFIX + _marker[:12])
    os.write(_pipe, os.fsencode(mine) + b"\0")
    return mine


def _watch(pipe: int, marker: str) -> None:
    """Wait for the end of the errand, out of reach of what ends it, then clear up."""
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    told = b""
    while True:
        data = os.read(pipe, 4096)
        if not data:
            break
        told += data
    for _ in range(TRIES):
        if not _kill(marker):
            break
        time.sleep(PAUSE_S)
    for folder in sorted(set(told.split(b"\0")) - {b""}):
        if os.path.basename(folder).startswith(os.fsencode(PREFIX)):
            shutil.rmtree(os.fsdecode(folder), ignore_errors=True)


def _kill(marker: str) -> List[int]:
    """Kill the errand's programs; return which were found."""
    word = ("%s=%s" % (VARIABLE, marker)).encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                if word in file.read(1 << 20).split(b"\0"):
                    os.kill(int(name), signal.SIGKILL)
                    found.append(int(name))
        except OSError:
            continue
    return found
