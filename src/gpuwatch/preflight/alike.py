"""What should be alike on all nodes: which are odd, where most are of one kind."""

from collections import Counter
from collections.abc import Mapping

from gpuwatch.preflight.result import Fact, Finding

__all__ = ["alike", "odd"]


def odd(values: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """Return the usual value and who has another; None and all where there is no usual one."""
    counts = Counter(values.values())
    if not counts:
        return None, {}
    usual, count = counts.most_common(1)[0]
    if len(counts) > 1 and 2 * count <= len(values):
        return None, dict(values)
    return usual, {name: value for name, value in values.items() if value != usual}


def alike(what: str, values: Mapping[str, str], hint: str) -> list[Finding]:
    """Judge something that should be the same on all nodes.

    Args:
        what: it is.
        values: node to value, of the nodes that have one.
        hint: what to do where it differs.
    """
    if len(values) < 2:
        return []
    usual, others = odd(values)
    if not others:
        return [Finding(subject="job", judgement="fine", text=f"{what} is alike: {usual}")]
    if usual is None:
        named = ", ".join(f"{name} {value}" for name, value in values.items())
        return [
            Finding(subject="job", judgement="fault", text=f"{what} differs: {named}", hint=hint)
        ]
    return [
        Finding(
            subject=name, judgement="fault", text=f"{what} is {value}, {usual} on most others",
            facts=(Fact(what, value), Fact("usual", usual)), hint=hint,
        )
        for name, value in others.items()
    ]  # fmt: skip
