"""Faults of the network: whose port, which path, or the fabric.

Loss belongs to a path, and is counted by its sender; the far end shows segments out of order.
"""

from collections.abc import Sequence

import msgspec

from gpuwatch.model.verdict import Culprit
from gpuwatch.verdict.causes import loss, pauses, rdma, trip
from gpuwatch.verdict.charge import Charge, of_state
from gpuwatch.verdict.evidence import Assessment, Kind
from gpuwatch.verdict.paths import Blamed, whose_lossy, whose_slow
from gpuwatch.verdict.rank import Opinion
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["faulty_nodes", "network"]

_PATH_CAP = 0.7
"""Of two nodes, loss on the way out of one is as well loss on the way into the other."""
_SENDER_CAP = 0.8
"""The sender counts what is lost: it may be lost on the way into the one that it sends to."""
_ASTRAY_CAP = 0.5
"""Loss whose far end is guessed, or is no node of the job that shows it, may be elsewhere."""
_ONES = ("node", "port")
"""Culprits that are on one node, which then waits for nobody."""
_OF_A_PORT = ("link", "bandwidth", "fallback", "softirq")
"""What a node's own ports and CPUs show is its own."""
_MINOR = 0.25
"""Loss below this share of the worst node's comes with it: spurious retransmits on late answers."""


def faulty_nodes(nodes: Sequence[Opinion], t: Thresholds) -> list[tuple[Opinion, Assessment]]:
    """Return the nodes whose network is at fault by their own counters."""
    pairs = [(node, of_state(node, "NETWORK")) for node in nodes]
    return [(n, a) for n, a in pairs if a is not None and a.confidence >= t.score]


def network(nodes: Sequence[Opinion], t: Thresholds) -> list[Charge]:
    """Charge a port, path or the fabric; loss belongs to a path, and is counted by its sender."""
    faulty = faulty_nodes(nodes, t)
    if not faulty:
        return []
    kinds: dict[Kind, list[tuple[Opinion, Assessment]]] = {}
    for node, found in faulty:
        kinds.setdefault(Kind(found.state, found.cause), []).append((node, found))
    path, queue = trip.NAMES
    if queue in kinds and path in kinds:  # a queue makes round trips long at both its ends
        ends = [(n, a) for n, a in kinds[path] if _by_trips(a)]
        others = [(n, a) for n, a in kinds.pop(path) if not _by_trips(a)]
        kinds[queue] += ends
        if others:
            kinds[path] = others
    made = []
    for kind, told in kinds.items():
        if all(_echoes(a) for _, a in told) and _told(kind, nodes, t) is None:
            continue
        every = [(n, a) for n, a in told if _holds_up(a)] or told
        worst = max(_lost(a) for _, a in every)
        pairs = [(n, a) for n, a in every if _lost(a) >= _MINOR * worst]
        surest = max((a for _, a in pairs if Kind(a.state, a.cause) == kind), key=_sureness)
        score = sum(sorted(a.confidence for _, a in pairs)) / len(pairs)
        culprits, cap, text = _where(kind, pairs, nodes, surest, t)
        blamed = {c for culprit in culprits for c in culprit.nodes if culprit.kind in _ONES}
        waiting = tuple(n.node for n in nodes if n.node not in blamed and (n.wait or 0.0) >= t.lost)
        found = msgspec.structs.replace(surest, score=score, coverage=1.0, cap=cap, text=text)
        made.append(Charge(found, culprits, waiting))
    return made


def _by_trips(found: Assessment) -> bool:
    return any(f.metric == "connection.rtt" for f in found.support)


def _holds_up(found: Assessment) -> bool:
    """Tell whether a port pauses or drops what is sent to it: ports that are paused are its victims."""
    return any(f.metric.endswith((f".{rdma.HOLDS}", f".{pauses.DROPS}")) for f in found.support)


def _echoes(found: Assessment) -> bool:
    """Tell whether a node says no more than that the job's verdict already blames its network."""
    return any(f.metric == loss.FAR_END for f in found.support)


def _sureness(found: Assessment) -> tuple[float, str]:
    return found.confidence, found.text


def _lost(found: Assessment) -> float:
    """Return which share of segments was sent again; 0 where that is not what was found."""
    rates = (f.value for f in found.support if f.metric == "tcp_retrans_segs")
    return next(rates, None) or 0.0


def _where(
    kind: Kind,
    pairs: Sequence[tuple[Opinion, Assessment]],
    nodes: Sequence[Opinion],
    surest: Assessment,
    t: Thresholds,
) -> tuple[tuple[Culprit, ...], float, str]:
    """Return whom a network fault belongs to, how surely at most, and what to say of it."""
    text, faulty = surest.text, [n.node for n, _ in pairs]
    of_port = kind.cause in _OF_A_PORT or _holds_up(surest)
    if not of_port and (told := _told(kind, nodes, t)):
        return (
            told.culprits,
            told.cap,
            f"{text}; either end may be at fault" if told.either else text,
        )
    if _by_trips(surest) and len(nodes) > 2:  # seen at both ends, and one of them is not known
        text = f"{text}; which node it leads to is not known"
        return (Culprit("job", "network", tuple(faulty)),), _ASTRAY_CAP, text
    own = tuple(_one(node.node, found.place) for node, found in pairs)
    if len(faulty) == len(nodes) > 2:
        everyone = Culprit("job", "network", tuple(faulty))
        return (everyone,), _PATH_CAP, text
    if of_port:
        return own, 1.0, text
    if len(nodes) == 2:
        ends = sorted(n.node for n in nodes)
        path = _path(faulty[0], ends, both=len(faulty) == len(ends))
        return (path,), _PATH_CAP, f"{text}; either end may be at fault"
    far = _far_ends(nodes, t)
    if far is None and len(faulty) == len(nodes) - 1:
        rest = next(n.node for n in nodes if n.node not in faulty)
        text = "is what all others lose packets to: its way in is suspected, or theirs out"
        return (Culprit("node", rest, (rest,)),), _ASTRAY_CAP, text
    if far is None:
        return own, _SENDER_CAP, f"{text}; the way out is suspected, or the way to whom it sends"
    if len(far) > 1 and len(faulty) > 1:
        among = tuple(sorted({*faulty, *far}))
        return (Culprit("job", "network", among),), _PATH_CAP, f"{text}, among {len(among)} nodes"
    if len(far) == 1 and len(faulty) > 1:
        text = f"loses packets on its way in: {len(faulty)} nodes send again to it"
        return (Culprit("node", far[0], (far[0],)),), _SENDER_CAP, text
    if len(far) == 1 and far[0] != faulty[0]:
        path = _path(faulty[0], [faulty[0], far[0]], both=False)
        return (path,), _PATH_CAP, f"{text}; either end may be at fault"
    if far:
        return own, _SENDER_CAP, f"{text}; its way out is suspected"
    return own, _ASTRAY_CAP, f"{text}, to no node of this job that shows it"


def _told(kind: Kind, nodes: Sequence[Opinion], t: Thresholds) -> Blamed | None:
    """Return whom the job's own connections blame; None where they show no such fault."""
    paths = [path for node in nodes for path in node.paths]
    if kind in trip.NAMES and (slow := whose_slow(paths)):
        return slow
    return whose_lossy(paths, t.retransmit) if kind in (loss.NAME, *trip.NAMES) else None


def _far_ends(nodes: Sequence[Opinion], t: Thresholds) -> list[str] | None:
    """Return the nodes that segments come to out of order; None where that is not known."""
    shares = {n.node: n.disorder for n in nodes if n.disorder is not None}
    if len(shares) < len(nodes):
        return None
    limit = max(t.out_of_order, _MINOR * max(shares.values()))
    return sorted(node for node, share in shares.items() if share >= limit)


def _one(node: str, port: str | None) -> Culprit:
    """Name a node's port, or the node where no port is known to be bad."""
    return Culprit("port", f"{port} of {node}", (node,)) if port else Culprit("node", node, (node,))


def _path(sender: str, ends: Sequence[str], *, both: bool) -> Culprit:
    """Name the path between two nodes, from the one that sends again; both ends belong to it."""
    if both:
        return Culprit("path", " <-> ".join(ends), tuple(ends))
    receiver = next(name for name in ends if name != sender)
    return Culprit("path", f"{sender} -> {receiver}", (sender, receiver))
