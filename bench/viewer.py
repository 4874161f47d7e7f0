"""The viewer that bench/screen.py measures: the real screen over agents whose frames come by pipe.

    python bench/viewer.py NODES PIPE FOLDER [--no-screen]

Frames come on descriptor PIPE, each behind its node's number and its length. What it measured of
itself is written to FOLDER/measured.json when it ends.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import struct
import sys
import time
from asyncio.events import Handle
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import gpuwatch.recording
from gpuwatch.engine import run
from gpuwatch.engine.collector import settle
from gpuwatch.feed.decode import Decoder, Frame, Greeting
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Hello, Link, Sample, Tick
from gpuwatch.tui import Session, Watch
from tui.scenarios import starving
from tui.scripted import START_US, Stamp, Told

HEADER = struct.Struct("<HI")
GPUS = 8
TOP = 5


class Slices:
    """How long each step of the event loop ran, in CPU time of its thread, once it is told to begin."""

    def __init__(self) -> None:
        self.longest_ms = [0.0] * TOP
        self._counts = False

    def begin(self) -> None:
        """Count from now on."""
        self._counts = True

    def watch(self) -> None:
        """Time every step of every event loop of this process."""
        step = Handle._run  # noqa: SLF001 - asyncio tells of a slow step only in debug mode, which is slow

        def timed(handle: Handle) -> None:
            began = time.thread_time()
            step(handle)
            taken = (time.thread_time() - began) * 1e3
            if self._counts and taken > self.longest_ms[0]:
                self.longest_ms = sorted([taken, *self.longest_ms[1:]])

        Handle._run = timed  # type: ignore[method-assign, assignment]  # noqa: SLF001


class Agents:
    """The feed: frames decoded agent by agent, and a tick each second."""

    def __init__(self, names: Sequence[str], pipe: int) -> None:
        self._names = names
        self._pipe = pipe
        self._decoders = [Decoder() for _ in names]
        self._events: asyncio.Queue[AnyEvent] = asyncio.Queue()
        self._event_no = 0

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        """Yield events as they come."""
        settle()
        tasks = asyncio.create_task(self._read()), asyncio.create_task(self._tick())
        try:
            while True:
                yield await self._events.get()
        finally:
            for task in tasks:
                task.cancel()

    async def _read(self) -> None:
        stream = asyncio.StreamReader(limit=1 << 20)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(self._pipe, "rb")
        )
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                place, size = HEADER.unpack(await stream.readexactly(HEADER.size))
                for found in self._decoders[place].feed(await stream.readexactly(size)):
                    self._take(self._names[place], found)
                await asyncio.sleep(0)

    def _take(self, name: str, found: object) -> None:
        if isinstance(found, Greeting):
            self._put(Link(node=name, state="streaming", step="streaming", **self._stamps()))
            facts: dict[str, str | int | float | None] = {"addresses": name}
            self._put(Hello(node=name, boot_id="b", agent_id="a", facts=facts, **self._stamps()))
        elif isinstance(found, Frame):
            stamps = self._stamps()
            self._put(
                Sample(
                    **stamps, node=name, boot_id="b", agent_id="a", sequence=found.sequence,
                    generation=found.generation, node_mono_us=stamps["arrived_us"],
                    node_wall_us=stamps["wall_us"], offset_us=0, offset_error_us=200, tables=found.tables,
                )
            )  # fmt: skip

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0 - time.time() % 1.0)
            self._put(Tick(**self._stamps()))

    def _put(self, event: AnyEvent) -> None:
        self._events.put_nowait(event)

    def _stamps(self) -> Stamp:
        self._event_no += 1
        return {
            "event_no": self._event_no,
            "arrived_us": time.monotonic_ns() // 1000,
            "wall_us": time.time_ns() // 1000,
        }


async def view(names: Sequence[str], pipe: int, folder: Path, *, shown: bool) -> None:
    """Show and record until told to end."""
    facts = gpuwatch.recording.Session(
        job="bench", nodes=tuple(names), interval_s=1.0, started_wall_us=time.time_ns() // 1000,
        started_mono_us=time.monotonic_ns() // 1000, version="bench",
    )  # fmt: skip
    recorder = gpuwatch.recording.create(folder / "recording", facts, None)
    verdict = starving(tuple(names), names[-1], START_US + 100_000_000, GPUS)
    judge, feed, loop = Told(lambda _: verdict), Agents(names, pipe), asyncio.get_running_loop()
    try:
        if shown:
            app = Watch(Session("bench", tuple(names), 1.0, aiter(feed), judge, (recorder,)))
            loop.add_signal_handler(signal.SIGTERM, app.exit)
            await app.run_async()
        else:
            task = asyncio.create_task(run(aiter(feed), Cluster(names, 1.0), judge, (recorder,)))
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await task
    finally:
        recorder.close()


def main() -> int:
    """Run the viewer; SIGUSR1 begins what is measured of the event loop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("nodes", type=int)
    parser.add_argument("pipe", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--no-screen", action="store_true")
    given = parser.parse_args()
    slices = Slices()
    slices.watch()
    signal.signal(signal.SIGUSR1, lambda *_: slices.begin())
    names = [f"gpu{i:04}" for i in range(1, given.nodes + 1)]
    asyncio.run(view(names, given.pipe, given.folder, shown=not given.no_screen))
    (given.folder / "measured.json").write_bytes(msgspec.json.encode(slices.longest_ms))
    return 0


if __name__ == "__main__":
    sys.exit(main())
