"""Steps as the job's own log tells them: the true witness of its speed, and of a standstill."""

import statistics
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import msgspec

from gpuwatch.model.event import Sample
from gpuwatch.model.expression import Expression

__all__ = ["Expressions", "Progress", "Steps", "expressions_of"]

MOST = 32
"""Changes that a period is taken from at most,"""
LEAST = 6
"""at least when steps are long,"""
RECENT_S = 30.0
"""and otherwise of the last half minute: a period should tell of now."""
STILL_S = 5.0
STILL_PERIODS = 3.0
"""After the longer of the two without a step a job stands: its period says nothing of now."""


class Expressions(msgspec.Struct, frozen=True):
    """Which node has the log, and what finds the number of a step and of tokens a second in it."""

    node: str
    step: str
    tokens: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What the log has told up to a tick; None is unknown.

    Attributes:
        step: number of the last step.
        still_s: seconds since that number was first seen.
        period_s: seconds that a step takes: median over the recent ones.
        span_s: length of the time that `period_s` is taken from.
        tokens_s: tokens a second, as the log says it.
        reason: why `step` is not known, or no longer; None when all is well.
    """

    step: int | None = None
    still_s: float | None = None
    period_s: float | None = None
    span_s: float = 0.0
    tokens_s: float | None = None
    reason: str | None = None

    @property
    def moving(self) -> bool:
        """Whether steps come as their period lets one expect."""
        if self.still_s is None or self.period_s is None:
            return False
        return self.still_s <= max(STILL_S, STILL_PERIODS * self.period_s)


def expressions_of(job_file: Mapping[str, Any]) -> Expressions | None:
    """Return the expressions of a job as a recording keeps it; None where it has none to use."""
    try:
        found = msgspec.convert(job_file.get("progress"), Expressions)
        Steps(found)
    except (msgspec.ValidationError, ValueError):
        return None
    return found


class Steps:
    """Builds progress up, sample by sample.

    Args:
        expressions: each with one group.

    Raises:
        ValueError: one is none, or has no group.
    """

    def __init__(self, expressions: Expressions) -> None:
        self._node = expressions.node
        self._expressions = {"step": Expression(expressions.step)}
        if expressions.tokens is not None:
            self._expressions["tokens"] = Expression(expressions.tokens)
        self._lines: dict[str, str] = {}
        self._boot_id = ""
        self._step: int | None = None
        self._changed_us = 0
        self._changes: list[tuple[int, int]] = []
        self._tokens_s: float | None = None
        self._absence: str | None = None

    def sample(self, sample: Sample) -> None:
        """Take in what a frame says of the log; frames of other nodes say nothing."""
        if sample.node != self._node:
            return
        absences = {row.labels[0]: row.labels[1] for row in sample.rows("absence")}
        self._absence = str(absences["progress"]) if "progress" in absences else None
        if sample.boot_id != self._boot_id:
            self._boot_id, self._changes = sample.boot_id, []
        for row in sample.rows("progress"):
            name, line = (str(label) for label in row.labels)
            if name not in self._expressions or self._lines.get(name) == line:
                continue
            self._lines[name] = line
            found = self._expressions[name].number(line)
            if found is None:
                continue
            if name == "tokens":
                self._tokens_s = found
            else:
                self._stepped(round(found), sample)

    def _stepped(self, step: int, sample: Sample) -> None:
        """Note a step; when the first one was reached is not known, it was there before."""
        if step == self._step:
            return
        if self._step is not None:
            if step < self._step:  # begun anew, or gone back to a checkpoint
                self._changes = []
            self._changes.append((sample.node_mono_us, step))
        self._step, self._changed_us = step, sample.arrived_us
        while len(self._changes) > MOST or (
            len(self._changes) > LEAST
            and self._changes[-1][0] - self._changes[0][0] > RECENT_S * 1e6
        ):
            del self._changes[0]

    def view(self, now_us: int) -> Progress:
        """Return what is known at a tick."""
        if self._step is None:
            return Progress(tokens_s=self._tokens_s, reason=self._trouble() or self._silence())
        period_s, span_s = self._period()
        return Progress(
            step=self._step,
            still_s=max(0, now_us - self._changed_us) / 1e6,
            period_s=period_s,
            span_s=span_s,
            tokens_s=self._tokens_s,
            reason=self._trouble(),
        )

    def _period(self) -> tuple[float | None, float]:
        """Return the median slope between all pairs of changes (Theil and Sen).

        A log is looked at once a tick, so one difference of two times may be off by a tick; and
        a checkpoint among the steps does not count for more than one.
        """
        if len(self._changes) < 3:
            return None, 0.0
        slopes = [(t - s) / (m - n) for (s, n), (t, m) in combinations(self._changes, 2)]
        span_us = self._changes[-1][0] - self._changes[0][0]
        return statistics.median(slopes) / 1e6, span_us / 1e6

    def _trouble(self) -> str | None:
        if self._absence is not None:
            return self._absence
        if self._expressions["step"].given_up:
            return "the expression takes too long"
        return None

    def _silence(self) -> str:
        if "step" in self._lines:
            return "the expression finds no number in the log's newest line that holds its text"
        return "no line of the log holds the expression's text yet"
