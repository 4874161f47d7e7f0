"""Where in a recording the job's verdict changed: what `n` and `N` go to, and where to begin."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpuwatch.model.event import Tick

if TYPE_CHECKING:
    from gpuwatch.recording.reader import Chunk

__all__ = ["changes", "first_wait"]

_WELL = ("COMPUTE", "IDLE", "UNKNOWN")


def changes(chunks: Iterable["Chunk"]) -> list[int]:
    """Return wall-clock microseconds of the ticks at which state, cause or culprits changed.

    Reads as much as it is given: call it in a thread.
    """
    found: list[int] = []
    before: object = None
    for chunk in chunks:
        ticks = {e.event_no: e.wall_us for e in chunk.events if isinstance(e, Tick)}
        for shown in chunk.shown:
            job = shown.verdict.job
            now = (job.state, job.cause, job.culprits)
            if now != before and shown.event_no in ticks:
                if before is not None:
                    found.append(ticks[shown.event_no])
                before = now
    return found


def first_wait(chunks: Iterable["Chunk"]) -> int | None:
    """Return wall-clock microseconds of the first tick at which the job waited; None if none."""
    for chunk in chunks:
        waits = {s.event_no for s in chunk.shown if s.verdict.job.state not in _WELL}
        for event in chunk.events:
            if isinstance(event, Tick) and event.event_no in waits:
                return event.wall_us
    return None
