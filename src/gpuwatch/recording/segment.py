"""Sealed segments and the manifest that commits them.

A segment is a directory of Parquet files, one a table. It appears under its name whole (written
aside, synced, renamed), and counts from the moment that its line in manifest.jsonl is durable;
until then its log is the truth, and only afterwards is the log deleted.
"""

import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import polars as pl

from gpuwatch.model.verdict import Verdict
from gpuwatch.recording import schema, wal
from gpuwatch.recording.collector import collector_paused
from gpuwatch.recording.frames import frames
from gpuwatch.recording.manifest import Entry, Extent, Gap, Manifest, Table, reach
from gpuwatch.recording.record import JudgeState, Layout, Record, Shown
from gpuwatch.recording.session import sync_directory
from gpuwatch.recording.store import Source, Store

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "MAX_TABLE_BYTES",
    "MAX_TABLE_ROWS",
    "PLACE",
    "READ_ERRORS",
    "check",
    "load",
    "name",
    "path",
    "put",
    "seal",
    "write",
    "write_table",
]

MAX_TABLE_BYTES = 1 << 30
MAX_TABLE_ROWS = 128_000_000
"""A table that claims more than these is not one of ours, and is left unread; none is merged to be
larger. Four hours of 64 nodes of eight ranks are 90 million waits of threads."""
MAX_ROWS = 8_000_000
MAX_TEXT = 1 << 30
"""Rows, and bytes of their text, that are read at once: a minute of 1,000 nodes has fewer. A few bytes
of a file may stand for any number of either."""
READ_ERRORS = (
    OSError,
    ValueError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
"""What reading a damaged or hostile table raises. polars panics are no `Exception`."""
PLACE = "place"
"""The column that has a row's place among those of its event, where their order in the file, sorted
by whose they are, does not tell; nothing that a reader sees."""
_NO_INCIDENT = ("COMPUTE", "IDLE", "STARTUP", "UNKNOWN")


def name(entry: Entry, table: str) -> str:
    """Return what a table's file is called."""
    return f"seg/{entry.name}/{table}.parquet"


def path(directory: Path, entry: Entry) -> Path:
    """Return where a segment lies."""
    return directory / "seg" / entry.name


def seal(directory: Path, log: int, layout: Layout, manifest: Manifest) -> Entry:
    """Turn a closed log into a segment of the same number, commit it, and delete the log.

    A seal that fails may be tried again: it leaves the log, and nothing that is in the way.

    Raises:
        OSError: when the disk does not take it.
    """
    log_content = wal.path(directory, log).read_bytes()
    entry = write(directory, log, wal.read(log_content, layout), manifest)
    wal.path(directory, log).unlink()
    return entry


def write(
    directory: Path, number: int, found: Iterable[Record | wal.Damage], manifest: Manifest
) -> Entry:
    """Write records as a segment, and commit it.

    Raises:
        OSError: when the disk does not take it; it may be tried again.
    """
    entry = _write(directory, number, _Tally(found))
    manifest.commit(entry)
    return entry


class _Tally:
    """Hands records on as they are read, and keeps what the manifest tells of them."""

    def __init__(self, found: Iterable[Record | wal.Damage]) -> None:
        self._found = found
        self.extent: Extent | None = None
        self.judge_states: list[int] = []
        self.damage: list[str] = []
        self.confirmed = False

    def __iter__(self) -> Iterator[Record]:
        for record in self._found:
            if isinstance(record, wal.Damage):
                self.damage.append(record.reason)
                continue
            self.extent = reach(self.extent, record)
            if isinstance(record, Shown):
                self.confirmed |= _confirmed(record.verdict.job)
            if isinstance(record, JudgeState):
                self.judge_states.append(record.event_no)
            yield record


def _confirmed(job: Verdict) -> bool:
    return job.confirmed_us is not None and job.state not in _NO_INCIDENT


def check(held: Store, entry: Entry, table: str, expected: Table) -> Source:
    """Return one table for polars to read, checked against the manifest.

    Raises:
        READ_ERRORS: when it is missing, damaged or not what the manifest says.
    """
    if not (0 <= expected.bytes <= MAX_TABLE_BYTES and expected.rows <= MAX_TABLE_ROWS):
        raise ValueError("larger than a recording's tables are")
    source = held.source(name(entry, table), expected.bytes, expected.sha256)
    # What a file claims to hold, in a few bytes, may be more than memory does.
    if pl.scan_parquet(source).select(pl.len()).collect().item() != expected.rows:
        raise ValueError("its number of rows differs")
    return source


def load(
    held: Store,
    entry: Entry,
    table: str,
    expected: Table,
    within: tuple[int, int] | None = None,
) -> pl.DataFrame:
    """Read one table, checked, fitted to today's columns, its rows in the order in which they came.

    Args:
        held: the recording.
        entry: of the segment.
        table: which.
        expected: what the manifest says of it.
        within: the first and the last event that are wanted; None: all.

    Raises:
        READ_ERRORS: as `check`, or when a column does not fit.
    """
    found = pl.scan_parquet(check(held, entry, table, expected))
    if within is not None:
        found = found.filter(pl.col("event_no").is_between(*within))
    frame = found.head(MAX_ROWS + 1).collect()
    if frame.height > MAX_ROWS or _text(frame) > MAX_TEXT:
        raise ValueError("more at once than a recording's tables have")
    order = [name for name in ("event_no", PLACE) if name in frame.columns]
    return schema.fit(frame.sort(order, maintain_order=True) if order else frame, table)


def _text(frame: pl.DataFrame) -> int:
    """Return how many bytes of text a frame stands for, however often it repeats them."""
    lengths = frame.select(
        pl.col(pl.String).str.len_bytes().sum(), pl.col(pl.Binary).bin.size().sum()
    )
    return sum(lengths.row(0)) if lengths.width else 0


def _write(directory: Path, number: int, tally: _Tally) -> Entry:
    with collector_paused():
        laid = frames(tally)
    written = put(
        directory / "seg" / f"{number:08d}",
        lambda aside: {n: _write_table(aside / f"{n}.parquet", f) for n, f in laid.items()},
    )
    return Entry(
        segment=number,
        extent=tally.extent,
        judge_states=tuple(tally.judge_states),
        tables=written,
        gaps=tuple(Gap.over(tally.extent, f"log {number}: {reason}") for reason in tally.damage),
        confirmed=tally.confirmed,
    )


def put(place: Path, write: Callable[[Path], dict[str, Table]]) -> dict[str, Table]:
    """Write a segment's tables aside, then give them their place, whole and durable.

    Raises:
        OSError: when the disk does not take it; it may be tried again.
    """
    aside = place.with_name(f".{place.name}.tmp")
    for stale in (place, aside):
        shutil.rmtree(stale, ignore_errors=True)
    aside.mkdir(mode=0o700)
    written = write(aside)
    sync_directory(aside)
    aside.rename(place)
    sync_directory(place.parent)
    return written


def _write_table(file: Path, frame: pl.DataFrame) -> Table:
    present = [column.name for column in frame if column.null_count() < frame.height]
    # Nobody looks for a part of a minute; statistics would be a fifth of the file.
    return write_table(
        file,
        lambda target: frame.select(present).write_parquet(
            target, compression="zstd", statistics=False
        ),
        lambda: frame.height,
    )


def write_table(file: Path, write: Callable[[IO[bytes]], object], rows: Callable[[], int]) -> Table:
    """Write a table's file durably, and return what the manifest is to say of it.

    Args:
        file: that is not there yet.
        write: has polars write it.
        rows: how many it then has.

    Raises:
        OSError: when the disk refuses.
    """
    with _File(file) as target:
        try:
            write(target)
        except pl.exceptions.PolarsError:
            if target.refusal is not None:
                raise target.refusal from None
            raise
        os.fsync(target.fileno())
        return Table(rows=rows(), bytes=target.tell(), sha256=target.sha256.hexdigest())


class _File(io.FileIO):
    """A file that polars writes: knows its checksum, and why the disk refused it.

    polars tells of a full disk as of a file that is out of specification.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(file, "x", opener=lambda path, flags: os.open(path, flags, 0o600))
        self.sha256 = hashlib.sha256()
        self.refusal: OSError | None = None

    def write(self, content: "ReadableBuffer") -> int:
        """Write all of it, as polars expects."""
        rest = memoryview(content).cast("B")
        self.sha256.update(rest)
        try:
            while rest:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.refusal = error
            raise
        return memoryview(content).nbytes
