"""NETWORK/path and NETWORK/congestion by round trips: a delay moves no other counter.

A round trip is long beside what the same rank had while its GPU did full work: a step's own
exchange fills queues, and that is no fault. One that swings, or comes with loss, or whose
connection has data under way all the time, has a queue on its way; one that is long and even has
none.
"""

import msgspec

from gpuwatch.verdict.evidence import (
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    number,
    once,
    percent,
    ramp,
    waiting,
)
from gpuwatch.verdict.features import Connection
from gpuwatch.verdict.losses import lossy, reordering

NAMES = (Kind("NETWORK", "path"), Kind("NETWORK", "congestion"))
_LONGER = (2.0, 4.0)
"""How many times the trip of good minutes is still clean, and from where on it is bad."""
_SWINGS = 0.15
"""Mean deviation of round trips, as a share of them, from which on a queue comes and goes."""
_FULL = 0.9
"""Share of time with data under way from which on a path carries no more: what is sent stands in a queue."""
_ECHO = (0.6, 0.9)
"""Swing from which trips are long because segments are lost: a queue that stands is long for all."""
_UNSURE = 0.4
"""What trips that swing and lose nothing are worth: a far end that is short of CPU answers late too."""
_MOVES = 0.05
"""MB/s below which trips that swing are those of a rendezvous store's heartbeats."""
_LATE_CAP = 0.5
"""Without good minutes to compare with, a long way may be all that this network has."""


class Trips(msgspec.Struct, frozen=True, gc=False):
    """The slowest of a rank's paths to other ranks."""

    worst: Connection
    severity: float


@once
def trips(context: Context) -> Trips | None:
    """Return how a rank's paths do; None where no round trip is known."""
    known = paths(context)
    if not known:
        return None
    rated = [(severity_of(context, c), c.peer, c) for c in known]
    severity, _, worst = max(rated, key=lambda r: r[:2])
    return Trips(worst, severity)


@once
def paths(context: Context) -> list[Connection]:
    """Return the connections of a rank's main process of which the round trip is known.

    Only those to nodes of the job, where some are known to lead there: a logger or a store far
    away is nothing to compare with.
    """
    if context.rank is None:
        return []
    every = [c for c in context.rank.connections if c.role == "main"]
    ours = [c for c in every if c.peer in context.peers.homes]
    return [c for c in ours or every if c.trip_ms]


def severity(context: Context) -> float:
    """Return how surely a path of the rank is slow, 0 to 1."""
    found = trips(context)
    return found.severity if found else 0.0


def queued(context: Context) -> float:
    """Return how surely the rank's slowest path has a queue on its way, 0 to 1."""
    found = trips(context)
    return found.severity if found and _queue(context, found.worst) else 0.0


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, found, wait = context.thresholds, trips(context), waiting(context)
    if found is None or found.severity == 0:
        return Assessment(*NAMES[0], 0.0)
    trip, usual = found.worst.trip_ms or 0.0, context.gpu.trip_ms
    known = usual or context.gpu.least_trip_ms
    queue, is_full = _queue(context, found.worst), _full(found.worst)
    against = f", {usual:.1f} ms in good minutes" if usual else ""
    what = "with nothing lost"
    if queue:
        sent = found.worst.sent_mb_s or 0.0
        what = (
            f"and {sent:.2g} MB/s are all it carries" if is_full else "that swing: a queue is full"
        )
    return assessment(
        context,
        NAMES[queue],
        _felt(context, found, wait) * found.severity * 0.95,
        text=f"has a slow path to {found.worst.peer}: round trips of {trip:.0f} ms{against}, {what}",
        support=(
            number("connection.rtt", trip, "ms", t.round_trip * 1e3, "round trip"),
            number("connection.rtt_usual", usual, "ms", None, "in good minutes"),
            percent("connection.rtt_var", found.worst.swing, _SWINGS, "swing of it"),
            percent("connection.busy", found.worst.busy, _FULL, "time with data under way"),
            percent("wait", wait, t.lost, "GPU waits for others"),
        ),
        against=(
            percent(
                "connection.retransmits", found.worst.again, t.retransmit, "segments sent again"
            ),
            percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),
        ),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=_LATE_CAP if not known or trip < _LONGER[1] * known else 1.0,
    )


def _felt(context: Context, found: Trips, wait: float) -> float:
    """Return how much a slow path costs, 0 to 1.

    Moving data draws power, so a GPU that does seems to compute in part; the connection itself
    tells for how long data was under way. What is exchanged beside the computing costs nothing:
    the job loses time by its GPUs' power, or by its own log.
    """
    t = context.thresholds
    lost = max(1 - context.gpu.shares.compute, context.peers.lost)
    moved = gate(found.worst.busy or 0.0, t) * ramp(lost, t.slowdown, 2 * t.slowdown)
    return max(gate(wait, t), moved)


def severity_of(context: Context, connection: Connection) -> float:
    """Return how surely one path is slow, 0 to 1."""
    trip, usual = connection.trip_ms or 0.0, context.gpu.trip_ms
    limit = context.thresholds.round_trip * 1e3
    long = ramp(trip, limit / 2, 2 * limit)
    if long == 0:
        return 0.0
    if _loses(context, connection):
        long *= 1 - ramp(connection.swing, *_ECHO)
    elif _swings(connection) and not _full(connection):
        long *= _UNSURE if (connection.sent_mb_s or 0.0) >= _MOVES else 0.0
    if usual is None:
        usual = context.gpu.least_trip_ms or limit / 2
    return long * max(ramp(trip / usual, *_LONGER), ramp(trip / _fastest(context, trip), *_LONGER))


def _queue(context: Context, connection: Connection) -> bool:
    """Tell whether a long trip is spent in a queue."""
    return _loses(context, connection) or _full(connection) or _swings(connection)


def _loses(context: Context, connection: Connection) -> bool:
    again = (connection.again or 0.0) >= context.thresholds.retransmit
    return again or lossy(context) * (1 - reordering(context)) > 0


def _full(connection: Connection) -> bool:
    return (connection.busy or 0.0) >= _FULL


def _swings(connection: Connection) -> bool:
    return (connection.swing or 0.0) >= _SWINGS


def _fastest(context: Context, trip: float) -> float:
    """Return the shortest round trip on any of the job's paths, as far as they are known."""
    known = [c.trip_ms for c in paths(context) if c.trip_ms]
    return min([trip, *known, *filter(None, [context.peers.fastest_ms])])


__all__ = ["NAMES", "assess", "paths", "queued", "severity", "severity_of", "trips"]
