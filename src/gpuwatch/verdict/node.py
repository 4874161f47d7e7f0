"""One node: its verdict is that of the ranks that wait least; the others wait for those."""

from collections.abc import Sequence

import msgspec

from gpuwatch.model.verdict import Missing, State
from gpuwatch.verdict.evidence import Assessment, Kind
from gpuwatch.verdict.paths import joined
from gpuwatch.verdict.rank import Opinion, mean
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["combine", "judge", "least_waiting", "precedence"]

_PRECEDENCE: tuple[State, ...] = (
    "GPU", "HOST-LINK", "MEMORY", "STORAGE", "CPU", "NETWORK", "PEER", "HUNG", "STARTUP",
    "COMPUTE", "IDLE", "UNKNOWN",
)  # fmt: skip
"""Among equals the local, specific cause stands before the symptom that it makes elsewhere."""

_NEAR = 0.35
"""How far up from the least to the most waiting a unit may be and still belong to the least."""


def least_waiting(waits: Sequence[float | None], spread: float) -> list[int]:
    """Return which units wait clearly less than others; none where all wait alike.

    Args:
        waits: share in which each waits for others; None where that is not known.
        spread: difference from which on it counts.
    """
    known = [wait for wait in waits if wait is not None]
    if len(known) < 2 or max(known) - min(known) < spread:
        return []
    limit = min(known) + _NEAR * (max(known) - min(known))
    return [i for i, wait in enumerate(waits) if wait is not None and wait <= limit]


def precedence(found: Assessment) -> tuple[float, int, str]:
    """Return a key that sorts the likeliest first."""
    return -found.confidence, _PRECEDENCE.index(found.state), found.cause or ""


def combine(opinions: Sequence[Opinion]) -> tuple[Assessment, ...]:
    """Return what several units say together: each kind by its mean confidence over all.

    The words are those of the unit that is surest of it. Several rules may find one kind: of each
    unit the surest counts, which stands first.
    """
    kinds: dict[Kind, list[Assessment]] = {}
    for opinion in opinions:
        own: dict[Kind, Assessment] = {}
        for found in opinion.ranking:
            own.setdefault(Kind(found.state, found.cause), found)
        for kind, found in own.items():
            kinds.setdefault(kind, []).append(found)
    joined = []
    for found_of in kinds.values():
        surest = max(found_of, key=lambda a: (a.confidence, a.text))
        total = sum(sorted(a.confidence for a in found_of))
        joined.append(
            msgspec.structs.replace(surest, score=total / len(opinions), coverage=1.0, cap=1.0)
        )
    return tuple(sorted(joined, key=precedence))


def judge(node: str, group: str | None, ranks: Sequence[Opinion], t: Thresholds) -> Opinion:
    """Judge a node by its ranks, of which there is at least one."""
    chosen = least_waiting([rank.wait for rank in ranks], t.wait_spread)
    broken = [i for i, rank in enumerate(ranks) if _broken(rank)]
    if len(ranks) > len(broken) > 0:
        chosen = broken
    low = [ranks[i] for i in chosen] or _on_bad_paths(ranks) or list(ranks)
    waits = [rank.wait for rank in ranks if rank.wait is not None]
    missing: dict[str, Missing] = {m.signal: m for rank in ranks for m in rank.missing}
    return Opinion(
        node,
        None,
        group,
        combine(low),
        min(waits, default=None),
        mean([rank.shares for rank in ranks]),
        tuple(missing.values()),
        tuple(sorted(rank.rank for rank in low if rank.rank)) if chosen else (),
        low[0].gpu if len(low) == 1 else None,
        ranks[0].disorder,
        joined(path for rank in ranks for path in rank.paths),
        easing=all(rank.easing for rank in low),
    )


def _on_bad_paths(ranks: Sequence[Opinion]) -> list[Opinion]:
    """Return the ranks that the network holds up, where all others wait: they wait for these."""
    held = [rank for rank in ranks if rank.ranking[0].state == "NETWORK"]
    rest = [rank for rank in ranks if rank.ranking[0].state == "PEER"]
    return held if len(held) + len(rest) == len(ranks) else []


def _broken(rank: Opinion) -> bool:
    """Tell whether a rank's GPU or its link is bad: that is no matter of how long it waits."""
    return rank.ranking[0].state in ("GPU", "HOST-LINK")
