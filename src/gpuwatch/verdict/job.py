"""The job: who is to blame, and who waits for it.

Nodes are joined by a barrier at each step: waiters wait, and the culprit does something else. So
the node that waits least is looked at first; when all wait, a fault of the network; when all do
the same thing, nobody is blamed.
"""

from collections.abc import Sequence

import msgspec

from gpuwatch.model.verdict import Culprit, Finding
from gpuwatch.verdict.causes import hung
from gpuwatch.verdict.charge import Charge, Unseen, culprits_of, of_state, waiting_for
from gpuwatch.verdict.evidence import Assessment, Kind, percent, ramp
from gpuwatch.verdict.network import faulty_nodes, network
from gpuwatch.verdict.node import combine, least_waiting, precedence
from gpuwatch.verdict.rank import LOCAL, Opinion, mean, name_of
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["charges"]

_IMBALANCE_CAP = 0.6
"""A healthy node that others wait for may have more work, or a fault that is not seen."""
_PART_CAP = 0.5
"""What a part of the nodes does and nobody waits for need not hold up the job."""
_NOT_ALIKE = ("PEER", "NETWORK", "HUNG", "UNKNOWN")


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
    found = _faults(nodes, ranks, t)
    if not any(charge.found.cause == "fault" for charge in found):
        found += _standing(nodes, t)
    found += [*_least(nodes, ranks, t), *network(nodes, t), *_alike(nodes, ranks, t)]
    found = [_discounted(charge, unseen) for charge in found if charge.found.confidence > 0]
    found += _puzzles(nodes, ranks, unseen, t)
    found.sort(key=lambda c: precedence(c.found))
    return (*found, _unknown(nodes))


def _faults(nodes: Sequence[Opinion], ranks: Sequence[Opinion], t: Thresholds) -> list[Charge]:
    """Charge GPUs that the driver lost, reported or slows: such stand above all that waits for them.

    How much a slow one costs the others need not reach what a wait is looked for from.
    """
    bad = [(n, a) for n in nodes if (a := of_state(n, "GPU")) and a.confidence >= t.score]
    made = []
    for cause in ("fault", "throttled"):
        pairs = [(n, a) for n, a in bad if a.cause == cause]
        if not pairs or len(pairs) == len(nodes) > 1:
            continue
        surest = max((a for _, a in pairs), key=lambda a: (a.confidence, a.text))
        rest = [n for n in nodes if all(n is not other for other, _ in pairs)]
        cost = max((n.wait or 0.0 for n in rest), default=t.wait_spread)
        felt = 1.0 if cause == "fault" else ramp(cost, t.wait_spread / 4, t.wait_spread)
        charged = msgspec.structs.replace(surest, score=surest.score * felt)
        culprits = tuple(c for n, _ in pairs for c in culprits_of(n))
        inside = _others(nodes[0], ranks, t) if len(nodes) == 1 else ()
        made.append(Charge(charged, culprits, inside or waiting_for(rest, set(), t)))
    return made


def _stopped(nodes: Sequence[Opinion], t: Thresholds) -> list[Charge]:
    """Charge the ranks that a signal holds, where others wait: no proof is needed that all stands."""
    held = [(n, a) for n in nodes if (a := of_state(n, "HUNG")) and _is_held(a)]
    rest = [n for n in nodes if all(n is not other for other, _ in held)]
    waiting = waiting_for(rest, set(), t)
    if not held or len(waiting) < len(rest):
        return []
    surest = max((a for _, a in held), key=lambda a: (a.confidence, a.text))
    return [Charge(surest, tuple(c for n, _ in held for c in culprits_of(n)), waiting)]


def _is_held(found: Assessment) -> bool:
    return any(fact.metric == hung.STOPPED for fact in found.support)


def _standing(nodes: Sequence[Opinion], t: Thresholds) -> list[Charge]:
    """Charge the one that does not spin, where nothing moves and the others spin for it."""
    if stopped := _stopped(nodes, t):
        return stopped
    found = [a for node in nodes if (a := of_state(node, "HUNG")) and a.confidence >= t.score]
    if not found or len(found) < len(nodes):
        return []
    quiet = [n for n in nodes if n.shares is not None and n.shares.spin < t.lost]
    surest = max(found, key=lambda a: (a.confidence, a.text))
    if 0 < len(quiet) <= max(1.0, t.culprit_share * len(nodes)) and len(quiet) < len(nodes):
        culprits = tuple(c for node in quiet for c in culprits_of(node))
        surest = max((a for n in quiet if (a := of_state(n, "HUNG"))), key=lambda a: a.confidence)
        return [Charge(surest, culprits, waiting_for(nodes, {n.node for n in quiet}, t))]
    inside = nodes[0].low if len(nodes) == 1 else ()
    if inside:
        return [Charge(surest, culprits_of(nodes[0]))]
    text = "stands still: nothing moves on any node, and none stands out"
    return [Charge(msgspec.structs.replace(surest, text=text), (Culprit("unknown", "unknown"),))]


def _least(nodes: Sequence[Opinion], ranks: Sequence[Opinion], t: Thresholds) -> list[Charge]:
    """Charge the nodes that wait clearly less than the others; on one node, its ranks."""
    waits = [node.wait for node in nodes]
    if len(nodes) == 1:
        return _inside(nodes[0], ranks, t)
    chosen = least_waiting(waits, t.wait_spread)
    low, most = [nodes[i] for i in chosen], max(1.0, t.culprit_share * len(nodes))
    if len(low) > most:  # a healthy one that exchanges at a high power seems to wait as little
        low = [n for n in low if n.ranking[0].state in LOCAL]
    if not low or len(low) > most:
        return []
    known = [wait for wait in waits if wait is not None]
    spread = max(known) - min(known)
    waiting = tuple(
        n.node
        for n in nodes
        if n not in low and n.wait is not None and n.wait >= min(known) + t.wait_spread
    )
    culprits = tuple(c for node in low for c in culprits_of(node))
    sure = 0.7 + 0.3 * ramp(spread, t.wait_spread, 2 * t.wait_spread)
    gap = Finding(
        "wait_spread", spread * 100, "%", t.wait_spread * 100,
        f"others wait {spread * 100:.0f} % more of the time, over {t.wait_spread * 100:.0f} %",
    )  # fmt: skip
    made = []
    for found in combine(low):
        if found.state in LOCAL:
            made.append(Charge(_joined(found, gap, found.score * sure), culprits, waiting))
        elif found.state == "COMPUTE" and not faulty_nodes(nodes, t):
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
    waiting, culprits = _others(node, ranks, t), culprits_of(node)
    return [
        Charge(
            found
            if found.state in LOCAL
            else msgspec.structs.replace(
                found, cause="imbalance", score=min(_IMBALANCE_CAP, found.score)
            ),
            culprits,
            waiting,
        )
        for found in node.ranking
        if found.state in (*LOCAL, "COMPUTE")
    ]


def _others(node: Opinion, ranks: Sequence[Opinion], t: Thresholds) -> tuple[str, ...]:
    """Return the ranks of a node that wait, but for those that stand out."""
    return tuple(
        name_of(node.node, r.rank)
        for r in ranks
        if r.rank and r.rank not in node.low and (r.wait or 0.0) >= t.wait_spread
    )


def _alike(nodes: Sequence[Opinion], ranks: Sequence[Opinion], t: Thresholds) -> list[Charge]:
    """Say of the whole job what all its nodes do; of a part, what that part does."""
    if not nodes:
        return []
    made = []
    for found in combine(nodes):
        if found.state in _NOT_ALIKE or found.cause == "fault":
            continue
        kind = Kind(found.state, found.cause)
        having = [n for n in nodes if _confidence(n, kind) >= t.score]
        if found.state == "COMPUTE":
            every = nodes if len(nodes) > 1 or not ranks else ranks
            spun = sum((each.wait or 0.0) >= t.lost for each in every)
            if spun <= t.culprit_share * len(every) or spun == len(every):
                made.append(Charge(_computes(found, nodes, t)))
        elif found.state == "IDLE" or (found.state == "STARTUP" and len(having) == len(nodes)):
            made.append(Charge(found))
        elif len(nodes) == 1:
            made.append(Charge(found, culprits_of(nodes[0])))
        elif having and len(having) == len(nodes):
            made.append(Charge(found, (_everyones(nodes, kind),)))
        elif having:
            waiting = tuple(n.node for n in nodes if n not in having and (n.wait or 0.0) >= t.lost)
            if waiting:
                score = found.score * len(nodes) / (len(having) + len(waiting))
                part = msgspec.structs.replace(found, score=score)
                made.append(Charge(part, tuple(c for n in having for c in culprits_of(n)), waiting))
            else:
                part = msgspec.structs.replace(found, score=min(_PART_CAP, found.score))
                made.append(Charge(part, tuple(c for n in having for c in culprits_of(n))))
    return made


def _everyones(nodes: Sequence[Opinion], kind: Kind) -> Culprit:
    """Name what all nodes wait for, where it is one place outside them; else all of them."""
    names = tuple(n.node for n in nodes)
    places = {a.place for n in nodes for a in n.ranking if Kind(a.state, a.cause) == kind}
    place = places.pop() if len(places) == 1 else None
    return Culprit("mount", place, names) if place else Culprit("job", "all nodes", names)


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
    if len(nodes) == 1 and nodes[0].low and (inside := _others(nodes[0], ranks, t)):
        culprits = culprits_of(nodes[0])
        text = f"waits for {_list([c.id for c in culprits])}, and why cannot be told"
        return [Charge(_nothing(nodes, text, t.score), culprits, inside)]
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
    low = [] if any((n.wait or 0.0) >= t.lost for n in low) else low  # who waits holds up nobody
    if low and len(low) <= max(1.0, t.culprit_share * len(nodes)):
        culprits = tuple(c for n in low for c in culprits_of(n))
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
