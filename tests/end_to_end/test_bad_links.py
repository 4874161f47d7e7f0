"""Links that stop, throttle, flip a bit and drop, side by side: what the viewer makes of each.

S12, S14: a link that goes silent is seen by our own clock, and no other node notices.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from gpuwatch.agent import catalogue
from gpuwatch.cli.watch import Watch
from gpuwatch.feed.live import Live
from gpuwatch.job.file import read
from gpuwatch.model.event import AnyEvent, Fault, Link, Sample, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.verdict.thresholds import parse
from gpuwatch_process import run_gpuwatch
from sshd import NEEDS_SSHD, Sshd
from tcp_proxy import TcpProxy

pytestmark = list(NEEDS_SSHD)

DROPPED = catalogue.INDEX["node"]["agent_dropped_frames"]
SLOW_BYTES = 8000.0
US = 1_000_000
INTERVAL_S = 0.5
PATIENCE_S = 3.0


class State(NamedTuple):
    """What one tick made of a node."""

    sample_us: int
    tick_us: int
    late: bool
    stale: bool
    verdict: str

    @property
    def age(self) -> float:
        """Of the last sample, in intervals."""
        return (self.tick_us - self.sample_us) / US / INTERVAL_S


class Seen:
    """A sink that keeps everything, and lets a test wait for what it wants to see."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.ticks: list[tuple[Tick, View, JobVerdict]] = []
        self._news = asyncio.Event()

    def event(self, event: AnyEvent) -> None:
        self.events.append(event)

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        self.ticks.append((tick, view, verdict))
        self._news.set()

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait, tick by tick, for a condition."""
        while not condition():
            self._news.clear()
            await self._news.wait()

    def samples(self, node: str, since_us: int = 0) -> list[Sample]:
        return [
            e
            for e in self.events
            if isinstance(e, Sample) and e.node == node and e.arrived_us >= since_us
        ]

    def links(self, node: str, since_us: int) -> list[Link]:
        return [
            e
            for e in self.events
            if isinstance(e, Link) and e.node == node and e.arrived_us >= since_us
        ]

    def states(self, node: str, since_us: int) -> list[State]:
        """Return what each tick since then made of a node."""
        return [
            State(
                max(s.arrived_us for s in self.samples(node) if s.arrived_us <= tick.arrived_us),
                tick.arrived_us,
                next(n for n in view.nodes if n.name == node).late,
                next(n for n in view.nodes if n.name == node).stale,
                next(v.state for v in verdict.nodes if v.node == node),
            )
            for tick, view, verdict in self.ticks
            if tick.arrived_us >= since_us
        ]


def now_us() -> int:
    return time.monotonic_ns() // 1000


@pytest.fixture
def sshd(tmp_path: Path) -> Any:
    with Sshd(tmp_path / "sshd") as server:
        yield server


def job_of(folder: Path, server: Sshd, ports: dict[str, int]) -> Any:
    """Return a job whose nodes are all one sshd, each by a way of its own."""
    key = server.known_hosts.read_text().partition(" ")[2]
    known = folder / "known_hosts"
    known.write_text("".join(f"[127.0.0.1]:{port} {key}" for port in ports.values()))
    nodes = "\n".join(
        f"- {{name: {name}, host: 127.0.0.1, port: {port}, user: root}}"
        for name, port in ports.items()
    )
    login = f"ssh: {{known_hosts: {known}, config: /dev/null, identity: {server.identity}}}"
    file = folder / "job.yaml"
    file.write_text(f"job: bad-links\ninterval: {INTERVAL_S:g}s\nnodes:\n{nodes}\n{login}\n")
    return read(file, parse)


async def test_each_kind_of_bad_link_is_told_and_comes_back(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.supervise.LEAST_PATIENCE_S", PATIENCE_S)
    seen = Seen()
    async with AsyncExitStack() as stack:
        proxies = {
            name: await stack.enter_async_context(TcpProxy(sshd.port))
            for name in ("stopped", "slow", "flipped", "dropped")
        }
        ports = {name: proxy.port for name, proxy in proxies.items()} | {"well": sshd.port}
        watch = Watch(job_of(tmp_path, sshd, ports), tmp_path / "R")
        sinks = watch.start(time.time_ns() // 1000, now_us())
        engine = watch.engine((*sinks, seen))
        try:
            await seen.until(lambda: all(len(seen.samples(n)) > 1 for n in ports))
            began = now_us()
            proxies["stopped"].flowing.clear()
            proxies["slow"].rate = SLOW_BYTES
            proxies["flipped"].flips = 1
            await proxies["dropped"].refuse()
            await seen.until(lambda: len(seen.links("dropped", began)) > 2)
            await proxies["dropped"].listen()
            refused_until = now_us()
            await seen.until(lambda: [x for x in seen.links("stopped", began) if x.state == "lost"])
            await seen.until(lambda: seen.states("stopped", began)[-1].age > 7)
            proxies["stopped"].flowing.set()
            until = now_us()
            await seen.until(lambda: seen.samples("stopped", until))
            await seen.until(
                lambda: all(seen.samples(n, refused_until) for n in ("flipped", "dropped"))
            )
            await seen.until(lambda: len(seen.samples("slow", began)) > 6)
        finally:
            await watch.close(engine)
    stopped_is_late_then_stale_and_never_blamed(seen, began, until)
    assert all("lost" in {x.state for x in seen.links(n, began)} for n in ("flipped", "dropped"))
    assert not seen.links("slow", began)[:-1]
    the_others_keep_their_beat(seen, began)
    gaps_are_recorded(tmp_path / "R")


async def test_what_a_link_held_back_is_never_shown_as_new(sshd: Sshd) -> None:
    """Viewer and node are one machine here: one clock tells how old each sample is.

    The agent itself drops the oldest meanwhile, and says how many.
    """
    async with TcpProxy(sshd.port) as proxy:
        node = sshd.node("n", port=proxy.port)
        key = sshd.known_hosts.read_text().partition(" ")[2]
        sshd.known_hosts.write_text(f"[127.0.0.1]:{proxy.port} {key}")
        live = Live([node], 0.1)
        samples: list[Sample] = []
        told = ""
        async for event in live:
            if isinstance(event, Sample):
                samples.append(event)
            if len(samples) == 5 and proxy.flowing.is_set() and not told:
                proxy.flowing.clear()
                asyncio.get_running_loop().call_later(2, proxy.flowing.set)
            if isinstance(event, Fault) and event.source == "wire":
                told = event.text
            if told and len(samples) > 8:
                break
        await live.close()
    assert told.startswith("samples over 0.5 s under way, left out: ")
    assert max(s.arrived_us - s.node_mono_us for s in samples) < 1 * US
    assert samples[-1].sequence - len(samples) > 5
    assert len({s.agent_id for s in samples}) == 1
    assert (samples[-1].rows("node")[0].values[DROPPED] or 0) > 0


def stopped_is_late_then_stale_and_never_blamed(seen: Seen, began: int, until: int) -> None:
    """Each tick says of the age of what was heard last what it is, from the first to the last."""
    states = seen.states("stopped", began)
    for state in states:
        assert state.late == (state.age > 2.5), state
        assert state.stale == (state.age > 5), state
        assert state.verdict == "UNKNOWN" or not state.stale, state
    assert any(state.late and not state.stale for state in states)
    blamed = {
        node
        for tick, _, verdict in seen.ticks
        if began + 6 * INTERVAL_S * US < tick.arrived_us < until
        for culprit in verdict.job.culprits
        for node in culprit.nodes
    }
    assert "stopped" not in blamed
    lost = next(link for link in seen.links("stopped", began) if link.state == "lost")
    assert lost.reason == "no word for 3 s"


def the_others_keep_their_beat(seen: Seen, began: int) -> None:
    """The node beside them misses no tick, and is heard as regularly as the viewer itself ticks."""
    sequences = [sample.sequence for sample in seen.samples("well")]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    for before, state in pairwise(seen.states("well", began)):
        own = (state.tick_us - before.tick_us) / US / INTERVAL_S
        assert state.age < 1.5 + own, state


def gaps_are_recorded(recording: Path) -> None:
    done = run_gpuwatch("report", recording, "--json")
    gaps = {gap["node"]: gap["reason"] for gap in msgspec.json.decode(done.stdout)["gaps"]}
    assert gaps.keys() == {"stopped", "flipped", "dropped"}
    assert gaps["stopped"] == "no word for 3 s"
    assert "the connection closed" in gaps["dropped"]
    assert gaps["flipped"]
