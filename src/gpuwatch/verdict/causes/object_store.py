"""STORAGE/object: loaders wait for answers of a store that they talk to over the network.

A thread that sleeps in poll tells nothing: an idle queue looks alike. The rank's sockets do: its
loaders have connections to an address that no rank's main process talks to, and bytes come.
"""

from gpuwatch.verdict.evidence import (
    NOTHING,
    STARTING_CAP,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    input_lost,
    number,
    percent,
    ramp,
    starting,
)
from gpuwatch.verdict.features import Connection

NAME = Kind("STORAGE", "object")
_WAITS = ("poll", "socket")
_TRICKLE_MB_S = 0.01
"""What less comes by is no data set."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, lost, loader = context.thresholds, input_lost(context), context.role("loader")
    opened, store = gate(lost, t), busiest(context)
    if opened == 0 or store is None or loader.waits is None:
        return NOTHING
    asks = loader.waits.share(*_WAITS)
    running = loader.waits.share("run", "ready")
    received = store.received_mb_s or 0.0
    return assessment(
        context,
        NAME,
        opened * ramp(asks, t.storage_wait / 2, 2 * t.storage_wait) * 0.95
        - 0.5 * ramp(running, 0.3, 0.8),
        text=f"waits for answers of {store.peer}: loaders in poll {asks * 100:.0f} % while its GPU"
        f" was starved, {received:.2g} MB/s come",
        support=(
            percent("thread_wait.loader.poll", asks, t.storage_wait, "loaders in poll or a socket"),
            percent("gpu.starved", lost, t.lost, "GPU starved"),
            number("connection.received_bytes", received, "MB/s", None, "the store sends"),
            number("connection.rtt", store.trip_ms, "ms", None, "round trip to it"),
        ),
        against=(percent("thread_wait.loader.run", running, None, "loaders on a CPU or ready"),),
        signals=(Signal("threads.wchan", context.role("main").waits is not None, 0.1),),
        cap=STARTING_CAP if starting(context) else 1.0,
        place=store.peer,
    )


def busiest(context: Context) -> Connection | None:
    """Return the loaders' connection that brings most, of those that lead to no rank."""
    if context.rank is None:
        return None
    ours = {c.peer for c in context.rank.connections if c.role == "main"}
    stores = [
        c
        for c in context.rank.connections
        if c.role == "loader"
        and (c.received_mb_s or 0.0) >= _TRICKLE_MB_S
        and _address(c) not in ours
        and _address(c) not in context.peers.homes
    ]
    return max(stores, key=lambda c: (c.received_mb_s or 0.0, c.peer), default=None)


def _address(connection: Connection) -> str:
    return connection.peer.rpartition(":")[0].strip("[]")


__all__ = ["NAME", "assess", "busiest"]
