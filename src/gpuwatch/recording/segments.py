"""Segments as a reader sees them: what of one cannot be read is marked, and the rest is read."""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from gpuwatch.recording import rows, schema, segment
from gpuwatch.recording.frames import frames
from gpuwatch.recording.manifest import Entry, Gap
from gpuwatch.recording.record import Record
from gpuwatch.recording.store import Store

__all__ = ["Replaced", "Segments"]


class Replaced(Exception):  # noqa: N818 - no error: the part is now another one's
    """A segment has been merged since the manifest was read."""


class Segments:
    """Reads segments.

    Args:
        held: the recording's files.
        mark: takes the number of a segment, and a gap in it.
        refresh: reads the manifest again, as a file of a segment is gone; raises `Replaced` where
            another line counts for the segment now.
    """

    def __init__(
        self, held: Store, mark: Callable[[int, Gap], None], refresh: Callable[[Entry], None]
    ) -> None:
        self._held = held
        self._mark = mark
        self._refresh = refresh

    def records(self, entry: Entry, within: tuple[int, int] | None) -> list[Record]:
        """Read a segment's records; a table that is damaged is marked, the others are read."""
        for gap in entry.gaps:
            self._mark(entry.segment, gap)
        begin, end = within or (-(2**63), 2**63 - 1)
        # A verdict that did not change is told no more, up to the next judge state.
        told = max((no + 1 for no in entry.judge_states if no < begin), default=-(2**63))
        laid = {
            name: frame
            for name in schema.played()
            if (
                frame := self.table(
                    entry, name, within and (told if name == "shown" else begin, end)
                )
            )
            is not None
        }
        records: list[Record] = []
        try:
            records += rows.events(laid)
            records += rows.shown(laid["shown"], begin) if "shown" in laid else ()
            records += rows.judge_states(laid["judge_state"]) if "judge_state" in laid else ()
        except segment.READ_ERRORS as error:
            self.mark(entry, "", error)
        return records

    def notes(self, entry: Entry, within: tuple[int, int]) -> Sequence[Record]:
        """Read what happened besides samples and ticks, from an event to another."""
        found = {name: self.table(entry, name, within) for name in ("link", "event")}
        try:
            return rows.events({name: frame for name, frame in found.items() if frame is not None})
        except segment.READ_ERRORS as error:
            self.mark(entry, "", error)
            return []

    def scan(self, entry: Entry, name: str, columns: dict[str, Any]) -> list[pl.LazyFrame]:
        """Return a table of a segment, as one frame; none when it is not there or damaged."""
        expected = entry.tables.get(name)
        if expected is None:
            return []
        try:
            file = segment.check(self._held, entry, name, expected)
        except segment.READ_ERRORS as error:
            self.mark(entry, name, error)
            return []
        found = pl.scan_parquet(
            file, schema=columns, missing_columns="insert", extra_columns="ignore"
        )
        return [found]

    def table(
        self, entry: Entry, name: str, within: tuple[int, int] | None = None
    ) -> pl.DataFrame | None:
        """Return a table of a segment; None when it has no rows or is damaged, which is marked."""
        expected = entry.tables.get(name)
        if expected is None:
            return None
        try:
            return segment.load(self._held, entry, name, expected, within)
        except segment.READ_ERRORS as error:
            self.mark(entry, name, error)
            return None

    def mark(self, entry: Entry, name: str, error: BaseException) -> None:
        """Mark a table that cannot be read.

        Raises:
            Replaced: when it is gone because the segment has been merged since.
        """
        if isinstance(error, FileNotFoundError):
            self._refresh(entry)
        reason = error.strerror if isinstance(error, OSError) else str(error).split("\n", 1)[0]
        what = f"segment {entry.segment}"
        if entry.first is not None:
            what = f"segments {entry.first} to {entry.segment}"
        what += f", table {name}" if name else ""
        self._mark(entry.segment, Gap.over(entry.extent, f"{what}: {reason}"))

    def from_shown(self, entry: Entry, names: Sequence[str]) -> dict[str, pl.DataFrame]:
        """Lay out what a segment of before these tables were there has shown."""
        frame = self.table(entry, "shown") if names else None
        if frame is None:
            return {}
        try:
            laid = frames(rows.shown(frame))
        except segment.READ_ERRORS as error:
            self.mark(entry, "shown", error)
            return {}
        return {name: laid[name] for name in names if name in laid}
