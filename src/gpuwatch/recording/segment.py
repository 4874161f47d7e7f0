"""Sealed segments and the manifest that commits them.

A segment is a directory of Parquet files, one a table. It appears under its name whole (written
aside, synced, renamed), and counts from the moment that its line in manifest.jsonl is durable;
until then its log is the truth, and only afterwards is the log deleted.
"""

import hashlib
import io
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import polars as pl

from gpuwatch.recording import schema, wal
from gpuwatch.recording.collector import collector_paused
from gpuwatch.recording.frames import frames
from gpuwatch.recording.manifest import Entry, Extent, Gap, Table, reach
from gpuwatch.recording.record import JudgeState, Layout, Record
from gpuwatch.recording.session import sync_directory

__all__ = ["READ_ERRORS", "content", "load", "path", "seal"]

MAX_TABLE_BYTES = 1 << 30
MAX_TABLE_ROWS = 50_000_000
"""A table that claims more than these is not one of ours, and is left unread."""
READ_ERRORS = (
    OSError,
    ValueError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
"""What reading a damaged or hostile table raises. polars panics are no `Exception`."""


def path(directory: Path, segment: int, table: str | None = None) -> Path:
    """Return where a segment, or one of its tables, lies."""
    place = directory / "seg" / f"{segment:08d}"
    return place if table is None else place / f"{table}.parquet"


def seal(directory: Path, log: int, layout: Layout, manifest: wal.Log) -> Entry:
    """Turn a closed log into a segment of the same number, commit it, and delete the log.

    A seal that fails may be tried again: it leaves the log, and nothing that is in the way.

    Raises:
        OSError: when the disk does not take it.
    """
    log_content = wal.path(directory, log).read_bytes()
    entry = _write(directory, log, _Tally(wal.read(log_content, layout)))
    manifest.rewind()
    manifest.append(msgspec.json.encode(entry) + b"\n")
    manifest.sync()
    wal.path(directory, log).unlink()
    return entry


class _Tally:
    """Hands records on as they are read, and keeps what the manifest tells of them."""

    def __init__(self, found: Iterable[Record | wal.Damage]) -> None:
        self._found = found
        self.extent: Extent | None = None
        self.judge_states: list[int] = []
        self.damage: list[str] = []

    def __iter__(self) -> Iterator[Record]:
        for record in self._found:
            if isinstance(record, wal.Damage):
                self.damage.append(record.reason)
                continue
            self.extent = reach(self.extent, record)
            if isinstance(record, JudgeState):
                self.judge_states.append(record.event_no)
            yield record


def content(directory: Path, segment: int, table: str, expected: Table) -> bytes:
    """Read the file of one table, checked against the manifest.

    Raises:
        READ_ERRORS: when it is missing, damaged or not what the manifest says.
    """
    if not (0 <= expected.bytes <= MAX_TABLE_BYTES and expected.rows <= MAX_TABLE_ROWS):
        raise ValueError("larger than a recording's tables are")
    with path(directory, segment, table).open("rb") as file:
        found = file.read(expected.bytes + 1)
    if hashlib.sha256(found).hexdigest() != expected.sha256:
        raise ValueError("its checksum differs")
    if pl.scan_parquet(io.BytesIO(found)).select(pl.len()).collect().item() != expected.rows:
        raise ValueError("its number of rows differs")
    return found


def load(directory: Path, segment: int, table: str, expected: Table) -> pl.DataFrame:
    """Read one table, checked, and fitted to today's columns.

    Raises:
        READ_ERRORS: as `content`, or when a column does not fit.
    """
    found = content(directory, segment, table, expected)
    return schema.fit(pl.read_parquet(io.BytesIO(found)), table)


def _write(directory: Path, number: int, tally: _Tally) -> Entry:
    place = path(directory, number)
    aside = place.with_name(f".{place.name}.tmp")
    for stale in (place, aside):
        shutil.rmtree(stale, ignore_errors=True)
    aside.mkdir(mode=0o700)
    with collector_paused():
        laid = frames(tally)
    written = {n: _write_table(aside / f"{n}.parquet", frame) for n, frame in laid.items()}
    sync_directory(aside)
    aside.rename(place)
    sync_directory(place.parent)
    return Entry(
        segment=number,
        extent=tally.extent,
        judge_states=tuple(tally.judge_states),
        tables=written,
        gaps=tuple(Gap.over(tally.extent, f"log {number}: {reason}") for reason in tally.damage),
    )


def _write_table(file: Path, frame: pl.DataFrame) -> Table:
    present = [column.name for column in frame if column.null_count() < frame.height]
    buffer = io.BytesIO()
    frame.select(present).write_parquet(buffer, compression="zstd", statistics=True)
    parquet = buffer.getvalue()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        target.write(parquet)
        target.flush()
        os.fsync(target.fileno())
    digest = hashlib.sha256(parquet).hexdigest()
    return Table(rows=frame.height, bytes=len(parquet), sha256=digest)
