"""A stretch of a recording as commands read it: ticks with verdicts, and what else came."""

import asyncio
import sys
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from gpuwatch import __version__
from gpuwatch.engine.run import run
from gpuwatch.errors import InputError
from gpuwatch.job.types import cost_of
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Sample, Tick
from gpuwatch.model.progress import expressions_of
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.recording import Session
from gpuwatch.recording.reader import Recording
from gpuwatch.report.build import Subject
from gpuwatch.report.timeline import Clock, Said
from gpuwatch.report.told import Told
from gpuwatch.report.types import Gap
from gpuwatch.verdict.judge import Judge, State
from gpuwatch.verdict.thresholds import ROWS, Thresholds

__all__ = ["Reading", "thresholds_of"]


class Reading:
    """A range of a recording: verdicts first, and what else came on the way.

    Args:
        recording: to read.
        begin: as `--from` takes it; None: the start.
        end: as `--to` takes it; None: the end.

    Attributes:
        recording: as it was given.

    Raises:
        InputError: no time, or none after the beginning.
    """

    def __init__(self, recording: Recording, begin: str | None, end: str | None) -> None:
        self.recording = recording
        self._range = range(*_range(recording, begin, end))
        self._others: list[AnyEvent] = []

    @property
    def span_us(self) -> tuple[int, int]:
        """Begin and end, wall clock, microseconds."""
        return self._range.start, self._range.stop

    def subject(self, thresholds: Thresholds) -> Subject:
        """Return what a report of it is about.

        Args:
            thresholds: of the judge.
        """
        facts = self.recording.session
        return Subject(
            job=facts.job,
            interval_s=facts.interval_s,
            clock=Clock(facts.started_wall_us, facts.started_mono_us),
            thresholds=thresholds.as_dict(),
            cost=cost_of(facts.job_file),
        )

    def as_shown(self, evidence: Collection[str]) -> Iterator[Said]:
        """Yield what the ticks said as it was shown.

        Args:
            evidence: the scopes (`job`, `node`, `rank`) whose verdicts are wanted with evidence.
        """
        told = Told(self.recording.told(evidence), self._range)
        self._others = told.events
        yield from told.said()

    def judged_anew(self, thresholds: Thresholds) -> list[tuple[Tick, JobVerdict]]:
        """Return the ticks with the verdicts that this version gives by these thresholds."""
        facts = self.recording.session
        judge = Judge(thresholds, State(baseline=facts.baseline))
        self._others.clear()
        kept = _Kept(self._range)
        cluster = Cluster(facts.nodes, facts.interval_s, expressions_of(facts.job_file))

        async def feed() -> AsyncIterator[AnyEvent]:
            for event in self.recording.events():
                list(self._inside([event]))
                yield event

        asyncio.run(run(feed(), cluster, judge, [kept]))
        return kept.judged_ticks

    def events(self) -> Iterator[AnyEvent]:
        """Yield what else came, once the verdicts have been read."""
        yield from self._others

    def damage(self) -> Iterator[Gap]:
        """Yield what could not be read, once all else has been."""
        for gap in self.recording.gaps:
            begin = self._range.start if gap.from_us is None else gap.from_us
            end = self._range.stop if gap.to_us is None else gap.to_us
            yield Gap(node=None, begin=_utc(begin), end=_utc(end), reason=gap.reason)

    def _inside(self, events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
        for event in events:
            if event.wall_us in self._range:
                if not isinstance(event, Sample | Tick):
                    self._others.append(event)
                yield event


class _Kept:
    """A sink that keeps the verdicts of a range."""

    def __init__(self, kept: range) -> None:
        self._range = kept
        self.judged_ticks: list[tuple[Tick, JobVerdict]] = []

    def event(self, event: AnyEvent) -> None:
        """Take nothing of it."""

    def judged(self, tick: Tick, _view: View, verdict: JobVerdict) -> None:
        """Keep it, if it is of the range."""
        if tick.wall_us in self._range:
            self.judged_ticks.append((tick, verdict))


def thresholds_of(facts: Session, *, tell: bool) -> Thresholds:
    """Return the thresholds that a recording was judged with.

    Args:
        facts: of the recording.
        tell: whether stderr is told what differs now.
    """
    known = {
        name: float(value)
        for name, value in facts.thresholds.items()
        if isinstance(value, int | float)
        and name in ROWS
        and ROWS[name].low <= value <= ROWS[name].high
    }
    differs = []
    if facts.version != __version__:
        differs.append(f"recorded by gpuwatch {facts.version}, judged by {__version__}")
    if unknown := sorted(facts.thresholds.keys() - known.keys()):
        differs.append(f"thresholds not known now: {', '.join(unknown)}")
    if new := sorted(ROWS.keys() - known.keys()):
        differs.append(f"thresholds not known then: {', '.join(new)}")
    for line in differs if tell else ():
        print(f"gpuwatch: verdicts may differ: {line!a:.300}", file=sys.stderr)
    return Thresholds(**known)


def _range(recording: Recording, begin: str | None, end: str | None) -> tuple[int, int]:
    first_us, last_us = recording.span()
    begin_us = first_us if begin is None else _instant("--from", begin, first_us, last_us)
    end_us = last_us + 1 if end is None else _instant("--to", end, first_us, last_us)
    if begin_us >= end_us:
        raise InputError("--from is not before --to")
    return begin_us, end_us


def _instant(option: str, given: str, first_us: int, last_us: int) -> int:
    from gpuwatch.recording.moment import moment

    found = moment(given, first_us, last_us)
    if found is None:
        raise InputError(
            f"{option}: {given!r} is no time", "2026-01-31T18:00, 18:00, +10m, or --from=-10m"
        )
    return found


def _utc(wall_us: int) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        return epoch + timedelta(microseconds=wall_us)
    except OverflowError:
        return epoch
