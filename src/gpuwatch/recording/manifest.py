"""manifest.jsonl: a line a segment; what has no line does not count."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from gpuwatch.recording import wal
from gpuwatch.recording.record import JudgeState, Record, Shown
from gpuwatch.recording.session import sync_directory
from gpuwatch.recording.store import Store

__all__ = ["Entry", "Extent", "Gap", "Manifest", "Table", "extent", "missing", "reach", "read"]

FILE = "manifest.jsonl"
MAX_LINE = 1 << 20
MAX_BYTES = 64 << 20
"""Of a manifest, and of one of its lines: no one of ours comes near."""


class Extent(msgspec.Struct, frozen=True):
    """The first and the last event of a stretch, and when they came (wall clock)."""

    first_event_no: int
    last_event_no: int
    from_us: int
    to_us: int


class Gap(msgspec.Struct, frozen=True):
    """A stretch of the recording that cannot be read, and why.

    Times are the viewer's wall clock in microseconds; None where even that is lost. `deleted` tells
    that it was let go of on purpose.
    """

    from_us: int | None
    to_us: int | None
    reason: str
    deleted: bool = False

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
    """A sealed segment; a later line of the same number stands for the earlier one.

    Attributes:
        segment: its number, the same as its log's; of a merged one the last log's.
        extent: of its events; None when none could be read.
        judge_states: event_no of each judge state in it.
        tables: by name.
        gaps: what of it cannot be read: damaged in its log, or deleted to keep within a limit.
        first: number of the first of the segments that it was merged from, all of which it
            replaces; None for one that was sealed from a log.
        confirmed: whether a wait or a fault was confirmed in it.
    """

    segment: int
    extent: Extent | None
    judge_states: tuple[int, ...]
    tables: dict[str, Table]
    gaps: tuple[Gap, ...] = ()
    first: int | None = None
    confirmed: bool = False

    @property
    def begin(self) -> int:
        """Number of the first log that is in it."""
        return self.segment if self.first is None else self.first

    @property
    def name(self) -> str:
        """What its directory is called."""
        number = f"{self.segment:08d}"
        return number if self.first is None else f"{self.first:08d}-{number}"

    @property
    def bytes(self) -> int:
        """Of its tables."""
        return sum(table.bytes for table in self.tables.values())


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


def read(held: Store) -> tuple[dict[int, Entry], int]:
    """Return the entries by segment, and how many whole lines are damaged.

    A last line without its end is one that is being written, or was when the writer died: it
    commits nothing.
    """
    entries: dict[int, Entry] = {}
    try:
        lines = held.read(FILE, MAX_BYTES).split(b"\n")
    except FileNotFoundError:
        return entries, 0
    except ValueError:
        return entries, 1
    damaged = 0
    for line in lines[:-1]:
        try:
            entry = msgspec.json.decode(line, type=Entry) if len(line) < MAX_LINE else None
        except (msgspec.DecodeError, RecursionError):
            entry = None
        if entry is None:
            damaged += 1
        else:
            _count(entries, entry)
    return entries, damaged


def missing(entries: Mapping[int, Entry], parts: Sequence[int]) -> Iterator[tuple[int, Gap]]:
    """Yield what lies between the parts that are there, with its number; they are numbered from 1.

    Args:
        entries: by segment.
        parts: numbers of segments and logs, in order.
    """
    before = 0
    for part in parts:
        right = entries.get(part)
        begin = right.begin if right else part
        if begin > before + 1:
            left = entries.get(before)
            what = f"segment {before + 1}"
            if begin > before + 2:
                what = f"segments {before + 1} to {begin - 1}"
            yield (
                before + 1,
                Gap(
                    left.extent.to_us if left and left.extent else None,
                    right.extent.from_us if right and right.extent else None,
                    f"{what}: missing",
                ),
            )
        before = part


def _count(entries: dict[int, Entry], entry: Entry) -> None:
    """Let an entry count, and those that it replaces no longer."""
    if entry.first is not None:
        for number in [n for n in entries if entry.first <= n < entry.segment]:
            del entries[number]
    entries[entry.segment] = entry


class Manifest:
    """The manifest as its one writer has it.

    Attributes:
        entries: that count, by segment.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = wal.Log(directory / FILE)
        self.entries: dict[int, Entry] = {}

    def commit(self, entry: Entry) -> None:
        """Make a line durable; from here on it counts.

        Raises:
            OSError: when the disk refuses; it may be tried again.
        """
        self._log.rewind()
        self._log.append(_line(entry))
        self._log.sync()
        _count(self.entries, entry)

    def condense(self) -> None:
        """Leave out the lines that count no longer: write it aside whole, then rename it.

        Raises:
            OSError: when the disk refuses; it stays as it was.
        """
        aside = self._directory / f".{FILE}.tmp"
        aside.unlink(missing_ok=True)
        fresh = wal.Log(aside)
        try:
            fresh.append(b"".join(_line(self.entries[n]) for n in sorted(self.entries)))
            fresh.sync()
            aside.replace(self._directory / FILE)
        except OSError:
            fresh.close()
            raise
        self._log.close()
        self._log = fresh
        sync_directory(self._directory)

    def close(self) -> None:
        """Write no more."""
        self._log.close()


def _line(entry: Entry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"
