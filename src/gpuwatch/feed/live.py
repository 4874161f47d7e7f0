"""The live feed: all nodes of a job as one stream of events, with a Tick each interval.

This is where clocks are read. Queues are bounded: of a node whose samples are not taken in time
the oldest is dropped, and said so; ticks keep to their schedule and are never piled up.
"""

import asyncio
import itertools
import time
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Any

import msgspec

from gpuwatch.feed.decode import Damage, Decoder, Farewell, Frame, Greeting
from gpuwatch.feed.offset import Offset
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Sample, Tick
from gpuwatch.transport.link import Step
from gpuwatch.transport.node import Node
from gpuwatch.transport.payload import agent_config, payload
from gpuwatch.transport.supervise import State, supervise
from gpuwatch.transport.transports import Transports

__all__ = ["Live"]

QUEUED_SAMPLES = 8
"""Samples of one node that wait to be taken."""


class Live:
    """Events of all nodes, for ever; ends when it is closed.

    Args:
        nodes: to watch, each with a name of its own.
        interval_s: between an agent's frames, and between ticks.
    """

    def __init__(self, nodes: Sequence[Node], interval_s: float = 1.0) -> None:
        self.nodes = tuple(nodes)
        self.interval_s = interval_s
        self._queue = _Queue()
        self._ears = [_Ear(node.name, self._queue) for node in self.nodes]
        self._transports = Transports()
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

    def __init__(self, node: str, queue: "_Queue") -> None:
        self.step: Step = "resolve"
        self._node = node
        self._queue = queue
        self.opened()

    def opened(self) -> None:
        self._decoder = Decoder()
        self._offset = Offset()

    def link(
        self, state: State, step: Step, reason: str | None = None, hint: str | None = None
    ) -> None:
        self.step = step
        self._queue.put(Link, node=self._node, state=state, step=step, reason=reason, hint=hint)

    def beating(self, number: int) -> None:
        self._offset.sent(number, _mono_us())

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
        arrived_us, wall_us = _mono_us(), _wall_us()
        offset = self._offset.heard(
            frame.beat,
            (frame.beat_us, frame.mono_us, frame.wall_us),
            (arrived_us, wall_us),
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

    def _fault(self, source: str, text: str) -> None:
        self._queue.put(Fault, node=self._node, source=source, text=text)


class _Queue:
    """Events that wait to be taken, in the order in which they came; bounded where they repeat."""

    def __init__(self) -> None:
        self.closed = False
        self._error: BaseException | None = None
        self._waiting: deque[_Waiting] = deque()
        self._news = asyncio.Event()
        self._samples: defaultdict[str, deque[_Waiting]] = defaultdict(deque)
        self._dropped: Counter[str] = Counter()
        self._tick: _Waiting | None = None
        self._missed_ticks = 0

    def put(self, kind: type[AnyEvent], **fields: Any) -> "_Waiting":
        """Queue an event that happens now."""
        waiting = _Waiting(kind, {"arrived_us": _mono_us(), "wall_us": _wall_us(), **fields})
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


class _Waiting:
    """An event without its number; without its fields it has been dropped."""

    __slots__ = ("fields", "kind")

    def __init__(self, kind: type[AnyEvent], fields: dict[str, Any]) -> None:
        self.kind = kind
        self.fields: dict[str, Any] | None = fields


def _mono_us() -> int:
    return time.monotonic_ns() // 1000


def _wall_us() -> int:
    return time.time_ns() // 1000
