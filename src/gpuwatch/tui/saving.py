"""Pictures of the screen as files."""

import os
import re
from pathlib import Path

__all__ = ["save", "without_font"]

MOST = 999
"""Files of one name: then it is time to clean up."""


def save(folder: Path, name: str, suffix: str, content: str) -> Path:
    """Write a new file that only its owner can read; nothing is ever overwritten.

    Args:
        folder: where.
        name: of the file; what is odd in a file's name is left out.
        suffix: `svg`, `txt`.
        content: what it holds.

    Raises:
        OSError: it cannot be written.
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "screen"
    for number in range(1, MOST + 1):
        path = folder / f"{plain}{'' if number == 1 else f'-{number}'}.{suffix}"
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(file, "w", encoding="utf-8") as out:
            out.write(content)
        return path
    raise FileExistsError(f"{folder / plain}.{suffix}: and {MOST - 1} more are there")


def without_font(svg: str) -> str:
    """Return a picture that asks for no font from the network when it is opened."""
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
