"""From counters to rates: the one place where raw readings become quantities over time.

Every value of every entity is carried on as a running total and the seconds that the total
covers. A window is then two subtractions, whatever its length, and a value that was missing for
a while covers fewer seconds instead of counting as zero. A counter that comes back soon has counted
on meanwhile, so its growth covers the gap too: what is dear to read may be read seldom.
"""

import math
from collections.abc import Sequence

from gpuwatch.agent.metric import COUNTER, Metric, Values

__all__ = ["Total", "Track"]

JITTER = 0.01
"""A counter that falls by less than this share of itself has jittered (iowait and idle of
/proc/stat do, see proc(5)); one that falls by more was reset or has wrapped."""

LEAP = 1_000_000
"""A counter that fell and is back where it was, at once and by more than this, had been misread as
it fell: a driver that resets, or a card that does not answer, may show zeros for a moment."""

BRIDGE_S = 10.0
"""Gaps that a counter's growth covers; after a longer one it starts anew: another entity may have
come to have its name."""

Total = tuple[tuple[float, ...], tuple[float, ...]]
"""Running totals and the seconds that they cover, in catalogue order of the scope's values.

A counter's total is its growth; a gauge's is its integral over time (unit times seconds)."""


class Track:
    """The running totals of one entity."""

    __slots__ = ("_away_s", "_fallen", "_gaps_s", "_raw", "_seconds", "_totals")

    def __init__(self, width: int) -> None:
        self._raw: Values = (None,) * width
        self._totals = [0.0] * width
        self._seconds = [0.0] * width
        self._fallen: dict[int, float] = {}
        self._gaps_s: dict[int, float] = {}
        self._away_s = 0.0

    def forget(self) -> None:
        """Let the next reading start anew: counters of a new boot or agent do not continue."""
        self._raw = (None,) * len(self._raw)
        self._fallen.clear()
        self._gaps_s.clear()
        self._away_s = 0.0

    def miss(self, elapsed_s: float) -> None:
        """Let a reading pass in which the entity was not there."""
        self._away_s += elapsed_s
        if self._away_s > BRIDGE_S:
            self.forget()

    def advance(self, rows: Sequence[Metric], values: Values, elapsed_s: float) -> None:
        """Carry the totals on by one reading.

        Args:
            rows: of the scope's values, in catalogue order.
            values: read now.
            elapsed_s: seconds since the reading before; not positive when there is none or the
                clock did not move, then only the raw values are kept.
        """
        away_s, self._away_s = self._away_s, 0.0
        if elapsed_s > 0:
            for i, value in enumerate(values):
                if value is None:
                    continue
                covered_s = elapsed_s
                if rows[i].kind == COUNTER:
                    covered_s += away_s + self._gaps_s.pop(i, 0.0)
                    growth = self._growth(i, value)
                    if growth is None or growth > _most(rows, i, values) * covered_s:
                        continue
                    self._totals[i] += growth
                else:
                    self._totals[i] += value * elapsed_s
                self._seconds[i] += covered_s
        self._raw = self._kept(values, elapsed_s + away_s) if None in values else values

    def total(self) -> Total:
        """Return the totals as they stand."""
        return tuple(self._totals), tuple(self._seconds)

    def _kept(self, values: Values, elapsed_s: float) -> Values:
        """Return the values, where one is missing what it was before, unless that was long ago."""
        kept = list(values)
        for i, before in enumerate(self._raw):
            if before is not None and kept[i] is None:
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
        if self._fallen and now >= self._fallen.get(place, math.inf):
            peak = self._fallen.pop(place)
            if growth > LEAP and before < peak / 2:
                return None
        return growth


def _most(rows: Sequence[Metric], place: int, values: Values) -> float:
    """Return what a counter may grow by in a second; what is more was misread."""
    ceiling = rows[place].ceiling
    if ceiling is None:
        return math.inf
    name, factor = ceiling
    gauge = next((v for row, v in zip(rows, values, strict=True) if row.name == name), None)
    return math.inf if gauge is None else gauge * factor
