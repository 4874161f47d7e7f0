"""The wire: checksummed, length-framed JSON arrays in catalogue order.

A frame on the wire is HEADER (magic, length and CRC-32 of the body) and a body, which is a
zlib-compressed JSON array in ASCII. The reader looks for the magic, so noise from rc files or
background jobs between frames costs nothing but itself.

    ["hello", schema, agent_id, boot_id, {fact: value}]
    ["names", schema, generation, [[labels, ...] of each scope]]
    ["data", schema, sequence, generation, mono_us, wall_us, beat, beat_us,
             [[[entity, value, ...], ...] of each scope]]
    ["bye", schema, reason]

Scopes come in catalogue order. A data frame is complete in itself: absolute values of every
entity that was read, citing the generation of names that it counts by. Labels of FLEETING scopes
travel in the data frame, as [label, ..., value, ...], and have no names. `beat` is the last
heartbeat heard from the viewer and `beat_us` when it was heard, on the clock of `mono_us`.
"""

import functools
import json
import struct
import zlib
from typing import Any, Dict, List, Tuple

from gpuwatch.agent.metric import Labels, Metric, Value, Values

MAGIC = b"\xf5gw1"
HEADER = struct.Struct(">4sII")
MAX_BODY = 1 << 20
"""Bytes of a compressed body; a reader drops what claims more."""
MAX_NAMES = 4096
"""Entities of one scope that are kept in one generation before the list starts anew."""
MAX_LABEL = 256
"""Characters of a label."""
LEVEL = 5
"""Of compression: frames are a tenth smaller than at level 1, for 20 us more."""
FLEETING = frozenset(["progress"])
"""Scopes whose labels change from tick to tick: each change would have all names sent again."""

Rows = Dict[str, Dict[Labels, List[Value]]]


def pack(message: List[Any]) -> bytes:
    """Encode one message for the wire."""
    text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    body = zlib.compress(text.encode("ascii"), LEVEL)
    return HEADER.pack(MAGIC, len(body), zlib.crc32(body) & 0xFFFFFFFF) + body


def clean(label: Any) -> Any:
    """Bound a label: at most MAX_LABEL characters, no lone surrogates (JSON cannot carry them)."""
    if not isinstance(label, str):
        return label
    return label[:MAX_LABEL].encode("utf-8", "replace").decode("utf-8")


@functools.lru_cache(maxsize=1024)
def _key(labels: Labels) -> Labels:
    """Bound an entity's labels: the same ones come with each tick."""
    return tuple(clean(label) for label in labels)


class Names(object):
    """The entities of each scope under one generation number.

    An entity keeps its place while the generation lasts; a new one gives a new generation. So
    frames cite small numbers, and a reader that knows the generation decodes any one frame alone.
    """

    def __init__(self, scopes: Tuple[str, ...]) -> None:
        self.generation = 0
        self._scopes = scopes
        self._places: Dict[str, Dict[Labels, int]] = {s: {} for s in scopes}
        self._grown = False

    def place(self, scope: str, labels: Labels) -> int:
        """Return the entity's number in its scope, giving it one when it is new."""
        places = self._places[scope]
        found = places.get(labels)
        if found is None:
            found = places[labels] = len(places)
            self._grown = True
        return found

    def lead(self, scope: str, labels: Labels) -> List[Any]:
        """Return what a row of a data frame begins with."""
        return list(labels) if scope in FLEETING else [self.place(scope, labels)]

    def settle(self, rows: Rows) -> bool:
        """Give every entity of these rows its place; tell whether that made a new generation."""
        for scope in self._scopes:
            if scope in FLEETING:
                continue
            places = self._places[scope]
            fresh = sum(labels not in places for labels in rows.get(scope, ()))
            if fresh and len(places) + fresh > MAX_NAMES:
                self._places[scope] = {}
            for labels in rows.get(scope, ()):
                self.place(scope, labels)
        grown, self._grown = self._grown, False
        if grown:
            self.generation += 1
        return grown

    def message(self, schema: str) -> List[Any]:
        """Return the message that tells all names of this generation."""
        lists = [sorted(self._places[s], key=self._places[s].__getitem__) for s in self._scopes]
        return ["names", schema, self.generation, [[list(labels) for labels in n] for n in lists]]


def merge(
    readings: Dict[str, List[Tuple[str, Labels, Values]]],
    offsets: Dict[Tuple[str, str], int],
    widths: Dict[str, int],
) -> Rows:
    """Join what the sources read into one row an entity, None where nothing was read.

    Args:
        readings: rows by source.
        offsets: (source, scope) to the place of its first value in the scope's row.
        widths: number of values of each scope.
    """
    merged: Rows = {scope: {} for scope in widths}
    for source, rows in readings.items():
        for scope, labels, values in rows:
            row = merged[scope].setdefault(_key(labels), [None] * widths[scope])
            start = offsets[source, scope]
            row[start : start + len(values)] = values
    return merged


def data(
    schema: str,
    sequence: int,
    stamps: Tuple[int, int, int, int],
    names: Names,
    scopes: Tuple[str, ...],
    rows: Rows,
) -> List[Any]:
    """Build a data message.

    Args:
        schema: id of the catalogue.
        sequence: number of this frame since the agent's start.
        stamps: (mono_us, wall_us, beat, beat_us).
        names: settled for these rows.
        scopes: in catalogue order.
        rows: by scope and entity.
    """
    tables = [
        [names.lead(s, labels) + list(values) for labels, values in rows.get(s, {}).items()]
        for s in scopes
    ]
    return ["data", schema, sequence, names.generation] + list(stamps) + [tables]


def offsets_of(rows_by_source: Dict[str, Tuple[Metric, ...]]) -> Dict[Tuple[str, str], int]:
    """Return where in each scope's row each source's values begin."""
    offsets: Dict[Tuple[str, str], int] = {}
    filled: Dict[str, int] = {}
    for source, rows in rows_by_source.items():
        for row in rows:
            if row.kind == "label":
                continue
            offsets.setdefault((source, row.scope), filled.get(row.scope, 0))
            filled[row.scope] = filled.get(row.scope, 0) + 1
    return offsets
