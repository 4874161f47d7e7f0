"""A YAML file as a tree whose every part knows its line and its path of keys.

The tree is built from the parser's events: every scalar stays the text that was written, so
`on` and `022` are never something else, and an alias is refused before it can be expanded.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import yaml

from gpuwatch.errors import InputError

__all__ = ["Item", "read_text", "tree"]

MAX_BYTES = 1_000_000
MAX_DEPTH = 16
_LOADER: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Item:
    """One value of the document.

    Attributes:
        file: the file that it is from.
        line: where it starts, from 1.
        path: keys that lead to it (`ssh.port`); empty for the whole document.
        value: text, a tuple of items, or a mapping of keys to items; None where nothing stands.
    """

    file: Path
    line: int
    path: str
    value: "str | tuple[Item, ...] | dict[str, Item] | None"

    def wrong(self, what: str) -> InputError:
        """Return the error that names this place."""
        where = f"{self.path}: " if self.path else ""
        return InputError(f"{self.file}:{self.line}: {where}{what}")

    def text(self) -> str:
        """Return the text; refuse lists, mappings and nothing at all."""
        if isinstance(self.value, str) and self.value.strip():
            return self.value.strip()
        raise self.wrong(f"one value is wanted, not {self._kind()}")

    def table(self) -> "dict[str, Item]":
        """Return the mapping; refuse all else."""
        if isinstance(self.value, dict):
            return self.value
        raise self.wrong(f"a mapping of keys to values is wanted, not {self._kind()}")

    def items(self) -> "tuple[Item, ...]":
        """Return the list; a single value is a list of one."""
        if isinstance(self.value, tuple):
            return self.value
        self.text()
        return (self,)

    def _kind(self) -> str:
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, tuple):
            return "a list"
        return "a single value" if self.value else "nothing"


def read_text(file: Path) -> str:
    """Return the text of a file of at most 1 MB of UTF-8.

    Raises:
        InputError: the file is absent, no file, too long or not text.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{file}: {(error.strerror or str(error)).lower()}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{file}: is longer than 1 MB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{file}:{line}: is not UTF-8 text") from None


def tree(file: Path, text: str) -> Item:
    """Parse one YAML document.

    Raises:
        InputError: not YAML, an alias, a tag, a key twice, nested too deeply.
    """
    events = _events(file, text)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            root = _item(file, events, next(events), "", 0)
            if not isinstance(next(events), yaml.DocumentEndEvent) or not isinstance(
                again := next(events), yaml.StreamEndEvent
            ):
                _refuse(file, again, "", "a second document starts here; one is wanted")
            return root
    raise InputError(f"{file}: is empty")


def _events(file: Path, text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise InputError(f"{file}{line}: is not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{file}: is not YAML: {str(error).splitlines()[0]}") from None


def _item(
    file: Path, events: Iterator[yaml.Event], event: yaml.Event, path: str, depth: int
) -> Item:
    line = _line(event)
    if isinstance(event, yaml.AliasEvent):
        _refuse(file, event, path, "aliases (*) are not allowed; write the value out")
    if getattr(event, "tag", None) not in {None, "!"}:
        _refuse(file, event, path, "tags (!) are not allowed")
    if depth > MAX_DEPTH:
        _refuse(file, event, path, f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(event, yaml.ScalarEvent):
        nothing = not event.style and event.value in {"", "~", "null"}
        return Item(file, line, path, None if nothing else event.value)
    if isinstance(event, yaml.SequenceStartEvent):
        parts: list[Item] = []
        while not isinstance(part := next(events), yaml.SequenceEndEvent):
            parts.append(_item(file, events, part, f"{path}[{len(parts)}]", depth + 1))
        return Item(file, line, path, tuple(parts))
    return Item(file, line, path, _table(file, events, path, depth))


def _table(file: Path, events: Iterator[yaml.Event], path: str, depth: int) -> dict[str, Item]:
    table: dict[str, Item] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _item(file, events, event, path, depth + 1)
        name = key.text()
        if not name.isprintable():
            _refuse(file, event, path, "a key holds a control character")
        inner = f"{path}.{name}" if path else name
        if name in table:
            first = table[name].line
            _refuse(file, event, inner, f"this key is here twice; first on line {first}")
        table[name] = _item(file, events, next(events), inner, depth + 1)
    return table


def _refuse(file: Path, event: yaml.Event, path: str, what: str) -> NoReturn:
    raise Item(file, _line(event), path, None).wrong(what)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1
