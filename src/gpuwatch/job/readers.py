"""Readers: each turns one part of the document into a typed value, or says what is wrong there."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from gpuwatch.errors import InputError
from gpuwatch.job import units
from gpuwatch.job.document import Item
from gpuwatch.transport import words
from gpuwatch.transport.node import AGENT_WORD

__all__ = [
    "Reader", "amount", "choice", "expression", "fields", "file_path", "listed", "mapped", "node_path",
    "node_python", "of", "pattern", "program", "switch", "variables", "within", "word",
]  # fmt: skip

T = TypeVar("T")
Reader = Callable[[Item], T]

MAX_PATTERN = 500


def fields(
    item: Item, readers: Mapping[str, Reader[Any]], needed: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Read a mapping, each key with its reader; keys that hold nothing are left out.

    Raises:
        InputError: a key that is not in `readers`, or one of `needed` that is missing.
    """
    table = item.table()
    for name, part in table.items():
        if name not in readers:
            near = get_close_matches(name, readers, 1)
            meant = f"; {near[0]} is meant?" if near else ""
            raise part.wrong(f"unknown key{meant}; allowed: {', '.join(readers)}")
    for name in needed:
        if name not in table:
            raise item.wrong(f"needs the key {name}")
    return {name: readers[name](part) for name, part in table.items() if part.value is not None}


def word(item: Item) -> str:
    """Read one line of text without control characters."""
    text = item.text()
    if not text.isprintable():
        raise item.wrong("holds a control character")
    return text


def of(convert: Callable[[str], T]) -> Reader[T]:
    """Read text through a conversion whose InputError does not know the place."""
    return lambda item: _told(item, convert, word(item))


def within(convert: Callable[[str], float], low: float, high: float, words: str) -> Reader[float]:
    """Read a number that must lie between two bounds, which `words` tell."""

    def read(item: Item) -> float:
        value = of(convert)(item)
        if not low <= value <= high:
            raise item.wrong(f"{item.text()} is not {words}")
        return value

    return read


def amount(table: Mapping[str, float], low: float, high: float, words: str) -> Reader[float]:
    """Read a number with a unit of `table`, between two bounds."""
    return within(lambda text: units.scaled(text, table), low, high, words)


def choice(*allowed: T) -> Reader[T]:
    """Read one of a few words."""

    def read(item: Item) -> T:
        for one in allowed:
            if item.text() == one:
                return one
        raise item.wrong(f"{item.text()!r} is not one of: {', '.join(map(str, allowed))}")

    return read


def switch(item: Item) -> bool:
    """Read `true` or `false`."""
    return choice("true", "false")(item) == "true"


def listed(reader: Reader[T]) -> Reader[tuple[T, ...]]:
    """Read a list, or one value as a list of one."""
    return lambda item: tuple(reader(part) for part in item.items())


def mapped(reader: Reader[T]) -> Reader[dict[str, T]]:
    """Read a mapping with free keys."""
    return lambda item: {name: reader(part) for name, part in item.table().items()}


def variables(item: Item) -> dict[str, str]:
    """Read environment variables that every login shell can set."""
    for name, part in item.table().items():
        _told(part, words.variable_name, name)
    return mapped(of(words.variable_value))(item)


def file_path(item: Item) -> Path:
    """Read a path on this machine: `~` is the home, others are beside the job file."""
    try:
        return item.file.parent / Path(word(item)).expanduser()
    except RuntimeError as error:
        raise item.wrong(str(error)) from None


def node_python(item: Item) -> str:
    """Read the path of an interpreter on a node that every login shell can start."""
    return _told(item, words.interpreter, node_path(item))


def node_path(item: Item) -> str:
    """Read an absolute path on a node."""
    text = word(item)
    if not text.startswith("/"):
        raise item.wrong(f"{text!r} is not an absolute path")
    return text


def program(item: Item) -> tuple[str, ...]:
    """Read a program and its arguments, of which one is where the start command goes.

    A program that is named by its path is beside the job file, as every path in it.
    """
    words = listed(word)(item)
    if sum(AGENT_WORD in text for text in words) != 1 or AGENT_WORD not in words[1:]:
        raise item.wrong(f"needs {AGENT_WORD} as one word of its own, behind the program")
    path = file_path(item.items()[0]) if "/" in words[0] else words[0]
    return (str(path), *words[1:])


def pattern(groups: int | None) -> Reader[str]:
    """Read a regular expression with that many groups; None: any number."""

    def read(item: Item) -> str:
        text = word(item)
        if len(text) > MAX_PATTERN:
            raise item.wrong(f"is longer than {MAX_PATTERN} characters")
        try:
            found = re.compile(text).groups
        except (re.error, RecursionError, OverflowError) as error:
            raise item.wrong(f"{text!r} is no regular expression: {error}") from None
        if groups is not None and found != groups:
            raise item.wrong(f"{text!r} has {found} groups; {groups} is wanted")
        return text

    return read


def expression(item: Item) -> str:
    """Read a regular expression that finds a number in a line of a log, with one group.

    Part of it has to be plain text: a node sends only those lines that hold it.
    """
    from gpuwatch.model.expression import Expression, plain_text

    text = pattern(1)(item)
    try:
        Expression(text)
    except ValueError as error:
        raise item.wrong(f"{text!r} is no regular expression: {error}") from None
    if not plain_text(text):
        raise item.wrong(
            f"{text!r} needs plain text beside its group, such as 'step (\\d+)', without"
            " alternatives, flags and lookarounds: only lines that hold it leave the node"
        )
    return text


def _told(item: Item, convert: Callable[[str], T], text: str) -> T:
    """Convert a text; let an error name the item's place."""
    try:
        return convert(text)
    except InputError as error:
        raise item.wrong(str(error)) from None
