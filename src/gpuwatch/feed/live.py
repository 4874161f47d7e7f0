"""The live feed: all nodes of a job as one stream of events, with a Tick each interval.

Ticks keep to an absolute schedule; `gpuwatch.feed.queue` says what becomes of events that are
not taken in time.
"""

import asyncio
import itertools
from collections.abc import Sequence

import msgspec

from gpuwatch.feed.decode import Damage, Decoder, Farewell, Frame, Greeting
from gpuwatch.feed.offset import Offset
from gpuwatch.feed.queue import Queue, mono_us, wall_us
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link
from gpuwatch.model.view import STALE_TICKS
from gpuwatch.transport.link import Step
from gpuwatch.transport.node import Node
from gpuwatch.transport.payload import agent_config, payload
from gpuwatch.transport.supervise import State, supervise
from gpuwatch.transport.transports import Transports

__all__ = ["Live"]


class Live:
    """Events of all nodes, for ever; ends when it is closed.

    Args:
        nodes: to watch, each with a name of its own.
        interval_s: between an agent's frames, and between ticks.
        transports: that were prepared for these nodes; closed with the feed.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        interval_s: float = 1.0,
        transports: Transports | None = None,
    ) -> None:
        self.nodes = tuple(nodes)
        self.interval_s = interval_s
        self._queue = Queue()
        old_us = round(STALE_TICKS * interval_s * 1e6)
        self._ears = [_Ear(node.name, self._queue, old_us) for node in self.nodes]
        self._transports = transports or Transports()
        self._main: asyncio.Task[None] | None = None
        self._event_no = 0

    def __aiter__(self) -> "Live":
        return self

    async def __anext__(self) -> AnyEvent:
        """Return the next event; the first call starts the links."""
        if self._main is None and not self._queue.closed:
            self._main = asyncio.create_task(self._run())
            self._main.add_done_callback(self._queue.fail)
        kind, fields = await self._queue.take()
        self._event_no += 1
        return kind(event_no=self._event_no - 1, **fields)

    async def close(self) -> None:
        """End all links, and the agents with them. What waits can still be taken."""
        if self._queue.closed:
            return
        if self._main:
            self._main.cancel()
            await asyncio.gather(self._main, return_exceptions=True)
        await self._transports.close()
        for ear in self._ears:
            ear.link("ended", ear.step)
        self._queue.close()

    async def _run(self) -> None:
        built = await asyncio.to_thread(payload)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            for node, ear in zip(self.nodes, self._ears, strict=True):
                message = built.message(agent_config(node, self.interval_s))
                group.create_task(
                    supervise(node, self._transports.open, message, ear, self.interval_s)
                )

    async def _tick(self) -> None:
        """Tick on an absolute schedule; a tick that was not taken in time is not doubled."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        for number in itertools.count(1):
            await asyncio.sleep(start + number * self.interval_s - loop.time())
            self._queue.put_tick()


class _Ear:
    """Hears one node's link, and queues what it means."""

    def __init__(self, node: str, queue: Queue, old_us: int) -> None:
        self.step: Step = "resolve"
        self._node = node
        self._queue = queue
        self._old_us = old_us
        self.opened()

    def opened(self) -> None:
        self._decoder = Decoder()
        self._offset = Offset()
        self._left_out = 0
        self._newest: int | None = None

    def link(
        self, state: State, step: Step, reason: str | None = None, hint: str | None = None
    ) -> None:
        self.step = step
        self._queue.put(Link, node=self._node, state=state, step=step, reason=reason, hint=hint)

    def beating(self, number: int) -> int | None:
        self._offset.sent(number, mono_us())
        return self._newest

    def received(self, data: bytes) -> Step | None:
        shown: Step | None = None
        for decoded in self._decoder.feed(data):
            match decoded:
                case Frame():
                    shown = "streaming"
                    self._sample(decoded)
                case Greeting():
                    shown = shown or "hello"
                    self._queue.put(Hello, node=self._node, **msgspec.structs.asdict(decoded))
                case Farewell(reason):
                    self._fault("agent", f"the agent ends: {reason}")
                case Damage(text):
                    self._fault("wire", text)
        return shown

    def _sample(self, frame: Frame) -> None:
        self._newest = max(frame.sequence, self._newest or 0)
        arrived_us, seen_us = mono_us(), wall_us()
        stamps = frame.beat_us, frame.mono_us
        if (self._offset.trip_us(frame.beat, stamps, arrived_us) or 0) > self._old_us:
            self._leave_out()
            return
        offset = self._offset.heard(
            frame.beat,
            (frame.beat_us, frame.mono_us, frame.wall_us),
            (arrived_us, seen_us),
        )
        offset_us, error_us = offset or (None, None)
        self._queue.put_sample(
            node=self._node,
            boot_id=frame.boot_id,
            agent_id=frame.agent_id,
            sequence=frame.sequence,
            generation=frame.generation,
            node_mono_us=frame.mono_us,
            node_wall_us=frame.wall_us,
            offset_us=offset_us,
            offset_error_us=error_us,
            tables=frame.tables,
        )

    def _leave_out(self) -> None:
        """Show nothing old as new: a link that stood still delivers what is past."""
        self._left_out += 1
        if self._left_out & (self._left_out - 1) == 0:
            text = f"samples over {self._old_us / 1e6:g} s under way, left out: {self._left_out} so far"
            self._fault("wire", text)

    def _fault(self, source: str, text: str) -> None:
        self._queue.put(Fault, node=self._node, source=source, text=text)
