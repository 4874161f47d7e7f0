"""From what ticks said to stretches that tile the time."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import JobVerdict, Missing, Recurring, Verdict
from gpuwatch.report.types import Stretch

__all__ = [
    "Clock", "Key", "Moment", "Moments", "Said", "Timeline", "key_of", "moments", "said", "said_of", "word",
]  # fmt: skip

LONGEST_TICK = 3.0
"""A tick stands for at most so many intervals; what is longer was not seen."""

_NO_TICK = Verdict(scope="job", missing=(Missing("ticks", "nothing was recorded"),))
_NOT_JUDGED = Verdict(scope="job", missing=(Missing("verdict", "not there, or not judged"),))


class Key(NamedTuple):
    """Whose verdict: the job's, a node's, a rank's; ranks of two jobs may have one name."""

    scope: Literal["job", "node", "rank"]
    node: str | None = None
    rank: str | None = None
    group: str | None = None


class Clock(msgspec.Struct, frozen=True):
    """From the viewer's monotonic clock to UTC, so that a step of the wall clock tears nothing."""

    wall_us: int
    mono_us: int

    def at(self, mono_us: int) -> datetime:
        """Return a monotonic instant as UTC."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return epoch + timedelta(microseconds=self.wall_us + mono_us - self.mono_us)


class Said(NamedTuple):
    """What a tick said: verdicts by whose they are, as far as they may be others than before.

    Attributes:
        arrived_us: of the tick.
        wall_us: likewise.
        changed: None where there is none any more.
        slowdown: of the job.
        recurring: what came back.
    """

    arrived_us: int
    wall_us: int
    changed: Mapping[Key, Verdict | None]
    slowdown: float | None = None
    recurring: tuple[Recurring, ...] = ()

    @property
    def known(self) -> list[Key]:
        """Whose verdicts there are."""
        return [key for key, verdict in self.changed.items() if verdict is not None]


class Moment(NamedTuple):
    """What a tick said, and the time for which it stands; nothing where there was none."""

    begin_us: int
    end_us: int
    said: Said | None

    @property
    def hours(self) -> float:
        """Its length."""
        return (self.end_us - self.begin_us) / 3.6e9


def said(tick: Tick, verdict: JobVerdict, before: Iterable[Key] = ()) -> Said:
    """Return what a tick's whole verdict says.

    Args:
        tick: of it.
        verdict: of the job, its nodes and its ranks.
        before: whose verdicts there were at the tick before.
    """
    every = (verdict.job, *verdict.nodes, *verdict.ranks)
    changed = dict.fromkeys(before) | {key_of(one): one for one in every}
    return Said(tick.arrived_us, tick.wall_us, changed, verdict.slowdown, verdict.recurring)


def said_of(judged: Iterable[tuple[Tick, JobVerdict]]) -> Iterator[Said]:
    """Yield what whole verdicts say, tick by tick."""
    before: Iterable[Key] = ()
    for tick, verdict in judged:
        one = said(tick, verdict, before)
        before = one.known
        yield one


def key_of(verdict: Verdict) -> Key:
    """Return whose verdict it is."""
    group = verdict.group if verdict.scope == "rank" else None
    return Key(verdict.scope, verdict.node, verdict.rank, group)


def word(verdict: Verdict) -> str:
    """Return state and cause as one word: `STORAGE/read`. PEER has no cause."""
    if verdict.cause is None or verdict.state == "PEER":
        return verdict.state
    return f"{verdict.state}/{verdict.cause}"


class Moments:
    """Tells the time that each tick stands for: until the next, and what no tick saw between."""

    def __init__(self, interval_s: float) -> None:
        self._interval_us = round(interval_s * 1e6)
        self._longest_us = round(LONGEST_TICK * interval_s * 1e6)
        self._before: Said | None = None

    def take(self, said: Said) -> Iterator[Moment]:
        """Take the next tick; yield the time before it."""
        now_us, before = said.arrived_us, self._before
        self._before = said
        if before is None:
            return
        begin_us = before.arrived_us
        seen_us = min(now_us, begin_us + self._longest_us)
        if begin_us < seen_us:
            yield Moment(begin_us, seen_us, before)
        else:
            self._before = said._replace(changed={**before.changed, **said.changed})
        if seen_us < now_us:
            yield Moment(seen_us, now_us, None)

    def rest(self) -> Iterator[Moment]:
        """Yield the time that the last tick stands for."""
        if self._before is not None:
            begin_us = self._before.arrived_us
            yield Moment(begin_us, begin_us + self._interval_us, self._before)


def moments(ticks: Iterable[Said], interval_s: float) -> Iterator[Moment]:
    """Yield the time that each tick stands for: until the next; times that no tick saw between."""
    each = Moments(interval_s)
    for one in ticks:
        yield from each.take(one)
    yield from each.rest()


class _Open:
    """A stretch that may still grow."""

    def __init__(self, begin_us: int, verdict: Verdict) -> None:
        self.begin_us = begin_us
        self.last = self.surest = verdict

    def same(self, verdict: Verdict) -> bool:
        return _identity(self.last) == _identity(verdict)

    def grow(self, verdict: Verdict) -> None:
        self.last = verdict
        if verdict.confidence >= self.surest.confidence:
            self.surest = verdict

    def closed(self, key: Key, end_us: int, clock: Clock) -> Stretch:
        best, last = self.surest, self.last
        unseen = best is _NO_TICK or best is _NOT_JUDGED
        return Stretch(
            scope=key.scope,
            node=key.node,
            rank=key.rank,
            group=best.group,
            begin=clock.at(self.begin_us),
            end=clock.at(end_us),
            state=best.state,
            cause=None if best.state == "PEER" else best.cause,
            culprits=best.culprits,
            waiting=best.waiting,
            suspected_at=_instant(last.suspected_us, end_us, clock),
            confirmed_at=_instant(last.confirmed_us, end_us, clock),
            confidence=None if unseen else best.confidence,
            support=best.support,
            against=best.against,
            missing=best.missing,
            candidates=best.candidates,
        )


class Timeline:
    """Joins moments to stretches, for every key; all keys tile the same time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin_us: int | None = None
        self._open: dict[Key, _Open] = {}
        self._before_gap: dict[Key, Verdict] = {}
        self._closed: list[Stretch] = []

    def add(self, moment: Moment) -> None:
        """Take the next moment."""
        now_us = moment.begin_us
        if self._begin_us is None:
            self._begin_us = now_us
        if moment.said is None:
            self._before_gap = {key: current.last for key, current in self._open.items()}
            for key in self._open:
                self._say(key, _NO_TICK, now_us)
            return
        resumed, self._before_gap = self._before_gap, {}
        for key, verdict in {**resumed, **moment.said.changed}.items():
            self._say(key, verdict or _NOT_JUDGED, now_us)

    def _say(self, key: Key, verdict: Verdict, now_us: int) -> None:
        current = self._open.get(key)
        if current is None:
            begin_us = now_us if self._begin_us is None else self._begin_us
            current = self._open[key] = _Open(
                begin_us, verdict if begin_us == now_us else _NOT_JUDGED
            )
        if current.same(verdict):
            current.grow(verdict)
            return
        self._closed.append(current.closed(key, now_us, self._clock))
        self._open[key] = _Open(now_us, verdict)

    def stretches(self, end_us: int) -> tuple[Stretch, ...]:
        """Return all stretches up to the end: the job's first, then nodes, then ranks, by time."""
        rest = [current.closed(key, end_us, self._clock) for key, current in self._open.items()]
        order = {"job": 0, "node": 1, "rank": 2}
        return tuple(
            sorted(
                self._closed + rest,
                key=lambda s: (order[s.scope], s.node or "", s.group or "", s.rank or "", s.begin),
            )
        )


def _identity(verdict: Verdict) -> tuple[object, ...]:
    cause = None if verdict.state == "PEER" else verdict.cause
    unseen = verdict is _NO_TICK or verdict is _NOT_JUDGED
    return verdict.state, cause, verdict.culprits, unseen and id(verdict)


def _instant(mono_us: int | None, end_us: int, clock: Clock) -> datetime | None:
    """Return an instant; None where it came only after the end of what is told."""
    return None if mono_us is None or mono_us >= end_us else clock.at(mono_us)
