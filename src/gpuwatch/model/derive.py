"""From counters to rates: the one place where raw readings become quantities over time.

Every value of every entity is carried on as a running total and the seconds that the total
covers. A window is then two subtractions, whatever its length, and a value that was missing for
a while covers fewer seconds instead of counting as zero.
"""

from collections.abc import Sequence

from gpuwatch.agent.metric import COUNTER, Metric, Values

__all__ = ["Total", "Track"]

JITTER = 0.01
"""A counter that falls by less than this share of itself has jittered (iowait and idle of
/proc/stat do, see proc(5)); one that falls by more was reset or has wrapped."""

Total = tuple[tuple[float, ...], tuple[float, ...]]
"""Running totals and the seconds that they cover, in catalogue order of the scope's values.

A counter's total is its growth; a gauge's is its integral over time (unit times seconds)."""


class Track:
    """The running totals of one entity."""

    __slots__ = ("_raw", "_seconds", "_totals")

    def __init__(self, width: int) -> None:
        self._raw: Values = (None,) * width
        self._totals = [0.0] * width
        self._seconds = [0.0] * width

    def forget(self) -> None:
        """Let the next reading start anew: counters of a new boot or agent do not continue."""
        self._raw = (None,) * len(self._raw)

    def advance(self, rows: Sequence[Metric], values: Values, elapsed_s: float) -> None:
        """Carry the totals on by one reading.

        Args:
            rows: of the scope's values, in catalogue order.
            values: read now.
            elapsed_s: seconds since the reading before; not positive when there is none or the
                clock did not move, then only the raw values are kept.
        """
        if elapsed_s > 0:
            for i, value in enumerate(values):
                if value is None:
                    continue
                if rows[i].kind == COUNTER:
                    growth = _growth(self._raw[i], value)
                    if growth is None:
                        continue
                    self._totals[i] += growth
                else:
                    self._totals[i] += value * elapsed_s
                self._seconds[i] += elapsed_s
        self._raw = values

    def total(self) -> Total:
        """Return the totals as they stand."""
        return tuple(self._totals), tuple(self._seconds)


def _growth(before: float | None, now: float) -> float | None:
    """Return how much a counter grew; None over a reset, or when there is nothing before."""
    if before is None:
        return None
    if now >= before:
        return now - before
    return 0.0 if now >= before * (1 - JITTER) else None
