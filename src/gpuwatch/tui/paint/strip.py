"""Strips over time: fixed scale, explicit gaps."""

from collections.abc import Iterable, Sequence

from gpuwatch.model.verdict import LETTERS
from gpuwatch.tui.history import STRIP_BUCKETS, History
from gpuwatch.tui.paint.spans import GAP, Line, Span

__all__ = ["ROLES", "activity", "blocks", "lane", "strip_cells"]

BLOCKS = "▁▂▃▄▅▆▇█"
ROLES = {letter: state.lower() for state, letter in LETTERS.items()}
"""The role of each state's letter."""


def strip_cells(room: int) -> int:
    """Return the most cells that fit the room and cut 5 minutes into equal parts."""
    return next(
        (c for c in (60, 30, 20, 15, 12, 10, 6, 5) if c <= room and not STRIP_BUCKETS % c), 0
    )


def activity(history: History, node: str, now_us: int, cells: int) -> Line:
    """Return how much a node computed in the last 5 minutes, coloured by what it waited for.

    Args:
        history: of the job.
        node: its name.
        now_us: where the strip ends.
        cells: of the strip, as `strip_cells` gives them.
    """
    each = STRIP_BUCKETS // cells if cells else 1
    said = history.letters((node,), now_us, each * cells)
    letters = [
        next((c for c in reversed(said[at : at + each]) if c is not None), None)
        for at in range(0, len(said), each)
    ]
    return blocks(history.activity(node, now_us, cells) if cells else [], letters)


def blocks(shares: Sequence[float | None], letters: Sequence[str | None]) -> Line:
    """Return shares, 0 to 1 over the whole height, as blocks; a gap where none was seen."""
    return _merged(
        (GAP, "gap")
        if share is None
        else (BLOCKS[min(7, max(0, int(share * 8)))], ROLES.get(letter or "", "strip"))
        for share, letter in zip(shares, letters, strict=True)
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
