"""From counters to rates: the one place where raw readings become quantities over time.

Every value of every entity is carried on as a running total and the seconds that the total
covers. A window is then two subtractions, whatever its length, and a value that was missing for
a while covers fewer seconds instead of counting as zero. A counter that comes back soon has counted
on meanwhile, so its growth covers the gap too: what is dear to read may be read seldom.
"""

from collections.abc import Sequence
from itertools import repeat
from math import inf
from operator import add, is_
from typing import NamedTuple, Self

from gpuwatch.agent.metric import COUNTER, Metric, Values

__all__ = ["Seconds", "Shape", "Total", "Track"]

JITTER = 0.01
"""A counter that falls by less than this share of itself has jittered (iowait and idle of
/proc/stat do, see proc(5)); one that falls by more was reset or has wrapped."""

LEAP = 1_000_000
"""A counter that fell and is back where it was, at once and by more than this, had been misread as
it fell: a driver that resets, or a card that does not answer, may show zeros for a moment."""

BRIDGE_S = 10.0
"""Gaps that a counter's growth covers; after a longer one it starts anew: another entity may have
come to have its name."""

Floats = tuple[float, ...]
Total = tuple[Floats, Floats]
"""Running totals and the seconds that they cover, in catalogue order of the scope's values.

A counter's total is its growth; a gauge's is its integral over time (unit times seconds)."""
Seconds = dict[tuple[int, tuple[bool, ...]], tuple[Floats, Floats]]
"""Seconds before one sample and after it, by the id of the former and what was absent: most
entities of a scope are read alike, and share them."""


class Shape(NamedTuple):
    """How the values of one scope are carried on.

    Attributes:
        counters: whether each is a counter; else it is a gauge.
        ceilings: of a counter, the gauge and the factor whose product it may grow by in a second;
            what is more was misread.
        nothing: totals and seconds of what was never read.
    """

    counters: tuple[bool, ...]
    ceilings: tuple[tuple[int, int, float], ...]
    nothing: Floats

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
        counters = tuple(row.kind == COUNTER for row in rows)
        return cls(counters, tuple(ceilings), (0.0,) * len(rows))


class Track:
    """The running totals of one entity.

    Nearly every reading is plain: it has what the one before had, and counters that only grew. Those
    are carried on as a whole; a viewer takes a hundred thousand values a second.

    Args:
        shape: of its scope.

    Attributes:
        total: as it stands.
        seen_us: when it was read last, as whoever keeps it says.
    """

    __slots__ = ("_absent", "_away_s", "_fallen", "_gaps_s", "_raw", "_shape", "seen_us", "total")

    def __init__(self, shape: Shape) -> None:
        width = len(shape.counters)
        self.total: Total = shape.nothing, shape.nothing
        self.seen_us = 0
        self._shape = shape
        self._raw: Values = (None,) * width
        self._absent = (True,) * width
        self._fallen: dict[int, float] = {}
        self._gaps_s: dict[int, float] = {}
        self._away_s = 0.0

    def forget(self) -> None:
        """Let the next reading start anew: counters of a new boot or agent do not continue."""
        self._raw = (None,) * len(self._raw)
        self._absent = (True,) * len(self._raw)
        self._fallen.clear()
        self._gaps_s.clear()
        self._away_s = 0.0

    def miss(self, elapsed_s: float) -> None:
        """Let a reading pass in which the entity was not there."""
        self._away_s += elapsed_s
        if self._away_s > BRIDGE_S:
            self.forget()

    def advance(self, values: Values, elapsed_s: float, seconds: Seconds) -> None:
        """Carry the totals on by one reading.

        Args:
            values: read now, in catalogue order.
            elapsed_s: seconds since the reading before; not positive when there is none or the
                clock did not move, then only the raw values are kept.
            seconds: of the entities before it in the same sample; its own are added.
        """
        absent = tuple(map(is_, values, repeat(None)))
        odd = self._away_s or self._gaps_s or self._fallen or absent != self._absent
        if odd or elapsed_s <= 0 or not self._plainly(values, elapsed_s, seconds):
            self._carefully(values, elapsed_s)

    def _plainly(self, values: Values, elapsed_s: float, seconds: Seconds) -> bool:
        """Carry on a plain reading; tell whether it was one."""
        counters, ceilings, _ = self._shape
        steps = [
            0.0 if value is None else value - before if counter else value * elapsed_s  # type: ignore[operator]  # absent then as now
            for value, before, counter in zip(values, self._raw, counters, strict=True)
        ]
        if min(steps, default=0.0) < 0.0:
            return False
        if any(self._is_misread(c[0], steps[c[0]], values, elapsed_s) for c in ceilings):
            return False
        totals, before_s = self.total
        alike = id(before_s), self._absent
        if alike not in seconds:
            passed = [0.0 if gone else elapsed_s for gone in self._absent]
            seconds[alike] = before_s, tuple(map(add, before_s, passed))
        _, now_s = seconds[alike]
        self.total = tuple(map(add, totals, steps)) if any(steps) else totals, now_s
        self._raw = values
        return True

    def _carefully(self, values: Values, elapsed_s: float) -> None:
        """Carry on any reading, value by value."""
        away_s, self._away_s = self._away_s, 0.0
        if elapsed_s > 0:
            counters = self._shape.counters
            totals, seconds = map(list, self.total)
            for i, value in enumerate(values):
                if value is None:
                    continue
                covered_s = elapsed_s
                if counters[i]:
                    covered_s += away_s + self._gaps_s.pop(i, 0.0)
                    growth = self._growth(i, value)
                    if growth is None or self._is_misread(i, growth, values, covered_s):
                        continue
                    totals[i] += growth
                else:
                    totals[i] += value * elapsed_s
                seconds[i] += covered_s
            self.total = tuple(totals), tuple(seconds)
        self._raw = self._kept(values, elapsed_s + away_s)
        self._absent = tuple(map(is_, self._raw, repeat(None)))

    def _kept(self, values: Values, elapsed_s: float) -> Values:
        """Return the values; of a counter that is missing what it was before, unless long ago."""
        if None not in values:
            return values
        kept = list(values)
        for i, before in enumerate(self._raw):
            if before is not None and kept[i] is None and self._shape.counters[i]:
                self._gaps_s[i] = self._gaps_s.get(i, 0.0) + elapsed_s
                if self._gaps_s[i] <= BRIDGE_S:
                    kept[i] = before
                else:
                    del self._gaps_s[i]
        return tuple(kept)

    def _growth(self, place: int, now: float) -> float | None:
        """Return how much a counter grew; None over a reset, or when there is nothing before."""
        before = self._raw[place]
        if before is None:
            return None
        if now < before:
            if now >= before * (1 - JITTER):
                return 0.0
            self._fallen[place] = before
            return None
        growth = now - before
        if self._fallen and now >= self._fallen.get(place, inf):
            peak = self._fallen.pop(place)
            if growth > LEAP and before < peak / 2:
                return None
        return growth

    def _is_misread(self, place: int, growth: float, values: Values, seconds: float) -> bool:
        """Tell whether a counter grew by more than it can."""
        for counter, gauge, factor in self._shape.ceilings:
            limit = values[gauge] if counter == place else None
            if limit is not None and growth > limit * factor * seconds:
                return True
        return False
