"""Ways between nodes of the job, as the connections of its ranks tell of them, and whose a fault is.

A round trip is long at both ends of a path, loss is counted by the end that sends. A node is at
fault when all of its ways are bad and all bad ways are its own; else the ways themselves are named.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gpuwatch.model.verdict import Culprit
from gpuwatch.verdict.causes import trip
from gpuwatch.verdict.evidence import Context, ramp
from gpuwatch.verdict.features import Connection

__all__ = ["Blamed", "Path", "joined", "of_rank", "whose"]

_BAD = 0.5
"""How surely a way is slow or lossy for it to count as bad."""
_NODE_CAP = 0.8
"""A node whose ways are all bad may be behind a bad port of the switch."""
_PATH_CAP = 0.7
"""Of the two ends of a path either may be at fault."""
_MOST_PATHS = 3
"""Bad ways that have no node in common are named one by one up to this many."""


class Path(msgspec.Struct, frozen=True):
    """The way from one node to another, as the first sees it.

    `slow` and `lossy` tell how surely it is that, 0 to 1; None where too little is sent to say.
    """

    start: str
    end: str
    slow: float | None
    lossy: float | None


class Blamed(msgspec.Struct, frozen=True):
    """Whom bad ways belong to, how surely at most, and whether that is one of two ends."""

    culprits: tuple[Culprit, ...]
    cap: float
    either: bool = False


def of_rank(node: str, context: Context) -> tuple[Path, ...]:
    """Return the ways of one rank to other nodes of the job."""
    homes = context.peers.homes
    connections = context.rank.connections if context.rank else ()
    found = [
        Path(node, homes[c.peer], _slow(context, c), _lossy(context, c))
        for c in connections
        if c.role == "main" and homes.get(c.peer, node) != node
    ]
    return joined(found)


def joined(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return one path for each pair of ends, as bad as the worst that is known of it."""
    found: dict[tuple[str, str], Path] = {}
    for path in paths:
        other = found.get((path.start, path.end), path)
        found[path.start, path.end] = Path(
            path.start, path.end, _worse(path.slow, other.slow), _worse(path.lossy, other.lossy)
        )
    return tuple(found[key] for key in sorted(found))


def whose(paths: Sequence[Path], *, slow: bool) -> Blamed | None:
    """Return whom bad ways belong to; None where none is bad, or none is known.

    Args:
        paths: of all nodes.
        slow: whether round trips are looked at, which both ends have in common; else loss.
    """
    known: dict[tuple[str, ...], float] = {}
    for path in paths:
        badness = path.slow if slow else path.lossy
        if badness is not None:
            ends = (path.start, path.end)
            key = tuple(sorted(ends)) if slow else ends
            known[key] = max(badness, known.get(key, 0.0))
    bad = sorted(key for key, badness in known.items() if badness >= _BAD)
    if not bad:
        return None
    return _blamed(bad, known, both_ways=slow)


def _blamed(
    bad: Sequence[tuple[str, ...]], known: Mapping[tuple[str, ...], float], *, both_ways: bool
) -> Blamed:
    pairs = {tuple(sorted(way)) for way in bad}
    if len(pairs) == 1:
        way = bad[0] if len(bad) == 1 and not both_ways else tuple(sorted(bad[0]))
        return Blamed((_path(way, both=both_ways or len(bad) > 1),), _PATH_CAP, either=True)
    if len(bad) == len(known):
        return Blamed((_all(bad),), _PATH_CAP)
    for ends in ((0, 1),) if both_ways else ((0,), (1,), (0, 1)):
        nodes = _in_common(bad, known, ends)
        if len(nodes) == 1:
            return Blamed((Culprit("node", nodes[0], (nodes[0],)),), _NODE_CAP)
    if len(bad) <= _MOST_PATHS:
        return Blamed(tuple(_path(way, both=both_ways) for way in bad), _PATH_CAP, either=True)
    return Blamed((_all(bad),), _PATH_CAP)


def _in_common(
    bad: Sequence[tuple[str, ...]], known: Mapping[tuple[str, ...], float], ends: Sequence[int]
) -> list[str]:
    """Return the nodes that are at one of these ends of all bad ways, and there at no good one."""

    def at(way: tuple[str, ...]) -> set[str]:
        return {way[end] for end in ends}

    shared = set.intersection(*(at(way) for way in bad))
    return sorted(n for n in shared if not any(n in at(w) for w in known if w not in bad))


def _all(ways: Iterable[tuple[str, ...]]) -> Culprit:
    return Culprit("job", "network", tuple(sorted({node for way in ways for node in way})))


def _path(way: Sequence[str], *, both: bool) -> Culprit:
    return Culprit("path", (" <-> " if both else " -> ").join(way), tuple(way))


def _slow(context: Context, connection: Connection) -> float | None:
    return trip.severity_of(context, connection) if connection.trip_ms else None


def _lossy(context: Context, connection: Connection) -> float | None:
    limit = context.thresholds.retransmit
    if connection.again_low is None:
        return None
    return ramp(connection.again_low, limit / 2, 2 * limit)


def _worse(one: float | None, other: float | None) -> float | None:
    return max((v for v in (one, other) if v is not None), default=None)
