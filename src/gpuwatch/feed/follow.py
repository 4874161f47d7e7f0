"""The feed that follows a recording that another gpuwatch writes: many eyes, one set of agents."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

from gpuwatch.feed.replay import ahead
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.recording import JudgeState
from gpuwatch.recording.reader import Recording

__all__ = ["Follow"]

BACK_US = 600_000_000
"""How much of what was before is shown at first."""
SILENT = 3
"""Polls without anything new after which the time goes on by itself: then what is shown grows old, and
says so."""


class Follow:
    """Events from a little before now on, then as they are written; ends with the recording.

    Args:
        recording: that is being written.
        poll_s: between two looks; None: the recording's interval.

    Attributes:
        ended: whether nobody writes it any more.
    """

    def __init__(self, recording: Recording, poll_s: float | None = None) -> None:
        self.recording = recording
        self.ended = False
        self._poll_s = recording.session.interval_s if poll_s is None else poll_s
        self._shown: dict[int, JobVerdict] = {}
        self._last: AnyEvent | None = None

    def shown(self, event_no: int) -> JobVerdict | None:
        """Return the verdict that was shown at a tick."""
        return self._shown.get(event_no)

    def words(self) -> str:
        """Say in a few words what this is."""
        return "the recording has ended" if self.ended else "follows a recording"

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self._events()

    async def _events(self) -> AsyncGenerator[AnyEvent, None]:
        state = await asyncio.to_thread(self._begin)
        for standing in state.standing if state else ():
            yield standing
        after, silent = state.event_no if state else -1, 0
        while True:
            was_live = self.recording.live
            silent += 1
            async with contextlib.aclosing(self._new(after)) as new:
                async for event in new:
                    after, silent, self._last = event.event_no, 0, event
                    yield event
            if silent and not was_live:
                self.ended = True
                return
            if silent >= SILENT and self._last is not None:
                self._shown = {}
                yield self._later(self._last, silent - SILENT + 1)
            await asyncio.sleep(self._poll_s)
            await asyncio.to_thread(self.recording.refresh)

    def _begin(self) -> JudgeState | None:
        """Return the judge state to begin from; None from the start."""
        _, now_us = self.recording.span()
        return self.recording.judge_state_before(self.recording.event_no_at(now_us - BACK_US))

    async def _new(self, after: int) -> AsyncGenerator[AnyEvent, None]:
        async with contextlib.aclosing(ahead(self.recording.chunks(after))) as chunks:
            async for chunk in chunks:
                if chunk.events:
                    self._shown = {shown.event_no: shown.verdict for shown in chunk.shown}
                for event in chunk.events:
                    yield event

    def _later(self, last: AnyEvent, polls: int) -> Tick:
        """Return a tick that nobody judged, so long after the last event."""
        passed_us = round((SILENT + polls - 1) * self._poll_s * 1e6)
        return Tick(
            event_no=last.event_no,
            arrived_us=last.arrived_us + passed_us,
            wall_us=last.wall_us + passed_us,
        )
