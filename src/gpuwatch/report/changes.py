"""What other thresholds change: which verdicts, when, and on what GPU time is booked."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpuwatch.model.verdict import Verdict
from gpuwatch.report.build import Subject
from gpuwatch.report.ledger import Books
from gpuwatch.report.timeline import Clock, Key, Moment, Said, moments
from gpuwatch.report.types import Change, Changes, Ledger, Moved, Words

__all__ = ["changed"]


def changed(
    subject: Subject, before: Iterable[Said], after: Iterable[Said], own: Mapping[str, float]
) -> Changes:
    """Compare two judgements of the same ticks.

    Args:
        subject: whose; its thresholds are those of `after`.
        before: what every tick said, in whole, as judged by `own`.
        after: what the same ticks said, likewise, as judged by the subject's thresholds.
        own: thresholds of `before`.
    """
    books = Books(), Books()
    runs = _Runs(subject.clock)
    pairs = zip(
        moments(before, subject.interval_s), moments(after, subject.interval_s), strict=True
    )
    for old, new in pairs:
        books[0].add(old)
        books[1].add(new)
        runs.add(old, new)
    was, now = (book.ledger(subject.cost) for book in books)
    return Changes(
        thresholds=tuple(
            Moved(name=name, before=own[name], after=value)
            for name, value in subject.thresholds.items()
            if value != own[name]
        ),
        verdicts=runs.closed(),
        ledger=_more(was.by, now.by),
        amount=_amounts(was, now),
    )


class _Run(NamedTuple):
    """A stretch of one difference, which may still grow."""

    begin_us: int
    before: Words
    after: Words


class _Runs:
    """Joins ticks on which two judgements differ to stretches, for every key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[Key, _Run] = {}
        self._closed: list[Change] = []
        self._end_us = 0

    def add(self, old: Moment, new: Moment) -> None:
        """Take the next moment of both."""
        before = {} if old.said is None else old.said.changed
        after = {} if new.said is None else new.said.changed
        for key in before.keys() | after.keys() | self._open.keys():
            words = _words(before.get(key)), _words(after.get(key))
            run = self._open.get(key)
            if run is not None and words != (run.before, run.after):
                self._close(key, new.begin_us)
            if words[0] != words[1] and key not in self._open:
                self._open[key] = _Run(new.begin_us, *words)
        self._end_us = new.end_us

    def closed(self) -> tuple[Change, ...]:
        """Return all stretches: the job's first, then nodes, then ranks, by time."""
        for key in tuple(self._open):
            self._close(key, self._end_us)
        order = {"job": 0, "node": 1, "rank": 2}
        return tuple(
            sorted(
                self._closed,
                key=lambda c: (order[c.scope], c.begin, c.node or "", c.group or "", c.rank or ""),
            )
        )

    def _close(self, key: Key, end_us: int) -> None:
        run = self._open.pop(key)
        self._closed.append(
            Change(
                **key._asdict(),
                begin=self._clock.at(run.begin_us),
                end=self._clock.at(end_us),
                before=run.before,
                after=run.after,
            )
        )


def _words(verdict: Verdict | None) -> Words:
    """Return what a verdict says; where there is none, nothing is known."""
    said = verdict or Verdict(scope="job")
    cause = None if said.state == "PEER" else said.cause
    return Words(state=said.state, cause=cause, culprits=said.culprits)


def _more(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return by how much each entry grew or fell, without those that did not."""
    grown = ((n, after.get(n, 0.0) - before.get(n, 0.0)) for n in sorted({*before, *after}))
    return {name: more for name, more in grown if abs(more) > 1e-9}


def _amounts(was: Ledger, now: Ledger) -> dict[str, float] | None:
    if was.amount is None or now.amount is None:
        return None
    return {name: round(more, 2) for name, more in _more(was.amount, now.amount).items()}
