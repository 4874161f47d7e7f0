"""What is known of the past: lanes, what the GPU time went into, when the verdict changed.

Live, it grows tick by tick. A recording is read through once, beside the one that is played, so
that its lanes, its ledger and its changes are there wherever it is played from.
"""

import asyncio
from collections.abc import Iterator, Sequence

from gpuwatch.job.types import Cost
from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.report.ledger import Books
from gpuwatch.report.timeline import Key, Moments, said
from gpuwatch.report.types import Ledger
from gpuwatch.tui.history import History

__all__ = ["Judged", "Past"]

Judged = Sequence[tuple[Tick, JobVerdict]]
"""Ticks in order, each with its verdict."""
LEAP = 5
"""Ticks further apart than so many intervals do not follow each other."""


class Past:
    """The past of one session.

    Args:
        interval_s: between ticks.
        cost: of a GPU hour; None: not known.

    Attributes:
        history: of all lanes.
        changes: wall-clock microseconds at which the job's state, cause or culprits changed.
        whole: whether all is known but what is still to come.
    """

    def __init__(self, interval_s: float, cost: Cost | None) -> None:
        self.history = History()
        self.changes: list[int] = []
        self.whole = True
        self._interval_us = round(interval_s * 1e6)
        self._leap_us = LEAP * self._interval_us
        self._cost = cost
        self._books = Books()
        self._moments = Moments(interval_s)
        self._said: object = None
        self._known: list[Key] = []
        self._last_us: int | None = None
        self._grew = asyncio.Event()

    def play(self, begin_us: int, tick: Tick, verdict: JobVerdict) -> None:
        """Take a tick that is shown, and tells of the time since a moment."""
        self.history.add(begin_us, tick.arrived_us, verdict)
        if self.whole:
            self._book(tick, verdict)

    async def read(self, parts: Iterator[Judged]) -> None:
        """Read a recording through: each part in a thread, each tick with the loop between."""
        self.whole = False
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            for tick, verdict in part:
                begin_us = tick.arrived_us - self._interval_us
                if self._last_us is not None and tick.arrived_us - self._last_us < self._leap_us:
                    begin_us = self._last_us
                self.history.mark(begin_us, tick.arrived_us, verdict)
                self._book(tick, verdict)
                await asyncio.sleep(0)
            self._tell()
        self.whole = True
        self._tell()

    def _book(self, tick: Tick, verdict: JobVerdict) -> None:
        """Take a tick, unless it or a later one was taken before."""
        if self._last_us is not None and tick.arrived_us <= self._last_us:
            return
        self._last_us = tick.arrived_us
        one = said(tick, verdict, self._known)
        self._known = one.known
        for moment in self._moments.take(one):
            self._books.add(moment)
        words = (verdict.job.state, verdict.job.cause, verdict.job.culprits)
        if self._said not in (None, words):
            self.changes.append(tick.wall_us)
        self._said = words

    def ledger(self) -> tuple[Ledger, float]:
        """Return what GPU time went into so far, and over how many hours."""
        return self._books.ledger(self._cost), self._books.hours

    @property
    def gpu_hour(self) -> Cost | None:
        """What a GPU costs an hour."""
        return self._cost

    def _tell(self) -> None:
        self._grew.set()
        self._grew = asyncio.Event()

    async def next_change(self, wall_us: int, way: int) -> int | None:
        """Return when the verdict changes next (1) or changed before (-1); None: it does not."""
        while not self.whole and (self._last_change <= wall_us):
            await self._grew.wait()
        if way > 0:
            return next((c for c in self.changes if c > wall_us), None)
        return next((c for c in reversed(self.changes) if c < wall_us), None)

    @property
    def _last_change(self) -> int:
        return self.changes[-1] if self.changes else 0
