"""Reaching another node over TCP: how long a connection takes to come about, whether one serves."""

import socket
import time
from typing import Any, Dict, List, Optional


def connect(host: str, port: int, times: int, pause_s: float, timeout_s: float) -> Dict[str, Any]:
    """Connect again and again; return milliseconds each, None where no answer came.

    A connection that is refused was answered by the other kernel, in the same round trip.
    """
    took_ms: List[Optional[float]] = []
    for _ in range(times):
        began = time.perf_counter()
        try:
            socket.create_connection((host, port), timeout_s).close()
            took_ms.append((time.perf_counter() - began) * 1e3)
        except ConnectionRefusedError:
            took_ms.append((time.perf_counter() - began) * 1e3)
        except OSError:
            took_ms.append(None)
        time.sleep(pause_s)
    return {"ms": took_ms}


def listens(port: int, timeout_s: float) -> Dict[str, Any]:
    """Wait until something on this node listens on a port; tell whether it does."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        try:
            for family in ("tcp", "tcp6"):
                with open("/proc/net/" + family) as table:
                    for line in table:
                        words = line.split()
                        if words[3] == "0A" and words[1].endswith(":%04X" % port):
                            return {"listens": True}
        except OSError:
            pass
        time.sleep(0.02)
    return {"listens": False}
