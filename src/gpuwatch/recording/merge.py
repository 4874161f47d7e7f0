"""Merging: the segments of ten minutes, of an hour and of four become one.

Fewer files, each with longer columns: the rows of one entity lie together, so that neighbours are
alike and compress well. A merged segment is written aside, synced and renamed; then its line in the
manifest replaces those of the others, and only when that is durable are they deleted. A merge that
is killed at any point loses nothing: until its line is there, the others count.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from polars.io.plugins import register_io_source

from gpuwatch.agent import catalogue
from gpuwatch.recording import schema, segment
from gpuwatch.recording.manifest import Entry, Extent, Manifest, Table
from gpuwatch.recording.store import Folder, Store
from gpuwatch.recording.stretches import joined

__all__ = ["due", "merge"]

BLOCK_ROWS = 1 << 17
BLOCK_BYTES = 64 << 20
"""What is held in memory at once, and sorted; a reader that wants a minute reads such a block."""
LEVEL = 9
"""Of zstd."""


def due(entries: Sequence[Entry], levels_us: Sequence[int]) -> tuple[Entry, ...]:
    """Return the last segments, in order, that are to become one now; none when it is not time."""
    for level_us in sorted(levels_us, reverse=True):
        run = _run(entries, level_us)
        if len(run) > 1 and _length_us(*run) >= level_us:
            return run
    return ()


def _run(entries: Sequence[Entry], level_us: int) -> tuple[Entry, ...]:
    """Return the last segments without a hole between them that are shorter than a level each."""
    run: list[Entry] = []
    for entry in reversed(entries):
        apart = bool(run) and entry.segment + 1 != run[-1].begin
        if apart or _too_large(entry, *run) or _length_us(entry) >= level_us:
            break
        run.append(entry)
    return tuple(reversed(run))


def _too_large(*run: Entry) -> bool:
    """Tell whether some segments would make a table that no reader takes."""
    names = {name for entry in run for name in entry.tables}
    parts = ([e.tables[name] for e in run if name in e.tables] for name in names)
    return any(
        sum(table.rows for table in found) > segment.MAX_TABLE_ROWS
        or sum(table.bytes for table in found) > segment.MAX_TABLE_BYTES
        for found in parts
    )


def _length_us(*run: Entry) -> int:
    reach = _extent(run)
    return 0 if reach is None else reach.to_us - reach.from_us


def _extent(run: Sequence[Entry]) -> Extent | None:
    reaches = [entry.extent for entry in run if entry.extent]
    if not reaches:
        return None
    return Extent(
        reaches[0].first_event_no,
        reaches[-1].last_event_no,
        min(reach.from_us for reach in reaches),
        max(reach.to_us for reach in reaches),
    )


def merge(directory: Path, run: Sequence[Entry], manifest: Manifest) -> Entry:
    """Turn neighbouring segments into one, commit it, and delete them.

    Raises:
        OSError: when the disk does not take it; it may be tried again.
        segment.READ_ERRORS: when one of them is damaged; all stay as they are.
    """
    merged = Entry(
        segment=run[-1].segment,
        extent=_extent(run),
        judge_states=tuple(chain.from_iterable(entry.judge_states for entry in run)),
        tables={},
        gaps=tuple(chain.from_iterable(entry.gaps for entry in run)),
        first=run[0].begin,
        confirmed=any(entry.confirmed for entry in run),
    )
    held = Folder(directory)
    names = [name for name in schema.tables() if any(name in entry.tables for entry in run)]
    tables = segment.put(
        segment.path(directory, merged),
        lambda aside: {n: _write(aside / f"{n}.parquet", held, run, n) for n in names},
    )
    merged = msgspec.structs.replace(merged, tables=tables)
    manifest.commit(merged)
    for entry in run:
        shutil.rmtree(segment.path(directory, entry), ignore_errors=True)
    manifest.condense()
    return merged


def _write(file: Path, held: Store, run: Sequence[Entry], table: str) -> Table:
    columns = _columns(held, run, table)
    blocks = _blocks(held, run, table)
    first = next(blocks)
    rows = 0
    ticks = _ticks(held, run) if table == "stretch" else pl.Series()

    def sorted_blocks(*_: object) -> Iterator[pl.DataFrame]:
        nonlocal rows
        for block in chain([first], blocks):
            laid = _grouped(block, table, ticks).select(*columns)
            rows += laid.height
            yield laid

    source = register_io_source(sorted_blocks, schema=columns)
    return segment.write_table(
        file,
        lambda target: source.sink_parquet(
            target,
            compression="zstd",
            compression_level=LEVEL,
            row_group_size=max(first.height, 1),
            data_page_size=BLOCK_BYTES,
        ),
        lambda: rows,
    )


def _columns(held: Store, run: Sequence[Entry], table: str) -> Mapping[str, Any]:
    """Return the columns that have a value in any of some segments."""
    found = {
        name
        for entry in run
        if table in entry.tables
        for name in pl.read_parquet_schema(segment.check(held, entry, table, entry.tables[table]))
    }
    columns = {name: kind for name, kind in schema.schema(table).items() if name in found}
    return columns | ({segment.PLACE: pl.Int32} if table in catalogue.SCOPES else {})


def _blocks(held: Store, run: Sequence[Entry], table: str) -> Iterator[pl.DataFrame]:
    """Yield a table's rows as they came, as many at once as may be held."""
    block: list[pl.DataFrame] = []
    for entry in run:
        for frame in _frames(held, entry, table):
            size = sum(f.estimated_size() for f in block) + frame.estimated_size()
            if block and (
                sum(f.height for f in block) + frame.height > BLOCK_ROWS or size > BLOCK_BYTES
            ):
                yield pl.concat(block)
                block = []
            block.append(frame)
    yield pl.concat(block)


def _frames(held: Store, entry: Entry, table: str) -> Iterator[pl.DataFrame]:
    """Yield a table's rows in one segment, from one judge state to the next."""
    if table not in entry.tables:
        return
    ends = entry.judge_states[:-1] if entry.first is not None else ()
    for after, end in zip((-(2**63), *(no + 1 for no in ends)), (*ends, 2**63 - 1), strict=True):
        yield segment.load(held, entry, table, entry.tables[table], (after, end))


def _ticks(held: Store, run: Sequence[Entry]) -> pl.Series:
    """Return the numbers of all ticks that were judged, in order."""
    frames = (frame for entry in run for frame in _frames(held, entry, "judged"))
    return pl.concat([frame["event_no"] for frame in frames])


def _grouped(block: pl.DataFrame, table: str, ticks: pl.Series) -> pl.DataFrame:
    """Lay the rows of each entity together, in the order in which entities came first.

    Agents send entities in that order, so that sorting by event gives the rows back as they came;
    where it does not, each row's place is kept.
    """
    if table == "stretch":
        return joined(block, ticks)
    if table == "activity":
        return block.sort("node", "event_no")
    if table not in catalogue.SCOPES:
        return block
    whose = ["node", *(row.name for row in catalogue.LABELS[table])]
    came = block.with_row_index("came").with_columns(
        entity=pl.col("came").min().over(whose),
        place=pl.int_range(pl.len(), dtype=pl.Int32).over("event_no"),
    )
    grouped = came.sort("entity", "came")
    if grouped.sort("event_no", maintain_order=True)["came"].is_sorted():
        return grouped.with_columns(place=pl.lit(None, pl.Int32))
    return grouped
