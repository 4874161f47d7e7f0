"""Verifying a recording: every byte that counts is read, and what cannot be is told."""

from collections.abc import Iterator

import msgspec
import polars as pl

from gpuwatch.model.event import Sample
from gpuwatch.recording import manifest, schema, segment, session, wal
from gpuwatch.recording.manifest import Gap
from gpuwatch.recording.reader import Recording
from gpuwatch.recording.store import LOCK, MEMBER

__all__ = ["Verified", "verify"]

OURS = ("wal", "seg", LOCK, session.FILE, manifest.FILE)


class Verified(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        recording: where it lies.
        format: of the recording.
        nodes: that it is of.
        span: first and last wall-clock time, microseconds; None when no event can be read.
        events: that can be read.
        samples: of them, readings of nodes.
        damaged: what should be there and cannot be read.
        deleted: what was let go of to stay within the limits of the job file.
        left_over: files and folders that do not count: of a writer that was killed, or foreign.
    """

    recording: str
    format: int
    nodes: int
    span: tuple[int, int] | None
    events: int
    samples: int
    damaged: tuple[Gap, ...]
    deleted: tuple[Gap, ...]
    left_over: tuple[str, ...]


def verify(recording: Recording) -> Verified:
    """Read all of a recording, and tell what of it is whole."""
    first_us = last_us = None
    events = samples = 0
    for chunk in recording.chunks():
        for event in chunk.events:
            first_us = event.wall_us if first_us is None else min(first_us, event.wall_us)
            last_us = event.wall_us if last_us is None else max(last_us, event.wall_us)
            events += 1
            samples += isinstance(event, Sample)
    unread = [Gap(None, None, reason) for reason in _tables(recording)]
    gaps = (*recording.gaps, *unread, *_later(recording))
    return Verified(
        recording=str(recording.place),
        format=recording.session.format,
        nodes=len(recording.session.nodes),
        span=None if first_us is None or last_us is None else (first_us, last_us),
        events=events,
        samples=samples,
        damaged=tuple(gap for gap in gaps if not gap.deleted),
        deleted=tuple(gap for gap in gaps if gap.deleted),
        left_over=tuple(_left_over(recording)),
    )


def _tables(recording: Recording) -> Iterator[str]:
    """Read each table as queries do; yield why one cannot be."""
    for name in schema.tables():
        try:
            recording.table(name).select(pl.len()).collect()
        except segment.READ_ERRORS as error:
            yield f"table {name}: {str(error).splitlines()[0][:200]}"


def _later(recording: Recording) -> Iterator[Gap]:
    """Yield what a later version has written, and this one leaves unread."""
    for entry in recording.entries:
        for name in sorted(entry.tables.keys() - set(schema.tables())):
            what = f"segment {entry.segment}, table {name:.40}"
            yield Gap.over(entry.extent, f"{what}: of a later gpuwatch, this one leaves it unread")


def _left_over(recording: Recording) -> Iterator[str]:
    """Yield what lies there and does not count."""
    held = recording.held
    counting = {entry.name for entry in recording.entries}
    for name in sorted(held.names(".")):
        if name not in OURS:
            yield name
    for name in sorted(held.names("seg")):
        if name not in counting:
            yield f"seg/{name}"
    for name in sorted(held.names("wal")):
        if wal.number(name) is None or not MEMBER.fullmatch(f"wal/{name}"):
            yield f"wal/{name}"
