"""What the ticks of a recording said, from the columns that tell of its verdicts."""

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator

from gpuwatch.model.event import AnyEvent
from gpuwatch.model.verdict import Verdict
from gpuwatch.recording.chunk import Part, Stretch
from gpuwatch.report.timeline import Key, Said, key_of

__all__ = ["Told"]


class Told:
    """Goes through the parts of a recording, tick by tick.

    Args:
        parts: in order.
        kept: of which wall-clock microseconds.

    Attributes:
        events: what else came in that time, as far as `said` has been read.
    """

    def __init__(self, parts: Iterable[Part], kept: range) -> None:
        self.events: list[AnyEvent] = []
        self._parts = parts
        self._kept = kept
        self._ends: list[tuple[int, int, Key]] = []
        self._count = itertools.count()
        self._until: dict[Key, int] = {}

    def said(self) -> Iterator[Said]:
        """Yield what each tick said."""
        for part in self._parts:
            self.events += [event for event in part.events if event.wall_us in self._kept]
            waiting = deque(part.stretches)
            for tick in part.judged:
                if tick.wall_us not in self._kept:
                    continue
                changed: dict[Key, Verdict | None] = dict.fromkeys(self._ended(tick.event_no))
                while waiting and waiting[0].event_no <= tick.event_no:
                    changed |= self._begun(waiting.popleft(), tick.event_no)
                yield Said(tick.arrived_us, tick.wall_us, changed, tick.slowdown, tick.recurring)

    def _begun(self, stretch: Stretch, event_no: int) -> dict[Key, Verdict]:
        """Return what a stretch says at a tick; nothing where it ended before."""
        last = stretch.last_event_no
        if last < event_no:
            return {}
        key = key_of(stretch.verdict)
        self._until[key] = last
        heapq.heappush(self._ends, (last, next(self._count), key))
        return {key: stretch.verdict}

    def _ended(self, event_no: int) -> Iterator[Key]:
        """Yield whose stretch ended before a tick."""
        while self._ends and self._ends[0][0] < event_no:
            last, _, key = heapq.heappop(self._ends)
            if self._until[key] == last:
                yield key
