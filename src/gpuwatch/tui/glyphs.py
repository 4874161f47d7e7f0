"""The screen in ASCII, for terminals that draw nothing else: each sign becomes one that takes its cells."""

import locale

from rich.cells import cell_len

__all__ = ["in_ascii", "speaks_unicode"]

_SIGNS = {
    "·": ".", "…": "~", "─": "-", "━": "=", "│": "|", "╷": "|", "▌": "|", "‖": "|",
    "╭": "+", "╮": "+", "╰": "+", "╯": "+", "├": "+", "┤": "+", "┌": "+", "┐": "+", "└": "+", "┘": "+",
    "↓": "v", "↑": "^", "→": ">", "←": "<", "↵": "<", "▸": ">", "▶": ">", "▾": "v", "●": "*", "°": " ",
    "▁": "_", "▂": "_", "▃": ".", "▄": ":", "▅": "-", "▆": "=", "▇": "+", "█": "#", "␛": "?",
}  # fmt: skip
_TABLE = str.maketrans(_SIGNS)


def in_ascii(text: str) -> str:
    """Return a text of as many cells in ASCII alone; what has no likeness becomes `?`."""
    if text.isascii():
        return text
    plain = text.translate(_TABLE)
    if plain.isascii():
        return plain
    return "".join(sign if sign.isascii() else "?" * cell_len(sign) for sign in plain)


def speaks_unicode() -> bool:
    """Tell whether the terminal's locale, by LC_ALL, LC_CTYPE or LANG, is one of Unicode."""
    return locale.getencoding().lower().replace("-", "") in ("utf8", "utf16", "utf32", "gb18030")
