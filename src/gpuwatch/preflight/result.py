"""What the checks found: a judgement a subject, with the figures that it rests on."""

from typing import Literal

import msgspec

__all__ = ["Fact", "Finding", "Judgement", "Outcome", "Result"]

Judgement = Literal["fine", "fault", "not judged"]


class Fact(msgspec.Struct, frozen=True):
    """One figure. `limit`: what it is judged by, in the same unit; null where it is only told."""

    name: str
    value: float | str | None
    unit: str = ""
    limit: float | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check says of one subject.

    Attributes:
        subject: a node, `A <-> B` for a pair, a node's path or port, or `job`.
        judgement: `not judged` where a tool, a right or a peer to compare with is missing.
        text: the finding in a sentence, figures in it.
        hint: what to do; empty where nothing is to be done.
    """

    subject: str
    judgement: Judgement
    text: str
    facts: tuple[Fact, ...] = ()
    hint: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One check on all nodes; `seconds` it took."""

    check: str
    findings: tuple[Finding, ...]
    seconds: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A whole preflight, as `--json` tells it and as it is kept. Times are UTC, ISO."""

    format: int = 1
    job: str
    at: str
    nodes: tuple[str, ...]
    unreached: dict[str, str]
    outcomes: tuple[Outcome, ...]

    def faults(self) -> list[tuple[str, Finding]]:
        """Return (check, finding) of all faults."""
        return [
            (outcome.check, finding)
            for outcome in self.outcomes
            for finding in outcome.findings
            if finding.judgement == "fault"
        ]
