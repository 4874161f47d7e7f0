"""Expressions of a job file, that find a number in a line of the job's log, or a group in a name.

They are people's own, and a line may hold anything: so a search ends after a while. `re` cannot be
stopped; RE2 needs no stopping, but knows neither lookarounds nor back references and comes with
a large library; a process for searches costs more than both. `regex` takes the same expressions as
`re`, and a limit of time.
"""

import math
import re

__all__ = ["LIMIT_S", "Expression", "plain_text"]

LIMIT_S = 0.01
"""Of one search; a usual one takes a few microseconds."""
PATIENCE = 3
"""Searches in a row that may take longer: then the expression is given up."""

_SPECIAL = ".^$+*?()|"
_TOKEN = re.compile(
    r"""\\(?:x..|u.{4}|U.{8}|[NpPm]\{[^}]*\}|[gkL]<[^>]*>|\d+|.)   # an escape
    | \[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]                     # a class
    | \((?:\?P<\w+>|\?P.|\?.)?                                    # a group begins
    | \{[\w,<=+:\ ]*\}                                            # a count, of errors too
    | .""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_GROUP = re.compile(r"(?!\(\?)|\(\?:|\(\?P<")
_MAY_BE_NONE = re.compile(r"[*?]|\{.+\}", re.DOTALL)
_QUANTIFIER = re.compile(r"[*?+]|\{.+\}", re.DOTALL)


class Expression:
    """One expression with one group.

    Args:
        pattern: a regular expression.

    Attributes:
        given_up: whether it took too long, too often.

    Raises:
        ValueError: it is no regular expression, or has no group; says why.
    """

    def __init__(self, pattern: str) -> None:
        import regex  # costs the start as much as all of the model, and few jobs need it

        try:
            self._compiled = regex.compile(pattern)
        except (regex.error, RecursionError, OverflowError) as error:
            raise ValueError(str(error)) from None
        if self._compiled.groups != 1:
            raise ValueError(f"has {self._compiled.groups} groups; 1 is wanted")
        self._too_long = 0

    @property
    def given_up(self) -> bool:
        """Whether it took too long, too often, and is asked no more."""
        return self._too_long >= PATIENCE

    def number(self, line: str) -> float | None:
        """Return the number that its group finds in a line; None where there is none."""
        return _number(self.text(line))

    def text(self, line: str) -> str | None:
        """Return what its group finds in a line; None where there is nothing."""
        if self.given_up:
            return None
        try:
            found = self._compiled.search(line, timeout=LIMIT_S)
        except TimeoutError:
            self._too_long += 1
            return None
        self._too_long = 0
        text: str | None = found.group(1) if found else None
        return text


def _number(text: str | None) -> float | None:
    """Return a number as logs have them, with commas or underscores between thousands."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def plain_text(pattern: str) -> str:
    """Return the longest text that each match holds as it stands; empty where none is sure.

    Only what is plain to see is found: alternatives, flags and lookarounds make all unsure.

    Args:
        pattern: a regular expression.
    """
    runs, opened, closed, before = [""], [0], 0, ""
    for part in _TOKEN.findall(pattern):
        if part == "|" or not _PLAIN_GROUP.match(part):
            return ""
        if part.startswith("("):
            opened.append(len(runs))
        elif part == ")":
            closed = opened.pop()
        elif _MAY_BE_NONE.fullmatch(part) and not _QUANTIFIER.fullmatch(before):
            if before == ")":
                del runs[closed:]
            else:
                runs[-1] = runs[-1][: -len(_literal(before)) or None]
        if _literal(part):
            runs[-1] += _literal(part)
        else:
            runs.append("")
        before = part
    return max((run for run in runs if run.strip()), key=len, default="")


def _literal(part: str) -> str:
    """Return the character that a part stands for as it is; empty where it is none."""
    if part.startswith("\\"):
        return part[1:] if len(part) == 2 and not (part[1].isalnum() or part[1] == "_") else ""
    return part if len(part) == 1 and part not in _SPECIAL else ""
