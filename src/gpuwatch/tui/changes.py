"""Where in a recording the job's verdict changed: what `n` and `N` go to."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpuwatch.model.event import Tick

if TYPE_CHECKING:
    from gpuwatch.recording.reader import Chunk

__all__ = ["changes"]


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
