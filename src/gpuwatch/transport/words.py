"""Words that the start command may carry: every login shell passes them on unchanged."""

import re

from gpuwatch.errors import InputError
from gpuwatch.model.text import sanitize

__all__ = ["GLIMPSE", "interpreter", "variable_name", "variable_value"]

GLIMPSE = 120
"""Characters of a text that an error quotes."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VALUE = re.compile(r"[A-Za-z0-9_./:,=@%+-]{0,1024}")
_PATH = re.compile(r"(~?/)?[A-Za-z0-9_.+][A-Za-z0-9_./:,=@%+-]{0,1023}")


def interpreter(text: str) -> str:
    """Return the path or name of an interpreter.

    Raises:
        InputError: some login shell would change it.
    """
    allowed = "letters, digits and _ . / : , = @ % + - (and ~/ in front)"
    return _fitting(_PATH, text, "is not a plain path", allowed)


def variable_name(text: str) -> str:
    """Return the name of an environment variable.

    Raises:
        InputError: it is none.
    """
    allowed = "letters, digits and _, not a digit first"
    return _fitting(_NAME, text, "is no name of an environment variable", allowed)


def variable_value(text: str) -> str:
    """Return the value of an environment variable.

    Raises:
        InputError: some login shell would change it.
    """
    allowed = "letters, digits and _ . / : , = @ % + -"
    return _fitting(_VALUE, text, "cannot be passed on", allowed)


def _fitting(pattern: re.Pattern[str], text: str, wrong: str, allowed: str) -> str:
    if not pattern.fullmatch(text):
        raise InputError(f"{sanitize(text, GLIMPSE)!r} {wrong}", f"allowed are {allowed}")
    return text
