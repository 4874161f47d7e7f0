"""Lines as spans of text with a role: what paint makes, and the canvas gives colours to.

Whatever was written by a node or a file enters a line through `safe`; widths are terminal cells,
so wide and combining characters keep the columns straight.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from rich.cells import cell_len, set_cell_size

from gpuwatch.model.text import sanitize

__all__ = [
    "ELLIPSIS",
    "GAP",
    "Line",
    "Span",
    "changed",
    "clip",
    "columns",
    "ends",
    "fit",
    "pad",
    "plain",
    "safe",
    "whole",
    "width",
    "wrap",
]

Span = tuple[str, str]
"""Text, and the role that names its style."""
Line = tuple[Span, ...]

GAP = "\N{MIDDLE DOT}"
"""Nothing was seen here: a gap in time, not a zero."""
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


@lru_cache(maxsize=4096)
def safe(text: str, limit: int = 256) -> str:
    """Return foreign text as one printable line."""
    return sanitize(text, limit)


@lru_cache(maxsize=8192)
def fit(text: str, cells: int) -> str:
    """Return text in exactly so many cells, cut with an ellipsis or filled with blanks."""
    if cells <= 0:
        return ""
    if cell_len(text) <= cells:
        return set_cell_size(text, cells)
    return set_cell_size(text, cells - 1) + ELLIPSIS


def width(line: Iterable[Span]) -> int:
    """Return how many cells a line takes."""
    return sum(cell_len(text) for text, _ in line)


def changed(before: Line, now: Line) -> int:
    """Return up to which cell a new line differs from the one before; 0 if nowhere."""
    if before == now:
        return 0
    old = dict(_placed(before))
    ends = [x + cell_len(span[0]) for x, span in _placed(now) if old.get(x) != span]
    was, is_now = width(before), width(now)
    return max([*ends, was if was != is_now else 0])


def _placed(line: Line) -> Iterator[tuple[int, Span]]:
    x = 0
    for span in line:
        yield x, span
        x += cell_len(span[0])


def plain(line: Iterable[Span]) -> str:
    """Return a line's text alone."""
    return "".join(text for text, _ in line)


def clip(line: Iterable[Span], cells: int) -> Line:
    """Return a line in at most so many cells; the span that is cut ends in an ellipsis."""
    kept: list[Span] = []
    left = cells
    for text, role in line:
        taken = cell_len(text)
        if taken > left:
            if left > 0:
                kept.append((fit(text, left), role))
            break
        kept.append((text, role))
        left -= taken
    return tuple(kept)


def pad(line: Iterable[Span], cells: int) -> Line:
    """Return a line in exactly so many cells."""
    clipped = clip(line, cells)
    short = cells - width(clipped)
    return (*clipped, (" " * short, "text")) if short > 0 else clipped


def ends(left: Iterable[Span], right: Iterable[Span], cells: int) -> Line:
    """Return a line with one part at each end; the right one stays whole where it can."""
    right = clip(right, cells)
    room = cells - width(right)
    return (*pad(left, room), *right)


def columns(parts: Sequence[tuple[Iterable[Span], int]], gap: int = 1) -> Line:
    """Return parts side by side, each in its own number of cells."""
    line: list[Span] = []
    for i, (part, cells) in enumerate(parts):
        if i:
            line.append((" " * gap, "text"))
        line.extend(pad(part, cells))
    return tuple(line)


def whole(parts: Iterable[Line], cells: int) -> Line:
    """Return parts one after the other, each whole or not at all; only the first may be cut."""
    line: Line = ()
    for part in parts:
        longer = (*line, *part)
        if width(longer) <= cells:
            line = longer
        elif not line:
            line = clip(part, cells)
    return line


def wrap(text: str, cells: int, lines: int) -> list[str]:
    """Break words into at most so many lines; the last ends in an ellipsis if more was said."""
    rows: list[str] = []
    row = ""
    words = text.split(" ")
    for i, word in enumerate(words):
        longer = f"{row} {word}" if row else word
        if cell_len(longer) <= cells or not row:
            row = longer
            continue
        if len(rows) == lines - 1:
            rows.append(fit(" ".join([row, *words[i:]]), cells).rstrip())
            return rows
        rows.append(row)
        row = word
    return [fit(r, cells).rstrip() for r in (*rows, row)]
