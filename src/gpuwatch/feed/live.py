"""The live feed: all nodes of a job as one stream of events, with a Tick each interval.

Ticks keep to an absolute schedule; `gpuwatch.feed.queue` says what becomes of events that are
not taken in time.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Labels
from gpuwatch.errors import GpuwatchError
from gpuwatch.feed.decode import Damage, Decoder, Farewell, Frame, Greeting
from gpuwatch.feed.offset import Offset
from gpuwatch.feed.queue import Queue, mono_us, wall_us
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Marker, Row
from gpuwatch.model.text import sanitize
from gpuwatch.model.view import STALE_TICKS
from gpuwatch.transport.link import Step
from gpuwatch.transport.node import Node
from gpuwatch.transport.payload import Payload, agent_config, payload
from gpuwatch.transport.supervise import Heard, State, supervise
from gpuwatch.transport.transports import Transports

__all__ = ["Live", "Roster"]

ASK_EVERY_S = 60.0
"""How often it is asked which nodes the job has."""
ASK_SOON_S = 1.0
"""After the last link has dropped: the job may have ended, and whoever knows it is slow."""
STEP_US = 3_000_000
"""Steps of this machine's clock that are told."""
_GUESTS = catalogue.SCOPES.index("guest")
NAMED = 8
"""Nodes that a change is told of by name."""

Roster = Callable[[], Awaitable[Sequence[Node]]]
"""Asks which nodes the job has now; none: it has ended, or waits."""


class Live:
    """Events of all nodes, for ever; ends when it is closed.

    Args:
        nodes: to watch, each with a name of its own.
        interval_s: between an agent's frames, and between ticks.
        transports: that were prepared for these nodes; closed with the feed.
        roster: of a job whose nodes may change; None: they do not.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        interval_s: float = 1.0,
        transports: Transports | None = None,
        roster: Roster | None = None,
    ) -> None:
        self.nodes = tuple(nodes)
        self.interval_s = interval_s
        self._queue = Queue()
        self._ears = {node.name: self._ear(node) for node in self.nodes}
        self._links: dict[str, asyncio.Task[None]] = {}
        self._knocks: dict[str, asyncio.Event] = {}
        self._roster = roster
        self._all_down = asyncio.Event()
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

    def note(self, text: str) -> None:
        """Put a person's note among the events, at this instant."""
        if not self._queue.closed:
            self._queue.put(Marker, text=sanitize(text))

    def retry(self) -> int:
        """Try the nodes again that do not stream, now; return how many."""
        down = [name for name in self._links if not self._ears[name].streams]
        self._transports.forgive()
        for name in down:
            self._knocks[name].set()
        return len(down)

    async def close(self) -> None:
        """End all links, and the agents with them. What waits can still be taken."""
        if self._queue.closed:
            return
        if self._main:
            self._main.cancel()
            await asyncio.gather(self._main, return_exceptions=True)
        await self._transports.close()
        for ear in self._ears.values():
            ear.link("ended", ear.step)
        self._queue.close()

    async def _run(self) -> None:
        built = await asyncio.to_thread(payload)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            for node in self.nodes:
                self._join(node, built, group)
            if self._roster:
                await self._follow(self._roster, built, group)

    def _ear(self, node: Node) -> "_Ear":
        old_us = round(STALE_TICKS * self.interval_s * 1e6)
        return _Ear(node.name, self._queue, old_us, self._one_is_down)

    def _one_is_down(self) -> None:
        if not any(ear.streams for ear in self._ears.values()):
            self._all_down.set()

    def _join(self, node: Node, built: Payload, group: asyncio.TaskGroup) -> None:
        if node.name not in self._ears:
            self._ears[node.name] = self._ear(node)
        message = built.message(agent_config(node, self.interval_s))
        ear, knock = self._ears[node.name], asyncio.Event()
        self._knocks[node.name] = knock
        self._links[node.name] = group.create_task(
            supervise(node, self._transports.open, message, ear, self.interval_s, knock)
        )

    async def _follow(self, roster: Roster, built: Payload, group: asyncio.TaskGroup) -> None:
        """Let nodes join and leave as the job gets and loses them."""
        told = ""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_EVERY_S):
                    await self._all_down.wait()
                await asyncio.sleep(ASK_SOON_S)
            self._all_down.clear()
            try:
                text = await self._settle(await roster(), built, group)
            except GpuwatchError as error:
                text = f"which nodes the job has is not known: {error}"
            if text and text != told:
                self._queue.put(Fault, node=None, source="slurm", text=sanitize(text))
            told = text

    async def _settle(self, nodes: Sequence[Node], built: Payload, group: asyncio.TaskGroup) -> str:
        """Make these the nodes, and return in words what that changes."""
        now = {node.name: node for node in nodes}
        left = [name for name in self._links if name not in now]
        joined = [name for name in now if name not in self._links]
        for name in left:
            link = self._links.pop(name)
            link.cancel()
            await asyncio.gather(link, return_exceptions=True)
        if not now:
            for name in left:
                self._ears[name].link("lost", self._ears[name].step, "the job has ended, or waits")
            return "the job has ended, or waits to run again"
        for name in [name for name in self._ears if name not in now]:
            ear = self._ears.pop(name)
            ear.link("ended", ear.step, "no node of the job any more")
        for name in joined:
            self._join(now[name], built, group)
        self.nodes = tuple(nodes)
        parts = (
            f"joined: {_listed(joined)}" if joined else "",
            f"left: {_listed(left)}" if left else "",
        )
        return "; ".join(filter(None, parts))

    async def _tick(self) -> None:
        """Tick on an absolute schedule; a tick that was not taken in time is not doubled.

        While a machine sleeps its monotonic clock stands still and the wall clock goes on.
        """
        loop = asyncio.get_running_loop()
        start, apart_us = loop.time(), wall_us() - mono_us()
        for number in itertools.count(1):
            await asyncio.sleep(start + number * self.interval_s - loop.time())
            step_us = wall_us() - mono_us() - apart_us
            if abs(step_us) >= STEP_US:
                text = f"this machine slept, or its clock was set: a step of {step_us / 1e6:+.0f} s"
                self._queue.put(Fault, node=None, source="viewer", text=text)
            apart_us += step_us
            self._queue.put_tick()


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


class _Ear:
    """Hears one node's link, and queues what it means."""

    def __init__(self, node: str, queue: Queue, old_us: int, down: Callable[[], None]) -> None:
        self.step: Step = "resolve"
        self.streams = False
        self._down = down
        self._node = node
        self._queue = queue
        self._old_us = old_us
        self.opened()

    def opened(self) -> None:
        self._decoder = Decoder()
        self._offset = Offset()
        self._left_out = 0
        self._guests: set[Labels] = set()
        self._newest: int | None = None

    def link(
        self, state: State, step: Step, reason: str | None = None, hint: str | None = None
    ) -> None:
        self.step = step
        dropped = self.streams and state != "streaming"
        self.streams = state == "streaming"
        if dropped:
            self._down()
        self._queue.put(Link, node=self._node, state=state, step=step, reason=reason, hint=hint)

    def beating(self, number: int) -> int | None:
        self._offset.sent(number, mono_us())
        return self._newest

    def received(self, data: bytes) -> Heard:
        shown: Step | None = None
        frames = 0
        for decoded in self._decoder.feed(data):
            frames += 1
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
        return Heard(shown, frames)

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
        self._tell_guests(frame.tables[_GUESTS])
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

    def _tell_guests(self, rows: Sequence[Row]) -> None:
        """Tell of each other agent on the node once: whoever looks on with it costs the node nothing."""
        for row in rows:
            if row.labels in self._guests:
                continue
            self._guests.add(row.labels)
            uid, pid, user = row.labels
            minutes = int(row.values[0] or 0) // 60
            self._fault(
                "agent",
                f"{user or f'uid {uid}'} watches this node already (pid {pid}, for {minutes} min):"
                " to look on, gpuwatch replay --follow RECORDING where that is recorded",
            )

    def _leave_out(self) -> None:
        """Show nothing old as new: a link that stood still delivers what is past."""
        self._left_out += 1
        if self._left_out & (self._left_out - 1) == 0:
            text = f"samples over {self._old_us / 1e6:g} s under way, left out: {self._left_out} so far"
            self._fault("wire", text)

    def _fault(self, source: str, text: str) -> None:
        self._queue.put(Fault, node=self._node, source=source, text=text)
