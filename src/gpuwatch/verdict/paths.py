"""Ways between nodes of the job, as the connections of its ranks tell of them, and whose a fault is.

A round trip is long at both ends of a path, loss is counted by the end that sends. A node is at
fault when all of its ways are bad and all bad ways are its own; else the ways themselves are named.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gpuwatch.model.verdict import Culprit
from gpuwatch.verdict.causes import trip
from gpuwatch.verdict.evidence import Context
from gpuwatch.verdict.features import Connection

__all__ = ["Blamed", "Path", "joined", "of_rank", "whose_lossy", "whose_slow"]

Way = tuple[str, str]

_SLOW = 0.5
"""How surely some way must be slow for round trips to be what is wrong,"""
_SLOW_TOO = 0.3
"""and how surely the others then are: answers of a far end behind a bad path swing as well."""
_LOSSY_TOO = 0.25
"""Loss below this share of the worst way's comes with it: spurious retransmits on late answers."""
_NODE_CAP = 0.8
"""A node whose ways are all bad may be behind a bad port of the switch."""
_PATH_CAP = 0.7
"""Of the two ends of a path either may be at fault."""
_MOST_PATHS = 3
"""Bad ways that have no node in common are named one by one up to this many."""


class Path(msgspec.Struct, frozen=True, gc=False):
    """The way from one node to another, as the first sees it.

    `slow` tells how surely it is that, 0 to 1; `lossy` which share of segments surely is sent again.
    None where too little is sent to say.
    """

    start: str
    end: str
    slow: float | None
    lossy: float | None


class Blamed(msgspec.Struct, frozen=True, gc=False):
    """Whom bad ways belong to, how surely at most, and whether that is one of two ends."""

    culprits: tuple[Culprit, ...]
    cap: float
    either: bool = False


def of_rank(node: str, context: Context) -> tuple[Path, ...]:
    """Return the ways of one rank to other nodes of the job."""
    homes = context.peers.homes
    connections = context.rank.connections if context.rank else ()
    found = [
        Path(node, homes[c.peer], _slow(context, c), c.again_low)
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


def whose_slow(paths: Sequence[Path]) -> Blamed | None:
    """Return whom slow ways of all nodes belong to; None where none is slow, or none is known."""
    known: dict[Way, float] = {}
    for path in paths:
        if path.slow is not None:
            way = (min(path.start, path.end), max(path.start, path.end))
            known[way] = max(path.slow, known.get(way, 0.0))
    worst = max(known.values(), default=0.0)
    bad = sorted(way for way, badness in known.items() if badness >= _SLOW_TOO)
    return _blamed(bad, known, both_ways=True) if worst >= _SLOW else None


def whose_lossy(paths: Sequence[Path], retransmit: float) -> Blamed | None:
    """Return whom lossy ways of all nodes belong to; None where none is lossy, or none is known.

    Args:
        paths: of all nodes.
        retransmit: share of segments sent again above which a way is lossy.
    """
    known = {(path.start, path.end): path.lossy for path in paths if path.lossy is not None}
    worst = max(known.values(), default=0.0)
    bad = sorted(w for w, share in known.items() if share >= max(retransmit, _LOSSY_TOO * worst))
    return _blamed(bad, known, both_ways=False) if bad else None


def _blamed(bad: Sequence[Way], known: Mapping[Way, float], *, both_ways: bool) -> Blamed:
    pairs = {frozenset(way) for way in bad}
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


def _in_common(bad: Sequence[Way], known: Mapping[Way, float], ends: Sequence[int]) -> list[str]:
    """Return the nodes that are at one of these ends of all bad ways, and there at no good one."""

    def at(way: Way) -> set[str]:
        return {way[end] for end in ends}

    shared = set.intersection(*(at(way) for way in bad))
    return sorted(n for n in shared if not any(n in at(w) for w in known if w not in bad))


def _all(ways: Iterable[Way]) -> Culprit:
    return Culprit("job", "network", tuple(sorted({node for way in ways for node in way})))


def _path(way: Sequence[str], *, both: bool) -> Culprit:
    return Culprit("path", (" <-> " if both else " -> ").join(way), tuple(way))


def _slow(context: Context, connection: Connection) -> float | None:
    return trip.severity_of(context, connection) if connection.trip_ms else None


def _worse(one: float | None, other: float | None) -> float | None:
    return max((v for v in (one, other) if v is not None), default=None)
