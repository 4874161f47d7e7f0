"""Figures as people write them."""

import re
from collections.abc import Iterable

__all__ = ["count", "gbit", "lower", "rate", "size", "upper"]


_COUNT = re.compile(r"[0-9]{1,18}")


def count(text: str | None) -> int | None:
    """Return a whole number that a node tells, zero or more; None of anything else."""
    found = _COUNT.fullmatch((text or "").strip())
    return int(found[0]) if found else None


def lower(values: Iterable[float]) -> float:
    """Return the value below which a quarter lies, 0 of none: one bad node of three spoils more than half."""
    ordered = sorted(values)
    return ordered[len(ordered) // 4] if ordered else 0.0


def upper(values: Iterable[float]) -> float:
    """Return the value above which a quarter lies, 0 of none."""
    return -lower(-value for value in values)


def gbit(bits_s: float) -> str:
    """Return a line rate in Gb/s, of which small ones keep a digit more."""
    return f"{bits_s / 1e9:.3g} Gb/s"


def rate(bytes_s: float) -> str:
    """Return bytes a second."""
    return f"{bytes_s / 1e9:.2f} GB/s" if bytes_s >= 1e9 else f"{bytes_s / 1e6:.3g} MB/s"


def size(count: float) -> str:
    """Return bytes."""
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"
