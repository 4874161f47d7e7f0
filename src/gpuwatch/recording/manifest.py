"""manifest.jsonl: a line a segment; what has no line does not count."""

import functools
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gpuwatch.recording.record import JudgeState, Record, Shown

__all__ = ["Entry", "Extent", "Gap", "Table", "extent", "reach", "read"]

FILE = "manifest.jsonl"
MAX_LINE = 1 << 20


class Extent(msgspec.Struct, frozen=True):
    """The first and the last event of a stretch, and when they came (wall clock)."""

    first_event_no: int
    last_event_no: int
    from_us: int
    to_us: int


class Gap(msgspec.Struct, frozen=True):
    """A stretch of the recording that cannot be read, and why.

    Times are the viewer's wall clock in microseconds; None where even that is lost.
    """

    from_us: int | None
    to_us: int | None
    reason: str

    @classmethod
    def over(cls, reach: Extent | None, reason: str) -> "Gap":
        """Return a gap over the whole of a stretch."""
        return cls(reach.from_us, reach.to_us, reason) if reach else cls(None, None, reason)


class Table(msgspec.Struct, frozen=True):
    """What a table's file must be."""

    rows: int
    bytes: int
    sha256: str


class Entry(msgspec.Struct, frozen=True):
    """A sealed segment.

    Attributes:
        segment: its number, the same as its log's.
        extent: of its events; None when none could be read.
        judge_states: event_no of each judge state in it.
        tables: by name.
        gaps: what of its log could not be read when it was sealed.
    """

    segment: int
    extent: Extent | None
    judge_states: tuple[int, ...]
    tables: dict[str, Table]
    gaps: tuple[Gap, ...] = ()


def reach(before: Extent | None, record: Record) -> Extent | None:
    """Return an extent that reaches over one more record; only events count."""
    if isinstance(record, Shown | JudgeState):
        return before
    no, wall_us = record.event_no, record.wall_us
    if before is None:
        return Extent(no, no, wall_us, wall_us)
    return Extent(
        before.first_event_no, no, min(before.from_us, wall_us), max(before.to_us, wall_us)
    )


def extent(records: Iterable[Record]) -> Extent | None:
    """Return from where to where the events among some records reach."""
    return functools.reduce(reach, records, None)


def read(directory: Path) -> tuple[dict[int, Entry], int]:
    """Return the entries by segment, and how many whole lines are damaged.

    A last line without its end is one that is being written, or was when the writer died: it
    commits nothing.
    """
    entries: dict[int, Entry] = {}
    damaged = 0
    try:
        with (directory / FILE).open("rb") as file:
            while line := file.readline(MAX_LINE):
                if not line.endswith(b"\n"):
                    damaged += len(line) == MAX_LINE
                    continue
                try:
                    entry = msgspec.json.decode(line, type=Entry)
                except (msgspec.DecodeError, RecursionError):
                    damaged += 1
                    continue
                entries[entry.segment] = entry
    except FileNotFoundError:
        pass
    return entries, damaged
