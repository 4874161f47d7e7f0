"""A result as text: faults first, what to do beside them, then what could not be judged."""

from collections.abc import Iterator

from gpuwatch.model.text import sanitize
from gpuwatch.preflight.result import Finding, Judgement, Result

__all__ = ["text"]

MARKS: dict[Judgement, str] = {"fault": "FAULT", "not judged": "-", "fine": "ok"}
ORDER: tuple[Judgement, ...] = ("fault", "not judged", "fine")
WIDTH = 12


def text(result: Result) -> str:
    """Return it in lines."""
    return "".join(f"{sanitize(line, 1000)}\n" for line in _lines(result))


def _lines(result: Result) -> Iterator[str]:
    for node, why in result.unreached.items():
        yield f"{node}: not reached: {why}"
    for outcome in result.outcomes:
        yield outcome.check
        for judgement in ORDER:
            for finding in outcome.findings:
                if finding.judgement == judgement:
                    yield from _told(finding)
    if not result.nodes:
        return
    faults = result.faults()
    yield ""
    if not faults:
        yield f"no fault found on {_count(len(result.nodes), 'node')}"
        return
    yield f"{_count(len(faults), 'fault')} on {_count(len(result.nodes), 'node')}:"
    for check, finding in faults:
        yield f"  {check:{WIDTH}} {finding.subject}"


def _told(finding: Finding) -> Iterator[str]:
    yield f"  {MARKS[finding.judgement]:6}{finding.text}"
    if finding.hint:
        yield f"        -> {finding.hint}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
