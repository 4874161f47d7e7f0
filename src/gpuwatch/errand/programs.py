"""Programs: one that is waited for, or one that serves meanwhile."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any, Dict, List, Optional

from gpuwatch.errand import watcher

LIMIT = 256 * 1024
"""Bytes that are told of what a program printed: its end."""
PLACES = ("/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/local/bin")
"""Where tools lie that a plain user's PATH may lack."""

MEMORY = "/dev/shm"  # noqa: S108 - for files without a name, which nobody else can open
_running: Dict[str, "subprocess.Popen[bytes]"] = {}


def which(names: List[str]) -> Dict[str, Any]:
    """Return where each of these programs lies, None where there is none."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *PLACES])
    return {"found": {name: shutil.which(name, path=path) for name in names}}


def run(argv: List[str], timeout_s: float, folder: Optional[str] = None) -> Dict[str, Any]:
    """Run a program to its end.

    Args:
        argv: its words; the first is a path, or found where `which` looks.
        timeout_s: after which it is killed with all that it started.
        folder: to run it in.

    Returns:
        `status` (None: it took too long), and the end of `out` and `err`.
    """
    out, err = _nameless(), _nameless()
    process = _popen(argv, out, err, folder)
    status: Optional[int] = None
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
    return {"status": status, "out": _tail(out), "err": _tail(err)}


def start(name: str, argv: List[str]) -> Dict[str, Any]:
    """Start a program that serves until `stop`, under a name; one that has the name already is ended."""
    stop(name)
    _running[name] = _popen(argv, subprocess.DEVNULL, subprocess.DEVNULL, None)
    return {"pid": _running[name].pid}


def stop(name: str) -> Dict[str, Any]:
    """End a program that was started; tell whether it still ran."""
    process = _running.pop(name, None)
    if process is None:
        return {"ran": False}
    ran = process.poll() is None
    _end(process)
    return {"ran": ran}


def _popen(argv: List[str], out: Any, err: Any, folder: Optional[str]) -> "subprocess.Popen[bytes]":
    found = which([argv[0]])["found"][argv[0]]
    if found is None:
        raise FileNotFoundError(2, "not found: %s" % argv[0])
    return subprocess.Popen(
        [found, *argv[1:]], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder,
        env=watcher.marked(), start_new_session=True,
    )  # fmt: skip


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a program with its process group: asked first, then killed."""
    for number, patience_s in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        until = time.monotonic() + patience_s
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)


def _nameless() -> Any:
    return tempfile.TemporaryFile(dir=MEMORY)


def _tail(file: Any) -> str:
    """Return the end of a file, and let go of it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LIMIT))
    text = file.read(LIMIT).decode("utf-8", "replace")
    file.close()
    return str(text)
