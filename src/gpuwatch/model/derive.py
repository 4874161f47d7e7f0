"""From counters to rates: the one place where raw readings become quantities over time.

Every value of every entity is carried on as a running total and the seconds that the total
covers. A window is then two subtractions, whatever its length, and a value that was missing for
a while covers fewer seconds instead of counting as zero. A counter that comes back soon has counted
on meanwhile, so its growth covers the gap too: what is dear to read may be read seldom.

A viewer takes two hundred thousand values a second and keeps half a minute of them. So a scope is
one row of numbers, entity behind entity, that is carried on as a whole; one by one are carried on
those values only that came, went, fell or were misread.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, cycle, repeat
from math import inf
from operator import add, is_not, mul, sub, xor
from typing import Any, NamedTuple, Self

import msgspec

from gpuwatch.agent.metric import COUNTER, Labels, Metric, Value, Values
from gpuwatch.model.event import Row

__all__ = ["Shape", "Standing", "Tracks"]

JITTER = 0.01
"""A counter that falls by less than this share of itself has jittered (iowait and idle of
/proc/stat do, see proc(5)); one that falls by more was reset or has wrapped."""

LEAP = 1_000_000
"""A counter that fell and is back where it was, at once and by more than this, had been misread as
it fell: a driver that resets, or a card that does not answer, may show zeros for a moment."""

BRIDGE_S = 10.0
"""Gaps that a counter's growth covers; after a longer one it starts anew: another entity may have
come to have its name."""


class Shape(NamedTuple):
    """How the values of one scope are carried on.

    Attributes:
        counters: 1 of each that is a counter, 0 of a gauge.
        ceilings: of a counter, the gauge and the factor whose product it may grow by in a second;
            what is more was misread.
        nothing: the values of an entity that was not read.
    """

    counters: tuple[int, ...]
    ceilings: tuple[tuple[int, int, float], ...]
    nothing: Values

    @classmethod
    def of(cls, rows: Sequence[Metric]) -> Self:
        """Return the shape of a scope.

        Args:
            rows: of the scope's values, in catalogue order.
        """
        places = {row.name: place for place, row in enumerate(rows)}
        ceilings = [
            (place, places[row.ceiling[0]], row.ceiling[1])
            for place, row in enumerate(rows)
            if row.ceiling is not None and row.ceiling[0] in places
        ]
        counters = tuple(int(row.kind == COUNTER) for row in rows)
        return cls(counters, tuple(ceilings), (None,) * len(rows))


class Standing(msgspec.Struct, frozen=True, gc=False):
    """Where the running totals of one scope stood when a sample came.

    Standings share what did not change between them.

    Attributes:
        places: where the values of each entity begin in the others, which hold one a value.
        totals: a counter's growth; a gauge's integral over time, in unit times seconds.
        present: whether it was read.
        lags_us: of what was read, how much less than `clock_us` its total covers; of what was not,
            what it covers. So a clock that goes on changes none of them.
        clock_us: since the agent's first sample.
    """

    places: Mapping[Labels, int]
    totals: Sequence[float]
    present: bytes
    lags_us: Sequence[int]
    clock_us: int

    def covered_us(self, place: int) -> int:
        """Return the time that the total of a value covers."""
        lag_us = self.lags_us[place]
        return self.clock_us - lag_us if self.present[place] else lag_us


class Tracks:
    """The running totals of all entities of one scope.

    Args:
        shape: of the scope.
        begin_us: when the agent's first sample was taken, on the node's clock.
    """

    def __init__(self, shape: Shape, begin_us: int) -> None:
        self._shape = shape
        self._begin_us = self._now_us = begin_us
        self._labels: list[Labels] = []
        self._seen_us: list[int] = []
        self._places: dict[Labels, int] = {}
        self._totals = array("d")
        self._present = b""
        self._lags_us = array("q")
        self._before: list[float] = []
        self._away: dict[int, tuple[float, int]] = {}
        self._fallen: dict[int, float] = {}

    def __len__(self) -> int:
        """Return how many entities are known."""
        return len(self._labels)

    @property
    def standing(self) -> Standing:
        """Where all totals stand."""
        return Standing(self._places, self._totals, self._present, self._lags_us, self._clock_us)

    @property
    def _clock_us(self) -> int:
        return self._now_us - self._begin_us

    def advance(self, rows: Sequence[Row], now_us: int) -> None:
        """Carry the totals on by one sample.

        Args:
            rows: of this scope.
            now_us: when the sample was taken; later than the one before.
        """
        elapsed_us = now_us - self._now_us
        elapsed_s = elapsed_us / 1e6
        values = self._values(rows, now_us)
        present = bytes(map(is_not, values, repeat(None)))
        numbers = [value or 0 for value in values] if 0 in present else values
        grown = list(map(sub, numbers, self._before))
        odd = self._odd(values, present, grown, elapsed_s)
        if odd:
            self._one_by_one(odd, values, grown, elapsed_us)
        counters = self._shape.counters
        if not all(counters):
            weights = [1.0 if counts else elapsed_s for counts in counters] * len(self)
            grown = list(map(mul, grown, weights))
            numbers = list(map(mul, numbers, counters * len(self)))
        self._before = numbers
        if any(grown):
            self._totals = array("d", map(add, self._totals, grown))
        if present != self._present:
            self._present = present
        self._now_us = now_us

    def forget(self, before_us: float) -> None:
        """Forget the entities that were seen last before then: no window begins there any more."""
        if min(self._seen_us, default=before_us) >= before_us:
            return
        kept = [place for place, seen_us in enumerate(self._seen_us) if seen_us >= before_us]
        width = len(self._shape.counters)
        old = [place * width + i for place in kept for i in range(width)]
        new = {before: now for now, before in enumerate(old)}
        self._labels = [self._labels[place] for place in kept]
        self._seen_us = [self._seen_us[place] for place in kept]
        self._places = {labels: place * width for place, labels in enumerate(self._labels)}
        self._totals = array("d", [self._totals[i] for i in old])
        self._lags_us = array("q", [self._lags_us[i] for i in old])
        self._present = bytes([self._present[i] for i in old])
        self._before = [self._before[i] for i in old]
        self._away = {new[i]: away for i, away in self._away.items() if i in new}
        self._fallen = {new[i]: peak for i, peak in self._fallen.items() if i in new}

    def _values(self, rows: Sequence[Row], now_us: int) -> list[Any]:
        """Return what was read, and None in the place of what was not; who is new joins."""
        if [row.labels for row in rows] == self._labels:
            self._seen_us = [now_us] * len(rows)
            return list(chain.from_iterable([row.values for row in rows]))
        read = {row.labels: row.values for row in rows}
        self._join([labels for labels in read if labels not in self._places])
        for place, labels in enumerate(self._labels):
            if labels in read:
                self._seen_us[place] = now_us
        nothing = self._shape.nothing
        return list(chain.from_iterable([read.get(labels, nothing) for labels in self._labels]))

    def _join(self, new: Sequence[Labels]) -> None:
        """Give entities a place, of which nothing was read yet."""
        if not new:
            return
        width = len(self._shape.counters)
        nothing = [0.0] * width * len(new)
        self._labels = [*self._labels, *new]
        self._seen_us += [0] * len(new)
        self._places = {labels: place * width for place, labels in enumerate(self._labels)}
        self._totals = self._totals + array("d", nothing)
        self._lags_us = self._lags_us + array("q", bytes(8 * len(nothing)))
        self._present += bytes(len(nothing))
        self._before = [*self._before, *nothing]

    def _odd(
        self, values: Sequence[Value], present: bytes, grown: Sequence[float], elapsed_s: float
    ) -> set[int]:
        """Return the places that are not plain: a plain one was read before, and only grew."""
        counters, ceilings, _ = self._shape
        odd = {*self._away, *self._fallen}
        if present != self._present:
            odd.update(i for i, moved in enumerate(map(xor, present, self._present)) if moved)
        if min(grown, default=0) < 0:
            counts = cycle(counters)
            odd.update(i for i, by in enumerate(grown) if next(counts) and by < 0)
        for counter, _, _ in ceilings:
            every = range(counter, len(grown), len(counters))
            odd.update(i for i in every if self._is_misread(i, grown[i], values, elapsed_s))
        return odd

    def _one_by_one(
        self, odd: Iterable[int], values: Sequence[Value], grown: list[float], elapsed_us: int
    ) -> None:
        """Set by how much these have grown, and what their totals cover from now on."""
        width = len(self._shape.counters)
        before_us = self._clock_us
        now_us = before_us + elapsed_us
        lags_us = self._lags_us[:]
        for i in odd:
            value = values[i]
            covered_us = before_us - lags_us[i] if self._present[i] else lags_us[i]
            if self._shape.counters[i % width]:
                grown[i], more_us = self._counted(i, value, values, elapsed_us)
            else:
                more_us = 0 if value is None else elapsed_us
            covered_us += more_us
            lags_us[i] = covered_us if value is None else now_us - covered_us
        self._lags_us = lags_us

    def _counted(
        self, i: int, value: Value, values: Sequence[Value], elapsed_us: int
    ) -> tuple[float, int]:
        """Return by how much a counter grew, and in which time."""
        last = self._before[i] if self._present[i] else None
        before, gap_us = self._away.pop(i, (last, 0))
        gap_us += elapsed_us
        if value is None:
            if before is not None and gap_us <= BRIDGE_S * 1e6:
                self._away[i] = before, gap_us
            else:
                self._fallen.pop(i, None)
            return 0.0, 0
        growth = None if before is None else self._growth(i, before, value)
        if growth is None or self._is_misread(i, growth, values, gap_us / 1e6):
            return 0.0, 0
        return growth, gap_us

    def _growth(self, i: int, before: float, now: float) -> float | None:
        """Return how much a counter grew; None over a reset."""
        if now < before:
            if now >= before * (1 - JITTER):
                return 0.0
            self._fallen[i] = before
            return None
        growth = now - before
        if now >= self._fallen.get(i, inf):
            peak = self._fallen.pop(i)
            if growth > LEAP and before < peak / 2:
                return None
        return growth

    def _is_misread(self, i: int, growth: float, values: Sequence[Value], seconds: float) -> bool:
        """Tell whether a counter grew by more than it can."""
        place = i % len(self._shape.counters)
        for counter, gauge, factor in self._shape.ceilings:
            limit = values[i - counter + gauge] if counter == place else None
            if limit is not None and growth > limit * factor * seconds:
                return True
        return False
