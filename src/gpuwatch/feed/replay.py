"""The feed that plays a recording: the same events as live, at the pace that a person chose."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Protocol

from gpuwatch.model.cluster import WINDOW_S
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.model.view import NodeView, View
from gpuwatch.recording.reader import Chunk, Recording

__all__ = ["RecordedJudge", "Replay", "Told", "ahead"]

RUN_UP_US = round(WINDOW_S * 1e6)
"""A seek starts so long before its target, so that all windows are filled when it arrives, as live."""
GAP_US = 5_000_000
"""Stretches without any event that are longer (twelve ticks, if that is more) are skipped."""


class Replay:
    """Plays a recording in passes; a pass ends where a seek takes over.

    Build a new cluster for each pass, as time may go back:

        while not replay.closed:
            await run(replay.play(), Cluster(nodes, interval_s), RecordedJudge(replay), sinks)

    All methods belong to the thread of the event loop.

    Args:
        recording: to play.
        speed: 1 is as it was; None is as fast as it goes, and then a pass ends at the end, where
            otherwise it stays until a seek or `close`.

    Attributes:
        span: wall-clock microseconds of the first and the last event.
        position_us: wall clock of the last event that was played.
        running_up: whether this is before the target of a seek, and not paced.
        at_end: whether all has been played.
        closed: whether `close` was called.
    """

    def __init__(self, recording: Recording, speed: float | None = 1.0) -> None:
        self.recording = recording
        self.span = recording.span()
        self.position_us = self.span[0]
        self.running_up = False
        self.at_end = False
        self.closed = False
        self._speed = speed
        self._paused = False
        self._steps = 0
        self._target_us: int | None = None
        self._changed = asyncio.Event()
        self._clock = _Clock(speed)
        self._shown: dict[int, JobVerdict] = {}
        self._gap_us = max(GAP_US, round(12e6 * recording.session.interval_s))

    @property
    def speed(self) -> float | None:
        """How many times as fast as it was; None is as fast as it goes."""
        return self._speed

    @speed.setter
    def speed(self, speed: float | None) -> None:
        self._speed = speed
        self._set_rate()

    @property
    def paused(self) -> bool:
        """Whether it stands still."""
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._paused = paused
        self._steps = 0
        self._set_rate()

    def step(self) -> None:
        """Pause, and play on to the next tick."""
        if not self._paused:
            self.paused = True
        self._steps += 1
        self._changed.set()

    def seek(self, wall_us: int) -> None:
        """End this pass; the next one plays on from a time, at most to the end."""
        self._target_us = min(max(wall_us, self.span[0]), self.span[1])
        self._changed.set()

    def seek_by(self, seconds: float) -> None:
        """Seek forward, or backward when negative, from where it stands."""
        start_us = self.position_us if self._target_us is None else self._target_us
        self.seek(start_us + round(seconds * 1e6))

    def close(self) -> None:
        """End this pass, and all."""
        self.closed = True
        self._changed.set()

    def shown(self, event_no: int) -> JobVerdict | None:
        """Return the verdict that was shown at a tick which is being played."""
        return self._shown.get(event_no)

    async def play(self) -> AsyncGenerator[AnyEvent, None]:
        """Yield the events of one pass."""
        self.at_end = False
        wanted, standing, chunks = await self._cue()
        for event in standing:
            yield event
        async with contextlib.aclosing(ahead(chunks)) as parts:
            async for chunk in parts:
                self._shown = {shown.event_no: shown.verdict for shown in chunk.shown}
                for event in chunk.events:
                    self.running_up = event.event_no < wanted
                    if self._leaving or not (self.running_up or await self._due(event)):
                        return
                    self.position_us = event.wall_us
                    yield event
        self.at_end = True
        while self._speed is not None and not self._leaving:
            await self._change(None)

    async def _cue(self) -> tuple[int, Sequence[AnyEvent], Iterator[Chunk]]:
        """Return the number of the event that is sought, what stands before, and the parts that lead there."""
        target_us, self._target_us = self._target_us, None
        self._clock = _Clock(0.0 if self._paused else self._speed)
        if target_us is None:
            return 0, (), self.recording.chunks()
        return await asyncio.to_thread(self._find, target_us)

    def _find(self, target_us: int) -> tuple[int, Sequence[AnyEvent], Iterator[Chunk]]:
        begin, wanted = map(self.recording.event_no_at, (target_us - RUN_UP_US, target_us))
        standing = self.recording.standing_before(begin)
        return wanted, standing, self.recording.chunks(begin - 1, wanted)

    @property
    def _leaving(self) -> bool:
        return self.closed or self._target_us is not None

    async def _due(self, event: AnyEvent) -> bool:
        """Wait until an event is due; False when the pass is to end instead."""
        loop = asyncio.get_running_loop()
        self._clock.skip(event.arrived_us, self._gap_us, loop.time())
        while not self._leaving:
            if self._steps:
                self._steps -= isinstance(event, Tick)
                self._clock.jump(event.arrived_us, loop.time())
                return True
            wait_s = self._clock.wait_s(event.arrived_us, loop.time())
            if wait_s == 0:
                return True
            await self._change(wait_s)
        return False

    async def _change(self, timeout_s: float | None) -> None:
        """Wait until someone turned a knob, or so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()

    def _set_rate(self) -> None:
        self._clock.rate(0.0 if self._paused else self._speed, _now())
        self._changed.set()


class Told(Protocol):
    """A feed that knows the verdicts of its ticks."""

    def shown(self, event_no: int) -> JobVerdict | None:
        """Return the verdict that was shown at a tick."""


class RecordedJudge:
    """Says what was said: the verdicts of a recording, at the ticks of its replay."""

    def __init__(self, replay: Told) -> None:
        self._replay = replay

    def node(self, _view: View, _node: NodeView) -> tuple[Verdict, ...]:
        """Leave the node to `job`: its verdict is part of the recorded one."""
        return ()

    def job(self, view: View, _verdicts: Sequence[tuple[Verdict, ...]]) -> JobVerdict:
        """Return the verdict that was shown at this tick."""
        return self._replay.shown(view.event_no) or _NONE_RECORDED


_NONE_RECORDED = JobVerdict(
    job=Verdict(scope="job", text="no verdict was recorded at this tick"),
)


class _Clock:
    """The recording's time as a function of the loop's; both only differ by offset and rate."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._at_us: float | None = None
        self._since_s = 0.0

    def rate(self, rate: float | None, now_s: float) -> None:
        """Go on from here at another rate; 0 stands still, None does not wait at all."""
        if self._at_us is not None:
            self.jump(self._reading(now_s), now_s)
        self._rate = rate

    def jump(self, at_us: float, now_s: float) -> None:
        """Set the clock."""
        self._at_us, self._since_s = at_us, now_s

    def skip(self, at_us: int, longest_us: int, now_s: float) -> None:
        """Start the clock at the first event, and set it where the next is too far off."""
        if self._at_us is None or abs(at_us - self._reading(now_s)) > longest_us:
            self.jump(at_us, now_s)

    def wait_s(self, at_us: int, now_s: float) -> float | None:
        """Return how long it is until an event; 0 when it is due, None when for ever."""
        if self._rate is None:
            return 0
        if self._rate == 0:
            return None
        return max(0.0, (at_us - self._reading(now_s)) / 1e6 / self._rate)

    def _reading(self, now_s: float) -> float:
        at_us = self._at_us or 0.0
        return at_us + (now_s - self._since_s) * 1e6 * self._rate if self._rate else at_us


def _now() -> float:
    return asyncio.get_running_loop().time()


async def ahead(chunks: Iterator[Chunk]) -> AsyncGenerator[Chunk, None]:
    """Read parts in a thread, one ahead of the one that is played."""
    following = asyncio.ensure_future(asyncio.to_thread(next, chunks, None))
    try:
        while (chunk := await following) is not None:
            following = asyncio.ensure_future(asyncio.to_thread(next, chunks, None))
            yield chunk
    finally:
        following.cancel()
