"""Strips over time: fixed scale, explicit gaps."""

from collections.abc import Iterable, Sequence

from gpuwatch.model.verdict import LETTERS
from gpuwatch.tui.history import STRIP_BUCKETS
from gpuwatch.tui.paint.spans import GAP, Line, Span

__all__ = ["activity", "lane", "strip_cells"]

BLOCKS = "▁▂▃▄▅▆▇█"
ROLES = {letter: state.lower() for state, letter in LETTERS.items()}


def strip_cells(room: int) -> int:
    """Return the most cells that fit the room and cut 5 minutes into equal parts."""
    return next(
        (c for c in (60, 30, 20, 15, 12, 10, 6, 5) if c <= room and not STRIP_BUCKETS % c), 0
    )


def activity(shares: Sequence[float | None]) -> Line:
    """Return shares, 0 to 1 over the whole height, as blocks; a gap where none was seen."""
    return _merged(
        (GAP, "gap") if s is None else (BLOCKS[min(7, max(0, int(s * 8)))], "strip") for s in shares
    )


def lane(letters: Sequence[str | None]) -> Line:
    """Return the letters of states, a gap where nothing was seen."""
    return _merged((GAP, "gap") if c is None else (c, ROLES.get(c, "dim")) for c in letters)


def _merged(cells: Iterable[Span]) -> Line:
    runs: list[Span] = []
    for text, role in cells:
        if runs and runs[-1][1] == role:
            runs[-1] = (runs[-1][0] + text, role)
        else:
            runs.append((text, role))
    return tuple(runs)
