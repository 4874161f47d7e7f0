"""Who talks to whom, and when: rounds of pairs in which no node is in two tests."""

from collections.abc import Sequence
from math import ceil, log2

__all__ = ["ALL_PAIRS", "matchings", "rounds"]

ALL_PAIRS = 16
"""Nodes up to which each pair is tried."""


def rounds(nodes: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return rounds that cover all pairs: the circle method, as few rounds as there can be.

    Args:
        nodes: n of them: n - 1 rounds where n is even, n where it is odd and one rests in each.
    """
    ring: list[str | None] = [*nodes]
    if len(ring) % 2:
        ring.append(None)
    found = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        found.append([(a, b) for a, b in pairs if a is not None and b is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return [pairs for pairs in found if pairs]


def matchings(nodes: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return rounds for many nodes: log2(n) of those that cover all pairs, ever farther apart.

    So each node meets others near and far, and is in every round but those in which an odd one rests.
    Of up to ALL_PAIRS nodes all rounds.
    """
    plan = rounds(nodes)
    if len(nodes) <= ALL_PAIRS:
        return plan
    return [
        plan[(1 << power) - 1] for power in range(ceil(log2(len(nodes)))) if 1 << power <= len(plan)
    ]
