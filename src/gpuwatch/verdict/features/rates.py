"""Arithmetic of rates that may be missing."""

__all__ = ["scaled"]


def scaled(rate: float | None, factor: float) -> float | None:
    """Return a rate in another unit; None stays None."""
    return None if rate is None else rate * factor
