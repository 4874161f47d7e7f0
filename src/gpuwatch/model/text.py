"""Text from a node or a file, made safe to show: one line, nothing that steers a terminal."""

__all__ = ["sanitize"]

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_SHOWN = {chr(code): chr(0x2400 + code) for code in range(0x20)}
_SHOWN |= {"\x7f": "\N{SYMBOL FOR DELETE}"} | dict.fromkeys(_SPACES, " ")
"""Control Pictures has one for each control character of ASCII; odd spaces become plain ones."""


def sanitize(text: str, limit: int = 256) -> str:
    """Return text of at most `limit` characters, each of them printable.

    Control characters are shown by their pictures; everything else that `str.isprintable` does
    not name printable (C1, bidirectional and other format characters, lone surrogates, line
    separators, unassigned and private code points) by U+FFFD; odd spaces become plain ones.
    What is too long ends in an ellipsis. Markup is not touched: screens never read any.

    Args:
        text: as it came, decoded in any way.
        limit: characters, at least 1.
    """
    if len(text) > limit:
        text = text[: limit - 1] + ELLIPSIS
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _SHOWN.get(c, REPLACEMENT) for c in text)
