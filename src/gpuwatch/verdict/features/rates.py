"""Arithmetic of rates that may be missing."""

from collections.abc import Sequence

__all__ = ["PAGE_MB", "added", "scaled"]

PAGE_MB = 4096 / 1e6
"""Of most kernels; where pages are of 64 KiB more is meant than is told."""


def scaled(rate: float | None, factor: float) -> float | None:
    """Return a rate in another unit; None stays None."""
    return None if rate is None else rate * factor


def added(parts: Sequence[float | None]) -> float | None:
    """Return the sum of what is known; None where nothing is."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
