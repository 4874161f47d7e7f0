"""Reading a recording: lazily, part by part, whatever state it is in.

A part is a segment and the log that it was sealed from, or the segments that it was merged from;
where the manifest has the segment, the segment is read, else the log. Nothing is written and no lock
is kept, so read-only mounts and recordings that are still growing open alike: where a segment has
been merged since, the manifest is asked again. What is damaged or gone becomes a `Gap`.
"""

import bisect
from collections import deque
from collections.abc import Callable, Collection, Iterator
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import polars as pl

from gpuwatch.errors import RecordingError
from gpuwatch.model.event import AnyEvent, Hello, Link, Sample
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.recording import manifest, rows, schema, segment, session, told, wal
from gpuwatch.recording.chunk import EMPTY, SCOPES, Chunk, Part, chunk_of, damaged, slices
from gpuwatch.recording.collector import collector_paused
from gpuwatch.recording.frames import frames
from gpuwatch.recording.manifest import Entry, Extent, Gap
from gpuwatch.recording.record import JudgeState, Layout, Record, Shown
from gpuwatch.recording.segments import Replaced, Segments
from gpuwatch.recording.store import Store, opened
from gpuwatch.recording.stretches import TOLD

__all__ = ["Chunk", "Recording", "open_recording"]

Found = TypeVar("Found")
SAID = ("tick", "judged", "stretch")
NOTED = ("link", "event")
"""The tables of a `Part`."""
MAX_LOG = 256 << 20
"""Bytes of a log that are read; no log of ours grows so large."""


def open_recording(place: Path) -> "Recording":
    """Open a recording: a folder, or a packed one.

    Raises:
        RecordingError: when it is not one, is of a newer format, or holds nothing yet.
    """
    held = opened(place)
    facts = session.load(held)
    try:
        recording = Recording(held, facts)
        if recording.empty and held.names("seg"):
            raise RecordingError(f"{place}: damaged: {manifest.FILE} names no segment")
    except OSError as error:
        raise RecordingError(f"{place}: cannot be read: {error.strerror}") from None
    if recording.empty:
        raise RecordingError(f"{place}: holds nothing: it ended before the first event")
    return recording


class Recording:
    """A recording as it was when it was opened, and what its open log has got since.

    Args:
        held: its files.
        facts: of its session.

    Attributes:
        held: its files.
        session: what it is of.
    """

    def __init__(self, held: Store, facts: session.Session) -> None:
        self.held = held
        self.session = facts
        self._layout = Layout(facts.rows())
        self._gaps: dict[tuple[int, str], Gap] = {}
        self._segments = Segments(held, self._mark, self._refresh)
        if damaged := self.refresh():
            self._mark(0, Gap(None, None, f"{damaged} lines of the manifest are damaged"))
        for part, gap in manifest.missing(self._entries, self._parts):
            self._mark(part, gap)

    def refresh(self) -> int:
        """Take note of what has been sealed, merged or begun; return how many lines are damaged."""
        # Logs first: one that is sealed meanwhile has its line in the manifest before it goes.
        logs = self._logs()
        self._entries, damaged = manifest.read(self.held)
        self._parts = sorted(self._entries.keys() | logs)
        return damaged

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read at all."""
        return not self._entries and not self._gaps and not any(self._log(p) for p in self._parts)

    @property
    def place(self) -> Path:
        """Where it lies: a folder, or the file of a packed one."""
        return self.held.place

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The segments that count, in order."""
        return tuple(self._entries[part] for part in sorted(self._entries))

    @property
    def live(self) -> bool:
        """Whether it is still being written."""
        return self.held.live

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read, as far as it has been read; in order."""
        return tuple(self._gaps[key] for key in sorted(self._gaps))

    def chunks(
        self, after_event_no: int = -1, until_event_no: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the parts that have events after one, each read when it is asked for.

        Events are in order and come once, also where a log and a segment both have them.

        Args:
            after_event_no: of the last event that is not wanted.
            until_event_no: of one with which a chunk is to end, as it is waited for.
        """
        last = after_event_no

        def read(part: int) -> Iterator[Chunk]:
            nonlocal last
            entry = self._entries.get(part)
            if entry and entry.extent and entry.extent.last_event_no <= last:
                return
            for chunk in self._chunks(part, last, until_event_no):
                last = chunk.events[-1].event_no if chunk.events else last
                yield chunk

        yield from self._each_part(read)

    def events(self, after_event_no: int = -1) -> Iterator[AnyEvent]:
        """Yield the events after one, in order."""
        for chunk in self.chunks(after_event_no):
            yield from chunk.events

    def shown(self, after_event_no: int = -1) -> Iterator[tuple[int, JobVerdict]]:
        """Yield the verdicts as they were shown, with the event_no of their ticks."""
        for chunk in self.chunks(after_event_no):
            for shown in chunk.shown:
                yield shown.event_no, shown.verdict

    def judge_states(self) -> Iterator[JudgeState]:
        """Yield all judge states, in order."""
        last = -(2**63)
        for state in self._each_part(lambda part: iter(self._judge_states(part))):
            if state.event_no > last:
                last = state.event_no
                yield state

    def judge_state_before(self, event_no: int) -> JudgeState | None:
        """Return the last judge state that was taken at or before an event."""
        for part in reversed(self._parts):
            entry = self._entries.get(part)
            if entry and (not entry.judge_states or entry.judge_states[0] > event_no):
                continue
            try:
                found = [s for s in self._judge_states(part) if s.event_no <= event_no]
            except Replaced:
                return self.judge_state_before(event_no)
            if found:
                return found[-1]
        return None

    def standing_before(self, event_no: int) -> tuple[Hello | Link, ...]:
        """Return the last hello and the last link change of every node before an event."""
        state = self.judge_state_before(event_no - 1)
        since = -1 if state is None else state.event_no

        def read(part: int) -> Iterator[Record]:
            reach = self._extent(part)
            if reach and reach.last_event_no > since and reach.first_event_no < event_no:
                source = self._source(part)
                yield from (
                    self._segments.notes(source, (since + 1, event_no - 1))
                    if isinstance(source, Entry)
                    else source
                )

        told = [*(state.standing if state else ()), *self._each_part(read)]
        before = [e for e in told if isinstance(e, Hello | Link) and e.event_no < event_no]
        before.sort(key=attrgetter("event_no"))
        return tuple({(event.node, type(event)): event for event in before}.values())

    def event_no_at(self, wall_us: int) -> int:
        """Return the number of the first event that came at or after a time.

        Past the end it is the last event's number.
        """
        last = -1
        for part in self._parts:
            reach = self._extent(part)
            if reach is None:
                continue
            last = reach.last_event_no
            if reach.to_us >= wall_us:
                break
        else:
            return last
        try:
            found = self._first_at(part, wall_us)
        except Replaced:
            return self.event_no_at(wall_us)
        return last if found is None else found

    def unsealed(self) -> Iterator[tuple[int, list[Record]]]:
        """Yield the logs that are not sealed, with what of them is whole."""
        for part in self._parts:
            source = self._source(part)
            if not isinstance(source, Entry):
                yield part, source

    def span(self) -> tuple[int, int]:
        """Return the first and the last wall-clock time, in microseconds.

        Raises:
            RecordingError: when no event can be read.
        """
        reaches = [reach for part in self._parts if (reach := self._extent(part))]
        if not reaches:
            raise RecordingError(f"{self.place}: no event in it can be read")
        return min(r.from_us for r in reaches), max(r.to_us for r in reaches)

    def told(self, evidence: Collection[str] = SCOPES) -> Iterator[Part]:
        """Yield, part by part, what was said and what happened, without readings.

        Args:
            evidence: the scopes (`job`, `node`, `rank`) whose verdicts are wanted with evidence.
        """

        def read(part: int) -> Iterator[Part]:
            laid = self._without_readings(part)
            try:
                yield told.part(laid, evidence)
            except segment.READ_ERRORS as error:
                if entry := self._entries.get(part):
                    self._segments.mark(entry, "stretch", error)

        yield from self._each_part(read)

    def table(self, name: str) -> pl.LazyFrame:
        """Return one table of the whole recording, raw, with today's columns.

        Raises:
            RecordingError: when there is no such table.
        """
        if name not in schema.tables():
            known = ", ".join(schema.tables())
            raise RecordingError(f"no table {name!r} in a recording", f"there are {known}")
        columns = schema.schema(name)
        found = [pl.LazyFrame(schema=columns)]
        for part in self._parts:
            source = self._source(part)
            if not isinstance(source, Entry):
                frame = frames(source).get(name)
                found += [] if frame is None else [frame.lazy()]
            elif name in TOLD and name not in source.tables:
                found += [
                    frame.lazy() for frame in self._segments.from_shown(source, (name,)).values()
                ]
            else:
                found += self._segments.scan(source, name, columns)
        return pl.concat(found)

    def _without_readings(self, part: int) -> dict[str, pl.DataFrame]:
        """Return a part's tables that tell what was said and what happened.

        Where one of those that belong together cannot be read, nothing was said.

        Raises:
            Replaced: when it has been merged since.
        """
        source = self._source(part)
        if not isinstance(source, Entry):
            return frames(record for record in source if not isinstance(record, Sample))
        for gap in source.gaps:
            self._mark(source.segment, gap)
        names = [name for name in (*SAID, *NOTED) if name in source.tables]
        laid = {
            name: frame
            for name in names
            if (frame := self._segments.table(source, name)) is not None
        }
        laid |= self._segments.from_shown(source, [n for n in TOLD if n not in source.tables])
        if not laid.keys() >= set(SAID):
            return {name: laid[name] for name in NOTED if name in laid}
        return laid

    def _each_part(self, read: Callable[[int], Iterator[Found]]) -> Iterator[Found]:
        """Yield what is read of each part, and go on in its place where one has been merged."""
        waiting = deque(self._parts)
        while waiting:
            part = waiting.popleft()
            try:
                yield from read(part)
            except Replaced:
                waiting = deque(p for p in self._parts if p >= part)

    def _first_at(self, part: int, wall_us: int) -> int | None:
        """Return the number of a part's first event that came at or after a time."""
        source = self._source(part)
        if not isinstance(source, Entry):
            place = bisect.bisect_left(source, wall_us, key=lambda record: record.wall_us)
            later = (r for r in source[place:] if not isinstance(r, Shown | JudgeState))
            return next((event.event_no for event in later), None)
        found = [
            frame.filter(pl.col("t").cast(pl.Int64) >= wall_us).select(pl.col("event_no").min())
            for name in ("node", "tick", "link", "event")
            for frame in self._segments.scan(source, name, schema.STAMP)
        ]
        first: int | None = pl.concat(found).min().collect().item() if found else None
        return first

    def _logs(self) -> set[int]:
        names = self.held.names("wal")
        return {found for name in names if (found := wal.number(name)) is not None}

    def _mark(self, part: int, gap: Gap) -> None:
        self._gaps[part, gap.reason] = gap

    def _source(self, part: int) -> Entry | list[Record]:
        """Return a part's entry, or the records of its log where that is not sealed yet."""
        records = [] if part in self._entries else self._log(part)
        return self._entries.get(part, records)

    def _chunks(
        self, part: int, after_event_no: int, until_event_no: int | None
    ) -> Iterator[Chunk]:
        """Yield what a part has after an event: a log or a sealed one at once, a merged in slices.

        Raises:
            Replaced: when it has been merged since.
        """
        source = self._source(part)
        stretches = (
            slices(source, after_event_no, until_event_no) if isinstance(source, Entry) else [None]
        )
        for within in stretches:
            with collector_paused():
                records = (
                    self._segments.records(source, within) if isinstance(source, Entry) else source
                )
                chunk = chunk_of(records, after_event_no)
            if chunk != EMPTY:
                yield chunk

    def _refresh(self, entry: Entry) -> None:
        """Read the manifest again, as a file of a segment is gone.

        Raises:
            Replaced: when another line counts for the segment now.
        """
        self.refresh()
        if self._entries.get(entry.segment) != entry:
            raise Replaced

    def _log(self, part: int) -> list[Record]:
        """Read a log. When it was sealed meanwhile, take note of its segment instead."""
        try:
            content = self.held.read(wal.name(part), MAX_LOG)
        except FileNotFoundError:
            self.refresh()
            if part not in self._entries:
                if any(entry.begin <= part < entry.segment for entry in self._entries.values()):
                    raise Replaced from None
                self._mark(part, Gap(None, None, f"log {part}: missing"))
            return []
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._mark(part, Gap(None, None, f"log {part}: {reason}"))
            return []
        found = list(wal.read(content, self._layout))
        for damage, before_us, after_us in damaged(found):
            if not (damage.torn and part == self._parts[-1] and self.live):
                self._mark(part, Gap(before_us, after_us, f"log {part}: {damage.reason}"))
        return [record for record in found if not isinstance(record, wal.Damage)]

    def _extent(self, part: int) -> Extent | None:
        source = self._source(part)
        return source.extent if isinstance(source, Entry) else manifest.extent(source)

    def _judge_states(self, part: int) -> list[JudgeState]:
        source = self._source(part)
        if not isinstance(source, Entry):
            return [record for record in source if isinstance(record, JudgeState)]
        frame = self._segments.table(source, "judge_state")
        try:
            return [] if frame is None else rows.judge_states(frame)
        except segment.READ_ERRORS as error:
            self._segments.mark(source, "judge_state", error)
            return []
