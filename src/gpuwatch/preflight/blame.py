"""Of which nodes all pairs are bad: a node's own trouble shows in its row and its column."""

from collections.abc import Collection

__all__ = ["Pair", "common"]

Pair = tuple[str, str]


def common(bad: Collection[Pair], tried: Collection[Pair]) -> list[str]:
    """Return the nodes that explain bad pairs: all that were tried with them are bad.

    The one with most comes first, and its pairs explain no other node: where two are bad with each
    other alone, that is a pair. Where most nodes are so, none stands out.

    Args:
        bad: pairs, each once.
        tried: all pairs that were measured, the bad ones too.
    """
    left, found = set(bad), list[str]()
    while True:
        counts = {n: sum(n in pair for pair in left) for pair in left for n in pair}
        whole = [n for n, count in counts.items() if count > 1 and _all_bad(n, bad, tried)]
        if not whole:
            break
        worst = max(whole, key=lambda n: (counts[n], n))
        found.append(worst)
        left = {pair for pair in left if worst not in pair}
    nodes = {n for pair in tried for n in pair}
    return found if 2 * len(found) < len(nodes) else []


def _all_bad(node: str, bad: Collection[Pair], tried: Collection[Pair]) -> bool:
    return all(pair in bad for pair in tried if node in pair)
