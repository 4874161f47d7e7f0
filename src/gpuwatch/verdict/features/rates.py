"""Arithmetic of rates that may be missing."""

__all__ = ["PAGE_MB", "scaled"]

PAGE_MB = 4096 / 1e6
"""Of most kernels; where pages are of 64 KiB more is meant than is told."""


def scaled(rate: float | None, factor: float) -> float | None:
    """Return a rate in another unit; None stays None."""
    return None if rate is None else rate * factor
