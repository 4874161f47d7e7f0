"""An agent's messages as types, made of the catalogue; `agent.frame` describes the wire."""

from collections.abc import Callable, Iterable
from types import GenericAlias
from typing import Annotated, Any

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.frame import FLEETING, MAX_NAMES
from gpuwatch.agent.metric import INT64_MAX, Metric

__all__ = ["Bye", "Hello", "Names", "Sane", "read"]

MAX_FACTS = 64
_Stamp = Annotated[int, msgspec.Meta(ge=-1, le=INT64_MAX)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
_Id = Annotated[str, msgspec.Meta(max_length=64)]


def _types(rows: tuple[Metric, ...]) -> tuple[Any, ...]:
    """Return the JSON types of these rows, in order."""
    known = {"int": int, "float": float, "str": str}
    return tuple(known[row.type] | None for row in rows)


def _bounded(rows: tuple[Metric, ...]) -> tuple[Any, ...]:
    """Return the JSON types of these values, in order, with what each may be."""
    known = {"int": int, "float": float}
    return tuple(
        Annotated[known[row.type], msgspec.Meta(ge=row.low, le=row.high)] | None for row in rows
    )


def _lead(scope: str) -> tuple[Any, ...]:
    """Return the types of what names the entity of a row: its number, or all its labels."""
    return _types(catalogue.LABELS[scope]) if scope in FLEETING else (_Count,)


def _row(types: Iterable[Any]) -> Any:
    """Return the type of a tuple of these, which only the catalogue knows."""
    return GenericAlias(tuple, tuple(types))


def _few(row: Any) -> Any:
    """Return the type of a list of such rows, as long as a node may have names."""
    return Annotated[GenericAlias(list, (row,)), msgspec.Meta(max_length=MAX_NAMES)]


def _message(tag: str, *fields: tuple[str, Any]) -> Any:
    """Return the type of a JSON array that begins with a tag."""
    return msgspec.defstruct(
        tag, fields, tag=tag, array_like=True, forbid_unknown_fields=True, frozen=True
    )


_Facts = Annotated[
    dict[str, str | int | float | None],
    msgspec.Meta(max_length=MAX_FACTS),
]
Hello = _message("hello", ("schema", str), ("agent_id", _Id), ("boot_id", _Id), ("facts", _Facts))
Names = _message(
    "names",
    ("schema", str),
    ("generation", _Count),
    ("entities", _row(_few(_row(_types(catalogue.LABELS[s]))) for s in catalogue.SCOPES)),
)
Bye = _message("bye", ("schema", str), ("reason", str))


def _data(types: Callable[[tuple[Metric, ...]], tuple[Any, ...]]) -> Any:
    """Return the type of a data frame whose values are of these types."""
    rows = (_row((*_lead(s), *types(catalogue.VALUES[s]))) for s in catalogue.SCOPES)
    return _message(
        "data",
        ("schema", str),
        ("sequence", _Count),
        ("generation", _Count),
        ("mono_us", _Stamp),
        ("wall_us", _Stamp),
        ("beat", _Stamp),
        ("beat_us", _Stamp),
        ("tables", _row(_few(row) for row in rows)),
    )


Sane, _Data = _data(_bounded), _data(_types)
"""A data frame whose values are all inside their bounds, as nearly every one is; and any."""
_SANE = msgspec.json.Decoder(Hello | Names | Sane | Bye)
_ANY = msgspec.json.Decoder(Hello | Names | _Data | Bye)


def read(text: bytes) -> Any:
    """Decode a message; one with values out of their bounds as well.

    Raises:
        ValueError: it is none.
    """
    try:
        return _SANE.decode(text)
    except msgspec.ValidationError:
        return _ANY.decode(text)
