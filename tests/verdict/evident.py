"""What every verdict must carry, whatever it says."""

from collections.abc import Iterator

from gpuwatch.model.verdict import CAUSES, Finding, JobVerdict, Verdict

__all__ = ["lacking"]

_TOLD_BY_OTHERS = (("UNKNOWN", None), ("GPU", "fault"))
"""Nothing is claimed, or the driver itself reports it: no number is compared."""


def lacking(found: JobVerdict) -> Iterator[str]:
    """Yield what the verdicts of a tick lack; nothing if they are as they must be."""
    for verdict in (found.job, *found.nodes, *found.ranks):
        for lack in _lacks(verdict):
            yield f"{verdict.scope} {verdict.state}/{verdict.cause}: {lack}: {verdict.text}"


def _lacks(verdict: Verdict) -> Iterator[str]:
    facts = (*verdict.support, *verdict.against)
    if not verdict.support or not all(f.metric and f.text for f in facts):
        yield "no evidence, or evidence without words"
    if any(f.value is not None and not any(c.isdigit() for c in f.text) for f in facts):
        yield "a fact whose words do not say its value"
    if not verdict.text or "\n" in verdict.text or not 0 <= verdict.confidence <= 1:
        yield "no sentence, or no confidence"
    if verdict.cause is not None and verdict.cause not in CAUSES[verdict.state]:
        yield "a cause that is no word of the trade"
    if not all(m.signal and m.reason for m in verdict.missing):
        yield "something missing without a reason"
    if (verdict.state, verdict.cause) not in _TOLD_BY_OTHERS:
        if not any(_compared(f) for f in verdict.support):
            yield "no fact that is compared with a threshold"
        if not verdict.against:
            yield "no contrary fact"
        elif _nearness(verdict.against[0]) < max(map(_nearness, verdict.against)):
            yield "its first contrary fact is not the strongest"


def _compared(fact: Finding) -> bool:
    return fact.value is not None and fact.threshold is not None


def _nearness(fact: Finding) -> float:
    """Return how near a fact comes to its threshold; 0 where it has none."""
    return (fact.value or 0.0) / fact.threshold if fact.threshold else 0.0
