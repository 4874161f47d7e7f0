"""Chunks: what a reader holds of a recording at once."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from gpuwatch.model.event import AnyEvent
from gpuwatch.model.verdict import Recurring, Verdict
from gpuwatch.recording.manifest import Entry
from gpuwatch.recording.record import JudgeState, Record, Shown
from gpuwatch.recording.wal import Damage

__all__ = [
    "EMPTY", "SCOPES", "Chunk", "Judged", "Part", "Stretch", "chunk_of", "damaged", "slices",
]  # fmt: skip

SCOPES = ("job", "node", "rank")
"""Whose verdicts there are."""
CHUNK_SAMPLES = 1024
"""Of a merged segment that are Python objects at once, as far as judge states divide it."""


class Chunk(msgspec.Struct, frozen=True):
    """A stretch: its events in order, and the verdicts and judge states that go with them."""

    events: tuple[AnyEvent, ...]
    shown: tuple[Shown, ...]
    judge_states: tuple[JudgeState, ...]


class Judged(NamedTuple):
    """A tick that was judged, and what was said besides verdicts."""

    event_no: int
    arrived_us: int
    wall_us: int
    slowdown: float | None
    recurring: tuple[Recurring, ...]


class Stretch(NamedTuple):
    """A verdict from a tick to another; its evidence is that of the tick at which it was surest."""

    event_no: int
    last_event_no: int
    verdict: Verdict


class Part(NamedTuple):
    """What a part of a recording tells without its readings.

    Attributes:
        judged: in order.
        stretches: in the order of their beginnings.
        events: but samples and ticks, in order.
    """

    judged: list[Judged]
    stretches: list[Stretch]
    events: list[AnyEvent]


EMPTY = Chunk((), (), ())


def slices(
    entry: Entry, after_event_no: int, until_event_no: int | None
) -> list[tuple[int, int] | None]:
    """Divide a segment into the events that are read at once; None: all of it.

    Args:
        entry: of the segment.
        after_event_no: of the last event that is not wanted.
        until_event_no: of an event that is to be the last of a slice; None: no matter which.
    """
    reach = entry.extent
    if not reach:
        return [None]
    samples = entry.tables["node"].rows if "node" in entry.tables else 0
    count = max(1, min(len(entry.judge_states), -(-samples // CHUNK_SAMPLES)))
    step = -(-len(entry.judge_states) // count)
    ends = {*entry.judge_states[step - 1 :: step or 1], reach.last_event_no}
    if until_event_no is not None and until_event_no < reach.last_event_no:
        # What follows is read ahead meanwhile, and is in the way of who seeks on at once.
        ends |= {until_event_no, min(until_event_no + CHUNK_SAMPLES, reach.last_event_no)}
    elif entry.first is None and after_event_no < reach.first_event_no:
        return [None]
    later = sorted(end for end in ends if end > after_event_no)
    begins = [after_event_no + 1, *(end + 1 for end in later)]
    return list(zip(begins, later, strict=False))


def chunk_of(records: list[Record], after_event_no: int) -> Chunk:
    """Return the records after an event as a chunk, each event once."""
    events: list[AnyEvent] = []
    last = after_event_no
    for record in records:
        if not isinstance(record, Shown | JudgeState) and record.event_no > last:
            last = record.event_no
            events.append(record)
    return Chunk(
        tuple(events),
        tuple(r for r in records if isinstance(r, Shown) and r.event_no > after_event_no),
        tuple(r for r in records if isinstance(r, JudgeState) and r.event_no > after_event_no),
    )


def damaged(found: Sequence[Record | Damage]) -> Iterator[tuple[Damage, int | None, int | None]]:
    """Yield what of a log is damaged, with the wall-clock times of what is whole before and after."""
    before_us: int | None = None
    for place, record in enumerate(found):
        if isinstance(record, Damage):
            after = (r.wall_us for r in found[place + 1 :] if not isinstance(r, Damage))
            yield record, before_us, next(after, None)
        else:
            before_us = record.wall_us
