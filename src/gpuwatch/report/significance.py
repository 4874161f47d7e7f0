"""Whether two recordings differ by more than each differs from itself, minute by minute.

Each quantity is taken as means of equal pieces of time. What lasts makes neighbours alike, so that
many pieces tell less than they are: with r the correlation of neighbours (corrected for its bias
in short series, Marriott and Pope 1954), n pieces are worth n (1 - r) / (1 + r) independent ones
(Bartlett 1946; Zwiers and von Storch 1995). The difference of the means is then given with the
interval of Welch's t-test. It is significant where that interval leaves out zero and where
somebody would mind: the difference is a tenth of the larger mean. Where a side is worth too few
independent pieces, as one that holds a single incident, nothing is said.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist, fmean, variance
from typing import NamedTuple

__all__ = ["Difference", "difference"]

CONFIDENCE = 0.99
"""Of the interval: a comparison has some twenty rows, and none of them should differ by chance."""
LEAST = 4.0
"""Independent pieces that a side must be worth."""
RELEVANT = 0.1


class Difference(NamedTuple):
    """Means of two sides, and the interval of the second less the first; None: cannot be told."""

    before: float | None
    after: float | None
    low: float | None = None
    high: float | None = None
    significant: bool | None = None


class _Side(NamedTuple):
    mean: float
    error: float
    """Variance of the mean."""
    pieces: float
    """Independent ones."""


def difference(
    before: Sequence[float | None], after: Sequence[float | None], least: float = 0.0
) -> Difference:
    """Return by how much a quantity differs.

    Args:
        before: means of equal pieces of time, in order; None where nothing was read.
        after: those of the other side.
        least: a difference that somebody would mind, in the quantity's unit.
    """
    first, second = ([v for v in values if v is not None] for values in (before, after))
    means = [fmean(values) if values else None for values in (first, second)]
    one, other = _side(first), _side(second)
    if one is None or other is None:
        return Difference(means[0], means[1])
    gap, error = other.mean - one.mean, one.error + other.error
    reach = math.sqrt(error) * _student(_freedom(one, other)) if error else 0.0
    low, high = gap - reach, gap + reach
    minded = max(least, RELEVANT * max(abs(one.mean), abs(other.mean)))
    clear = (low > 0 or high < 0) and abs(gap) >= minded
    return Difference(one.mean, other.mean, low, high, clear)


def _side(values: Sequence[float]) -> _Side | None:
    """Return what a side tells; None of too little."""
    if len(values) < LEAST * 2:
        return None
    spread = variance(values)
    if spread == 0:
        return _Side(values[0], 0.0, float(len(values)))
    alike = _alike(values, spread)
    pieces = len(values) * (1 - alike) / (1 + alike)
    if pieces < LEAST:
        return None
    return _Side(fmean(values), spread / pieces, pieces)


def _alike(values: Sequence[float], spread: float) -> float:
    """Return how alike neighbours are, 0 to less than 1."""
    count, mean = len(values), fmean(values)
    products = [(a - mean) * (b - mean) for a, b in pairwise(values)]
    found = sum(products) / ((count - 1) * spread)
    return min(0.999, max(0.0, found + (1 + 3 * max(0.0, found)) / count))


def _freedom(one: _Side, other: _Side) -> float:
    """Return the degrees of freedom of Welch's test."""
    total = (one.error + other.error) ** 2
    parts = one.error**2 / (one.pieces - 1) + other.error**2 / (other.pieces - 1)
    return total / parts


def _student(freedom: float) -> float:
    """Return the quantile of Student's t that CONFIDENCE asks for.

    By its expansion about the normal one (Abramowitz and Stegun 26.7.5).
    """
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))
