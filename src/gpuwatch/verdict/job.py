"""The job: who is to blame, and who waits for it.

Nodes are joined by a barrier at each step: waiters wait, and the culprit does something else. So
the node that waits least is looked at first; when all wait, a fault of the network; when all do
the same thing, nobody is blamed.
"""

from collections.abc import Sequence

import msgspec

from gpuwatch.model.verdict import Candidate, Culprit, Finding
from gpuwatch.verdict.evidence import Assessment, Kind, percent, ramp
from gpuwatch.verdict.hysteresis import Claim
from gpuwatch.verdict.node import combine, least_waiting, precedence
from gpuwatch.verdict.rank import Opinion, mean, name_of
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Charge", "Unseen", "charges"]

_IMBALANCE_CAP = 0.6
"""A healthy node that others wait for may have more work, or a fault that is not seen."""
_PATH_CAP = 0.7
"""Of two nodes, loss on the way out of one is as well loss on the way into the other."""
_SENDER_CAP = 0.8
"""The sender counts what is lost: it may be lost on the way into the one that it sends to."""
_ASTRAY_CAP = 0.5
"""Loss whose far end is guessed, or is no node of the job that shows it, may be elsewhere."""
_MINOR = 0.25
"""Loss below this share of the worst node's comes with it: spurious retransmits on late answers."""
_PART_CAP = 0.5
"""What a part of the nodes does and nobody waits for need not hold up the job."""
_LOCAL = ("STORAGE", "CPU", "GPU")


class Unseen(msgspec.Struct, frozen=True):
    """Nodes of the job without fresh samples, and how many of its ranks are on no node seen.

    `empty` are nodes that are seen and have nothing of the job.
    """

    nodes: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    ranks: int = 0
    share: float = 0.0


class Charge(msgspec.Struct, frozen=True):
    """One thing that may be said of the job: evidence, who is to blame, who waits."""

    found: Assessment
    culprits: tuple[Culprit, ...] = ()
    waiting: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()

    @property
    def claim(self) -> Claim:
        """Return what is followed over time."""
        return Claim(self.found.state, self.found.cause, self.culprits)


def charges(
    nodes: Sequence[Opinion], ranks: Sequence[Opinion], unseen: Unseen, t: Thresholds
) -> tuple[Charge, ...]:
    """Return what may be said of the job, likeliest first; never empty.

    Args:
        nodes: fresh nodes that take part, in any order.
        ranks: their ranks.
        unseen: what could be to blame and is not seen.
        t: thresholds of the judge.
    """
    found = [*_least(nodes, ranks, t), *_network(nodes, t), *_alike(nodes, t)]
    found = [_discounted(charge, unseen) for charge in found if charge.found.confidence > 0]
    found += _puzzles(nodes, ranks, unseen, t)
    found.sort(key=lambda c: precedence(c.found))
    return (*found, _unknown(nodes))


def _least(nodes: Sequence[Opinion], ranks: Sequence[Opinion], t: Thresholds) -> list[Charge]:
    """Charge the nodes that wait clearly less than the others; on one node, its ranks."""
    waits = [node.wait for node in nodes]
    if len(nodes) == 1:
        return _inside(nodes[0], ranks, t)
    chosen = least_waiting(waits, t.wait_spread)
    low = [nodes[i] for i in chosen]
    if not low or len(low) > max(1.0, t.culprit_share * len(nodes)):
        return []
    known = [wait for wait in waits if wait is not None]
    spread = max(known) - min(known)
    waiting = tuple(
        n.node
        for n in nodes
        if n not in low and n.wait is not None and n.wait >= min(known) + t.wait_spread
    )
    culprits = tuple(c for node in low for c in _culprits(node))
    sure = 0.7 + 0.3 * ramp(spread, t.wait_spread, 2 * t.wait_spread)
    gap = Finding(
        "wait_spread", spread * 100, "%", t.wait_spread * 100,
        f"others wait {spread * 100:.0f} % more of the time, over {t.wait_spread * 100:.0f} %",
    )  # fmt: skip
    made = []
    for found in combine(low):
        if found.state in _LOCAL:
            made.append(Charge(_joined(found, gap, found.score * sure), culprits, waiting))
        elif found.state == "COMPUTE" and not _faulty(nodes, t):
            score = min(_IMBALANCE_CAP, found.score * sure)
            even = msgspec.structs.replace(
                _joined(found, gap, score), cause="imbalance",
                text=f"has more to compute than others, or is slower: it computes"
                f" {spread * 100:.0f} % more of the time and no fault is seen",
            )  # fmt: skip
            made.append(Charge(even, culprits, waiting))
    return made


def _inside(node: Opinion, ranks: Sequence[Opinion], t: Thresholds) -> list[Charge]:
    """Charge the ranks of a single node that its other ranks wait for."""
    if not node.low:
        return []
    waiting = tuple(
        name_of(node.node, r.rank)
        for r in ranks
        if r.rank and r.rank not in node.low and (r.wait or 0.0) >= t.wait_spread
    )
    culprits = _culprits(node)
    return [
        Charge(
            found
            if found.state in _LOCAL
            else msgspec.structs.replace(
                found, cause="imbalance", score=min(_IMBALANCE_CAP, found.score)
            ),
            culprits,
            waiting,
        )
        for found in node.ranking
        if found.state in (*_LOCAL, "COMPUTE")
    ]


def _culprits(node: Opinion) -> tuple[Culprit, ...]:
    """Name the node, or the ranks on it that stand out, or the one slow GPU."""
    if node.gpu is not None and node.ranking[0].state == "GPU":
        return (Culprit("gpu", f"GPU {node.gpu} of {node.node}", (node.node,)),)
    if node.low:
        return tuple(Culprit("rank", name_of(node.node, r), (node.node,)) for r in node.low)
    return (Culprit("node", node.node, (node.node,)),)


def _of(node: Opinion, state: str) -> Assessment | None:
    return next((a for a in node.ranking if a.state == state), None)


def _faulty(nodes: Sequence[Opinion], t: Thresholds) -> list[tuple[Opinion, Assessment]]:
    """Return the nodes whose network is at fault by their own counters."""
    pairs = [(node, _of(node, "NETWORK")) for node in nodes]
    return [(n, a) for n, a in pairs if a is not None and a.confidence >= t.score]


def _network(nodes: Sequence[Opinion], t: Thresholds) -> list[Charge]:
    """Charge a port, path or the fabric; loss belongs to a path, and is counted by its sender."""
    faulty = _faulty(nodes, t)
    if not faulty:
        return []
    kinds: dict[Kind, list[tuple[Opinion, Assessment]]] = {}
    for node, found in faulty:
        kinds.setdefault(Kind(found.state, found.cause), []).append((node, found))
    made = []
    for kind, every in kinds.items():
        worst = max(_lost(a) for _, a in every)
        pairs = [(n, a) for n, a in every if _lost(a) >= _MINOR * worst]
        surest = max((a for _, a in pairs), key=lambda a: (a.confidence, a.text))
        score = sum(sorted(a.confidence for _, a in pairs)) / len(pairs)
        culprits, cap, text = _where(kind, [n.node for n, _ in pairs], nodes, surest.text, t)
        blamed = {c for culprit in culprits for c in culprit.nodes if culprit.kind == "node"}
        waiting = tuple(n.node for n in nodes if n.node not in blamed and (n.wait or 0.0) >= t.lost)
        found = msgspec.structs.replace(surest, score=score, coverage=1.0, cap=cap, text=text)
        made.append(Charge(found, culprits, waiting))
    return made


def _lost(found: Assessment) -> float:
    """Return which share of segments was sent again; 0 where that is not what was found."""
    rates = (f.value for f in found.support if f.metric == "tcp_retrans_segs")
    return next(rates, None) or 0.0


def _where(
    kind: Kind, faulty: Sequence[str], nodes: Sequence[Opinion], text: str, t: Thresholds
) -> tuple[tuple[Culprit, ...], float, str]:
    """Return whom a network fault belongs to, how surely at most, and what to say of it."""
    own = tuple(Culprit("node", name, (name,)) for name in faulty)
    if len(faulty) == len(nodes) > 2:
        everyone = Culprit("job", "network", tuple(faulty))
        return (everyone,), _PATH_CAP, text
    if kind.cause in ("link", "bandwidth"):
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


def _far_ends(nodes: Sequence[Opinion], t: Thresholds) -> list[str] | None:
    """Return the nodes that segments come to out of order; None where that is not known."""
    shares = {n.node: n.disorder for n in nodes if n.disorder is not None}
    if len(shares) < len(nodes):
        return None
    limit = max(t.out_of_order, _MINOR * max(shares.values()))
    return sorted(node for node, share in shares.items() if share >= limit)


def _path(sender: str, ends: Sequence[str], *, both: bool) -> Culprit:
    """Name the path between two nodes, from the one that sends again; both ends belong to it."""
    if both:
        return Culprit("path", " <-> ".join(ends), tuple(ends))
    receiver = next(name for name in ends if name != sender)
    return Culprit("path", f"{sender} -> {receiver}", (sender, receiver))


def _alike(nodes: Sequence[Opinion], t: Thresholds) -> list[Charge]:
    """Say of the whole job what all its nodes do; of a part, what that part does."""
    if not nodes:
        return []
    made = []
    for found in combine(nodes):
        if found.state in ("PEER", "NETWORK", "UNKNOWN"):
            continue
        kind = Kind(found.state, found.cause)
        having = [n for n in nodes if _confidence(n, kind) >= t.score]
        if found.state == "COMPUTE":
            spun = sum((n.wait or 0.0) >= t.lost for n in nodes)
            if spun <= t.culprit_share * len(nodes) or spun == len(nodes):
                made.append(Charge(_computes(found, nodes, t)))
        elif found.state == "IDLE" or len(nodes) == 1:
            made.append(Charge(found, () if found.state == "IDLE" else _culprits(nodes[0])))
        elif having and len(having) == len(nodes):
            everyone = Culprit("job", "all nodes", tuple(n.node for n in nodes))
            made.append(Charge(found, (everyone,)))
        elif having:
            waiting = tuple(n.node for n in nodes if n not in having and (n.wait or 0.0) >= t.lost)
            if waiting:
                score = found.score * len(nodes) / (len(having) + len(waiting))
                part = msgspec.structs.replace(found, score=score)
                made.append(Charge(part, tuple(c for n in having for c in _culprits(n)), waiting))
            else:
                part = msgspec.structs.replace(found, score=min(_PART_CAP, found.score))
                made.append(Charge(part, tuple(c for n in having for c in _culprits(n))))
    return made


def _computes(found: Assessment, nodes: Sequence[Opinion], t: Thresholds) -> Assessment:
    """Say how much the whole job computes, not the node that does most."""
    shares = mean([node.shares for node in nodes])
    if shares is None or len(nodes) == 1:
        return found
    whole = percent("gpu.compute", shares.compute, t.compute, "GPUs compute")
    return msgspec.structs.replace(
        found,
        support=(whole, *found.support[1:]) if whole else found.support,
        text=f"computes {shares.compute * 100:.0f} % of the time",
    )


def _confidence(node: Opinion, kind: Kind) -> float:
    return max((a.confidence for a in node.ranking if Kind(a.state, a.cause) == kind), default=0.0)


def _joined(found: Assessment, gap: Finding, score: float) -> Assessment:
    return msgspec.structs.replace(
        found, score=score, support=(*found.support, gap)
    )  # fmt: skip


def _discounted(charge: Charge, unseen: Unseen) -> Charge:
    """Believe less while a part of the job is not seen: the culprit may be there."""
    if unseen.share == 0 or (charge.found.state in ("COMPUTE", "IDLE") and not charge.culprits):
        return charge
    found = msgspec.structs.replace(
        charge.found, score=charge.found.confidence * (1 - unseen.share / 2), coverage=1.0
    )
    return msgspec.structs.replace(charge, found=found)


def _puzzles(
    nodes: Sequence[Opinion], ranks: Sequence[Opinion], unseen: Unseen, t: Thresholds
) -> list[Charge]:
    """Say who may be to blame where nobody can say for what: no more than worth a look."""
    waiting = tuple(n.node for n in nodes if (n.wait or 0.0) >= t.lost)
    if not waiting:
        return []
    dead = tuple(n.node for n in nodes if n.wait is None and _dead(n))
    for names, why in (
        (unseen.nodes, "cannot be seen: the cause may be there"),
        (dead, "has a GPU that does not answer: the cause may be there"),
        (unseen.empty if len(waiting) == len(nodes) else (), "has none of its processes any more"),
    ):
        if names:
            hidden = tuple(Culprit("unknown", name, (name,)) for name in names)
            text = f"waits, and {_list(names)} {why}"
            return [Charge(_nothing(nodes, text, t.score), hidden, waiting)]
    low = [nodes[i] for i in least_waiting([n.wait for n in nodes], t.wait_spread)]
    if low and len(low) <= max(1.0, t.culprit_share * len(nodes)):
        culprits = tuple(c for n in low for c in _culprits(n))
        text = f"waits for {_list([c.id for c in culprits])}, and why cannot be told"
        return [Charge(_nothing(low, text, t.score), culprits, waiting)]
    nobody = (Culprit("unknown", "unknown"),)
    if len(waiting) == len(nodes) > 1:
        text = "waits in a collective on all nodes alike, and no fault is seen on any"
        return [Charge(_nothing(nodes, text, t.score), nobody, waiting)]
    inside = tuple(name_of(r.node, r.rank) for r in ranks if r.rank and (r.wait or 0.0) >= t.lost)
    if len(nodes) == 1 < len(inside) == len(ranks):
        text = "waits in a collective on all ranks alike, and no fault is seen on any"
        return [Charge(_nothing(nodes, text, t.score), nobody, inside)]
    return []


def _dead(node: Opinion) -> bool:
    """Tell whether the driver lists a GPU that answers nothing."""
    return any(m.signal.startswith("nvml.gpu") and m.signal[8:].isdecimal() for m in node.missing)


def _unknown(nodes: Sequence[Opinion]) -> Charge:
    """Say that nothing stands out."""
    if not nodes:
        text = "cannot be judged yet: no node has some seconds of fresh samples of it"
        return Charge(_nothing(nodes, text, 0.0))
    texts = {node.ranking[-1].text for node in nodes}
    if len(texts) == 1 and all(node.ranking[0].state == "UNKNOWN" for node in nodes):
        return Charge(_nothing(nodes, texts.pop(), 0.0))
    if len(nodes) == 1:
        return Charge(_nothing(nodes, nodes[0].ranking[-1].text, 0.0))
    text = "shows no clear cause: its nodes do different things, none of which stands out"
    return Charge(_nothing(nodes, text, 0.0))


def _nothing(nodes: Sequence[Opinion], text: str, score: float) -> Assessment:
    support = tuple(f for n in nodes[:1] for f in n.ranking[-1].support)
    missing = nodes[0].ranking[0].missing if nodes else ()
    return Assessment("UNKNOWN", None, score, support=support, missing=missing, text=text)


def _list(names: Sequence[str]) -> str:
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
