"""What is known of the past: lanes, what the GPU time went into, when the verdict changed.

Live, it grows tick by tick. A recording is read through once, beside the one that is played, so
that its lanes, its ledger and its changes are there wherever it is played from.
"""

import asyncio
from collections.abc import Iterator, Sequence

from gpuwatch.job.types import Cost
from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.report.ledger import Books
from gpuwatch.report.timeline import Key, Moments, Said, said
from gpuwatch.report.types import Ledger
from gpuwatch.tui.history import History

__all__ = ["Past", "Portion"]

Portion = Sequence[Said]
"""What some ticks said, in order."""
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
        self._known: set[Key] = set()
        self._last_us: int | None = None
        self._grew = asyncio.Event()

    def play(self, begin_us: int, tick: Tick, verdict: JobVerdict) -> None:
        """Take a tick that is shown, and tells of the time since a moment."""
        self.history.add(begin_us, tick.arrived_us, verdict)
        if self.whole:
            self._book(said(tick, verdict, self._known))

    async def read(self, portions: Iterator[Portion]) -> None:
        """Read a recording through: each portion in a thread, each tick with the loop between."""
        self.whole = False
        going = _Going(self.history)
        while (portion := await asyncio.to_thread(next, portions, None)) is not None:
            for one in portion:
                begin_us = one.arrived_us - self._interval_us
                if self._last_us is not None and one.arrived_us - self._last_us < self._leap_us:
                    begin_us = self._last_us
                going.say(begin_us, one)
                self._book(one)
                await asyncio.sleep(0)
            going.lay()
            self._tell()
        self.whole = True
        self._tell()

    def _book(self, one: Said) -> None:
        """Take what a tick said, unless it or a later one was taken before."""
        if self._last_us is not None and one.arrived_us <= self._last_us:
            return
        self._last_us = one.arrived_us
        self._known.difference_update(one.changed)
        self._known.update(one.known)
        for moment in self._moments.take(one):
            self._books.add(moment)
        job = one.changed.get(Key("job"))
        if job is None:
            return
        words = (job.state, job.cause, job.culprits)
        if self._said not in (None, words):
            self.changes.append(one.wall_us)
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


class _Going:
    """What is being said, until it is laid into lanes: once for as long as it goes on."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._since: dict[Key, tuple[int, Verdict]] = {}
        self._until_us: int | None = None

    def say(self, begin_us: int, one: Said) -> None:
        """Take what a tick said, of the time since a moment."""
        if self._until_us != begin_us:
            self.lay(begin_us)
        for key, verdict in one.changed.items():
            if key in self._since:
                since_us, before = self._since.pop(key)
                self._history.lay(since_us, begin_us, before)
            if verdict is not None:
                self._since[key] = begin_us, verdict
        self._until_us = one.arrived_us

    def lay(self, begin_us: int | None = None) -> None:
        """Lay all that was said so far; what goes on does so from a moment, else from here."""
        if self._until_us is None:
            return
        for key, (since_us, verdict) in self._since.items():
            self._history.lay(since_us, self._until_us, verdict)
            self._since[key] = (self._until_us if begin_us is None else begin_us), verdict
