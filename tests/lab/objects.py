"""An object store for the lab: serves a folder over HTTP, as late as a file tells it to.

    python objects.py FOLDER PORT

Runs on a node: standard library only. It also makes its kernel forget cached files all the time,
so that a folder which it, or an NFS server beside it, serves comes from the disk.
"""

import functools
import sys
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LATENCY = Path("/run/objects-latency")
"""Seconds from a request to its answer's first byte; no file: at once."""
FORGET_S = 0.1


class Handler(SimpleHTTPRequestHandler):
    """Answers a GET when its time has come; connections stay open, as clients of stores keep them."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer one request."""
        if LATENCY.exists():
            time.sleep(float(LATENCY.read_text()))
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name it overrides)
        """Keep silent."""


def forget() -> None:
    """Drop clean pages from the page cache, for ever (see vm.drop_caches of the kernel)."""
    switch = Path("/proc/sys/vm/drop_caches")
    switch.write_text("4")  # from now on, without a line in the kernel's log
    while True:
        switch.write_text("1")
        time.sleep(FORGET_S)


if __name__ == "__main__":
    threading.Thread(target=forget, daemon=True).start()
    handler = functools.partial(Handler, directory=sys.argv[1])
    ThreadingHTTPServer(("", int(sys.argv[2])), handler).serve_forever()
