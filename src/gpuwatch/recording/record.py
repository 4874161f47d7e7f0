"""What a recording holds: events, the verdict shown at each tick, and judge states.

One codec for the write-ahead log: msgspec's MessagePack with the kind as tag, so that every
record tells by itself what it is. Parquet has its own layout, in `schema`.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import LABEL, Metric
from gpuwatch.model.event import Fault, Hello, Link, Marker, Row, Sample, Tick
from gpuwatch.model.verdict import JobVerdict

__all__ = ["EVENTS", "JudgeState", "Layout", "Record", "Shown", "decode", "encode"]

EVENTS = (Hello, Sample, Link, Fault, Marker, Tick)


class Shown(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="shown"):
    """The verdict of one tick, as the screen showed it; `event_no` is the tick's."""

    event_no: int
    wall_us: int
    verdict: JobVerdict


class JudgeState(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="judge_state"):
    """All that playing on from one tick needs of the time before it.

    Attributes:
        event_no: of the tick after whose verdict this was taken.
        arrived_us: of that tick.
        wall_us: of that tick.
        state: the judge's own, in its own encoding; empty when it keeps none.
        standing: the last hello and the last link change of every node.
    """

    event_no: int
    arrived_us: int
    wall_us: int
    state: bytes
    standing: tuple[Hello | Link, ...] = ()


Record = Hello | Sample | Link | Fault | Marker | Tick | Shown | JudgeState

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode(record: Record) -> bytes:
    """Encode one record.

    Raises:
        ValueError, OverflowError: for text that is not Unicode, or integers over 64 bits.
    """
    return _encoder.encode(record)


def decode(body: bytes) -> Record:
    """Decode one record.

    Raises:
        ValueError: for anything that `encode` did not make.
    """
    return _decoder.decode(body)


class Layout:
    """How the tables of samples, as one catalogue orders them, map to today's order.

    Rows that the old catalogue lacked become None (or an empty table), and those that today's
    catalogue lacks are left out.
    """

    def __init__(self, rows: Iterable[Metric]) -> None:
        old = tuple(rows)
        scopes = list(dict.fromkeys(["node", *(row.scope for row in old)]))
        self._scopes = [scopes.index(s) if s in scopes else None for s in catalogue.SCOPES]
        self._labels = [_places(old, s, catalogue.LABELS[s], labels=True) for s in catalogue.SCOPES]
        self._values = [
            _places(old, s, catalogue.VALUES[s], labels=False) for s in catalogue.SCOPES
        ]
        self._same = _order(old) == _order(catalogue.ROWS)
        self._shape = [(_count(old, s, labels=True), _count(old, s, labels=False)) for s in scopes]

    def today(self, record: Record) -> Record:
        """Return the record; a sample with its tables in today's order.

        Raises:
            ValueError: for a sample that is not as its own catalogue says.
        """
        if not isinstance(record, Sample):
            return record
        for rows, shape in zip(record.tables, self._shape, strict=True):
            if any((len(row.labels), len(row.values)) != shape for row in rows):
                raise ValueError("a row is longer or shorter than its catalogue says")
        if self._same:
            return record
        tables = tuple(
            ()
            if place is None
            else tuple(
                Row(_pick(row.labels, labels), _pick(row.values, values))
                for row in record.tables[place]
            )
            for place, labels, values in zip(self._scopes, self._labels, self._values, strict=True)
        )
        return msgspec.structs.replace(record, tables=tables)


def _order(rows: Iterable[Metric]) -> list[tuple[str, str, bool]]:
    return [(row.scope, row.name, row.kind == LABEL) for row in rows]


def _count(rows: Iterable[Metric], scope: str, *, labels: bool) -> int:
    return sum(row.scope == scope and (row.kind == LABEL) == labels for row in rows)


def _places(
    old: tuple[Metric, ...], scope: str, wanted: tuple[Metric, ...], *, labels: bool
) -> tuple[int | None, ...]:
    names = [r.name for r in old if r.scope == scope and (r.kind == LABEL) == labels]
    return tuple(names.index(row.name) if row.name in names else None for row in wanted)


def _pick(cells: tuple[Any, ...], places: tuple[int | None, ...]) -> tuple[Any, ...]:
    return tuple(None if place is None else cells[place] for place in places)
