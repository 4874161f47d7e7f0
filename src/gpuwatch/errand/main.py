"""The loop: one request a line on stdin, one answer a line on stdout, until stdin ends."""

import _thread
import json
import os
import select
import sys
import time
from typing import Any, Callable, Dict

from gpuwatch.errand import files, programs, reach, reads, watcher

SILENCE_S = 30.0
"""Without a word from the viewer for so long, it is gone."""
MAX_LINE = 1 << 20
OPERATIONS: Dict[str, Callable[..., Dict[str, Any]]] = {
    "beat": dict,
    "run": programs.run,
    "start": programs.start,
    "stop": programs.stop,
    "which": programs.which,
    "read": reads.read,
    "links": reads.links,
    "connect": reach.connect,
    "listens": reach.listens,
    "folder": files.folder,
    "remove": files.remove,
    "tree": files.tree,
    "visit": files.visit,
    "write": files.write,
    "scan": files.scan,
}
"""By name: what a request may ask for, with its other words as arguments."""


def run(config: Dict[str, Any]) -> None:
    """Answer until the viewer is gone. Does not return: ends the process.

    Args:
        config: `marker`, a word that tells what belongs to this errand.
    """
    watcher.begin(str(config["marker"]))
    lock = _thread.allocate_lock()
    say(lock, {"id": 0, "python": "%d.%d.%d" % sys.version_info[:3], "uid": os.getuid()})
    waiting = b""
    heard_at = time.monotonic()
    while True:
        left_s = heard_at + SILENCE_S - time.monotonic()
        ready, _, _ = select.select([0], [], [], max(0.0, left_s))
        data = os.read(0, 1 << 16) if ready else b""
        if not data or len(waiting) > MAX_LINE:
            os._exit(0)
        heard_at = time.monotonic()
        *lines, waiting = (waiting + data).split(b"\n")
        for line in lines:
            _thread.start_new_thread(answer, (lock, json.loads(line.decode("utf-8"))))


def answer(lock: Any, request: Dict[str, Any]) -> None:
    """Do one request, and say what came of it."""
    number = request.pop("id")
    began = time.monotonic()
    try:
        found = OPERATIONS[request.pop("op")](**request)
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        found = {"error": reason or type(error).__name__}
    found.update(id=number, seconds=time.monotonic() - began)
    say(lock, found)


def say(lock: Any, words: Dict[str, Any]) -> None:
    """Send one line; who cannot be told any more needs nothing any more."""
    line = json.dumps(words).encode("ascii") + b"\n"
    with lock:
        try:
            while line:
                line = line[os.write(1, line) :]
        except OSError:
            os._exit(0)
