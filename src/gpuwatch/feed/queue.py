"""Events on their way from the links to the one who takes them. This is where clocks are read.

The queue is bounded: of a node whose samples are not taken in time the oldest is dropped, ticks
are never piled up, and both are said.
"""

import asyncio
import time
from collections import Counter, defaultdict, deque
from typing import Any

from gpuwatch.model.event import AnyEvent, Fault, Sample, Tick

__all__ = ["Queue", "mono_us", "wall_us"]

QUEUED_SAMPLES = 8
"""Samples of one node that wait to be taken."""
SWEPT_AT = 1024
"""Events beside twice the samples, from which on dropped ones are let go of."""


def mono_us() -> int:
    """Return the viewer's monotonic clock in microseconds."""
    return time.monotonic_ns() // 1000


def wall_us() -> int:
    """Return the viewer's wall clock in microseconds since 1970."""
    return time.time_ns() // 1000


class Waiting:
    """An event without its number; without its fields it has been dropped."""

    __slots__ = ("fields", "kind")

    def __init__(self, kind: type[AnyEvent], fields: dict[str, Any]) -> None:
        self.kind = kind
        self.fields: dict[str, Any] | None = fields


class Queue:
    """Events that wait to be taken, in the order in which they came; bounded where they repeat."""

    def __init__(self) -> None:
        self.closed = False
        self._error: BaseException | None = None
        self._waiting: deque[Waiting] = deque()
        self._news = asyncio.Event()
        self._samples: defaultdict[str, deque[Waiting]] = defaultdict(deque)
        self._dropped: Counter[str] = Counter()
        self._tick: Waiting | None = None
        self._missed_ticks = 0

    def put(self, kind: type[AnyEvent], **fields: Any) -> Waiting:
        """Queue an event that happens now."""
        waiting = Waiting(kind, {"arrived_us": mono_us(), "wall_us": wall_us(), **fields})
        self._waiting.append(waiting)
        self._news.set()
        return waiting

    def put_sample(self, *, node: str, **fields: Any) -> None:
        """Queue a sample; of too many from one node the oldest is dropped."""
        samples = self._samples[node]
        samples.append(self.put(Sample, node=node, **fields))
        if len(samples) > QUEUED_SAMPLES:
            samples.popleft().fields = None
            self._dropped[node] += 1
            self._sweep()

    def put_tick(self) -> None:
        """Queue a tick, unless one still waits; then say what was lost meanwhile."""
        if self._tick is not None:
            self._missed_ticks += 1
            return
        self._tick = self.put(Tick)
        if self._missed_ticks:
            text = f"the viewer was too slow: {self._missed_ticks} ticks left out"
            self.put(Fault, node=None, source="viewer", text=text)
            self._missed_ticks = 0
        for node, count in self._dropped.items():
            text = f"the viewer was too slow: {count} samples dropped"
            self.put(Fault, node=node, source="viewer", text=text)
        self._dropped.clear()

    def _sweep(self) -> None:
        """Let go of dropped events once they are most of what is kept."""
        kept = sum(map(len, self._samples.values()))
        if len(self._waiting) > SWEPT_AT + 2 * kept:
            self._waiting = deque(w for w in self._waiting if w.fields is not None)

    def close(self) -> None:
        """Take nothing more."""
        self.closed = True
        self._news.set()

    def fail(self, task: "asyncio.Task[None]") -> None:
        """Let the one who takes hear of an error that ended the feed itself."""
        self._error = None if task.cancelled() else task.exception()
        self._news.set()

    async def take(self) -> tuple[type[AnyEvent], dict[str, Any]]:
        """Return the next event's type and fields, waiting for one.

        Raises:
            StopAsyncIteration: closed, and nothing waits.
        """
        while True:
            while self._waiting:
                waiting = self._waiting.popleft()
                if waiting is self._tick:
                    self._tick = None
                if waiting.fields is not None:
                    if waiting.kind is Sample:
                        self._samples[waiting.fields["node"]].popleft()
                    return waiting.kind, waiting.fields
            if self._error:
                raise self._error
            if self.closed:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
