"""Builds a report from what was judged and what happened."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from gpuwatch.errors import InputError
from gpuwatch.job.types import Cost
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Marker
from gpuwatch.model.verdict import Recurring
from gpuwatch.report.ledger import Books
from gpuwatch.report.timeline import Clock, Moment, Said, Timeline, moments
from gpuwatch.report.types import Changes, Gap, Happening, Hourly, Report

__all__ = ["Subject", "build"]


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What a report is about; `clock` ties the viewer's monotonic clock to UTC.

    `thresholds` are those of the judge, by name.
    """

    job: str
    interval_s: float
    clock: Clock
    thresholds: Mapping[str, float]
    cost: Cost | None = None


def build(
    subject: Subject,
    said: Iterable[Said],
    events: Iterable[AnyEvent],
    damage: Iterable[Gap] = (),
    changes: Changes | None = None,
    hours: tuple[Hourly, ...] = (),
) -> Report:
    """Return the report of a stretch of time.

    Args:
        subject: whose report it is.
        said: what every tick of the stretch said, in order.
        events: the events of the same stretch, in order; taken when all of `said` is.
        damage: parts of a recording that cannot be read; taken last.
        changes: what other thresholds changed.
        hours: levels by hour of day.

    Raises:
        InputError: there is no tick, so nothing was judged.
    """
    clock = subject.clock
    timeline, books, slow = Timeline(clock), Books(), _Slowdown()
    recurring: dict[tuple[object, ...], Recurring] = {}
    first: Moment | None = None
    last: Moment | None = None
    unseen: list[Gap] = []
    for moment in moments(said, subject.interval_s):
        first, last = first or moment, moment
        timeline.add(moment)
        books.add(moment)
        slow.add(moment)
        if moment.said is None:
            unseen.append(
                _gap(None, clock.at(moment.begin_us), clock.at(moment.end_us), "no ticks")
            )
        else:
            recurring |= {(r.scope, r.node, r.state, r.cause): r for r in moment.said.recurring}
    if first is None or last is None:
        why = next((gap.reason for gap in damage), "")
        raise InputError(f"{subject.job}: nothing was judged in this time", why)
    begin, end = clock.at(first.begin_us), clock.at(last.end_us)
    kept = [e for e in events if e.arrived_us < last.end_us]
    gaps = [*unseen, *_link_gaps(kept, clock, end), *damage]
    clipped = (_gap(g.node, max(g.begin, begin), min(g.end, end), g.reason) for g in gaps)
    return Report(
        format=1,
        job=subject.job,
        begin=begin,
        end=end,
        interval_s=subject.interval_s,
        verdicts=timeline.stretches(last.end_us),
        recurring=tuple(recurring.values()),
        share=books.shares(),
        ledger=books.ledger(subject.cost),
        slowdown=slow.mean(),
        events=tuple(h for event in kept for h in _happening(event, clock)),
        gaps=tuple(
            sorted((g for g in clipped if g.begin < g.end), key=lambda g: (g.begin, g.node or ""))
        ),
        thresholds=dict(subject.thresholds),
        changes=changes,
        hours=hours,
    )


class _Slowdown:
    """The mean slowdown over the time in which it is known."""

    def __init__(self) -> None:
        self._sum = self._hours = 0.0

    def add(self, moment: Moment) -> None:
        if moment.said is not None and moment.said.slowdown is not None:
            self._sum += moment.said.slowdown * moment.hours
            self._hours += moment.hours

    def mean(self) -> float | None:
        return self._sum / self._hours if self._hours else None


def _happening(event: AnyEvent, clock: Clock) -> Iterable[Happening]:
    at = clock.at(event.arrived_us)
    match event:
        case Link():
            text = "; ".join(filter(None, (event.reason, event.hint))) or event.step
            yield Happening(at=at, node=event.node, kind=f"link_{event.state}", text=text)
        case Fault():
            yield Happening(
                at=at, node=event.node, kind="fault", text=f"{event.source}: {event.text}"
            )
        case Marker():
            yield Happening(at=at, node=None, kind="marker", text=event.text)
        case Hello():
            text = f"agent {event.agent_id} started"
            yield Happening(at=at, node=event.node, kind="agent_started", text=text)


def _link_gaps(events: Iterable[AnyEvent], clock: Clock, end: datetime) -> Iterable[Gap]:
    """Yield the times in which a node did not stream.

    The first connecting that worked at once is none, nor is the end that the viewer itself made.
    """
    down: dict[str, Link] = {}
    streamed: set[str] = set()
    for event in events:
        if not isinstance(event, Link) or event.state == "ended":
            continue
        before = down.get(event.node)
        if event.state == "streaming":
            if before is not None and (before.reason or event.node in streamed):
                yield _down(before, clock, clock.at(event.arrived_us))
            streamed.add(event.node)
            down.pop(event.node, None)
        elif before is None or (before.reason is None and event.reason is not None):
            since = event if before is None else before
            down[event.node] = msgspec.structs.replace(event, arrived_us=since.arrived_us)
    for link in down.values():
        yield _down(link, clock, end)


def _down(link: Link, clock: Clock, end: datetime) -> Gap:
    return _gap(link.node, clock.at(link.arrived_us), end, link.reason or link.state)


def _gap(node: str | None, begin: datetime, end: datetime, reason: str) -> Gap:
    return Gap(node=node, begin=begin, end=end, reason=reason)
