"""What a tick of judging costs the viewer, and for how long it holds the event loop.

    python bench/judge.py [TICKS]

Nodes of 8 GPUs and 8 ranks send all that an agent reads. Frames are packed as an agent packs them,
decoded link by link, and run through the engine with half a minute of history, as in the screen.
Two situations: all compute, and all wait for one node that reads from storage. A second task on the
same event loop asks for its turn again and again: how long it waits is how long a slice was. All
figures are CPU time of this one thread; what else runs on the machine still adds to it, so the
least is told as well.
"""

import argparse
import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gpuwatch.agent import catalogue, frame
from gpuwatch.agent.metric import COUNTER, Labels, Value
from gpuwatch.engine import run
from gpuwatch.engine.collector import settle
from gpuwatch.feed.decode import Decoder, Frame
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Hello, Sample, Tick
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.model.view import NodeView, View
from gpuwatch.verdict.judge import Judge
from verdict.machines import Gpu, Nic, Node, Rank, Wire

TICKS = 60
HISTORY = 35
"""Ticks before any is measured: the cluster keeps no more."""
RANKS = 8
BUDGET_MS = 20.0
SIZES = (64, 1000)
SECOND = 1_000_000
GREETING = frame.pack(["hello", catalogue.SCHEMA, "a", "b", {}])
KWORKERS = 36
COMPUTES = Rank(main={"run": 0.8, "socket": 0.1, "futex": 0.1})
WAITS = Rank(
    gpu=Gpu(util=100, power=130, memory=2),
    main={"run": 0.5, "futex": 0.2, "socket": 0.3},
    loader={"futex": 0.9, "pipe": 0.08, "run": 0.02},
    loader_run=0.02,
)
READS = Rank(
    gpu=Gpu(util=30, power=260, memory=8),
    main={"pipe": 0.8, "run": 0.2},
    main_run=0.2,
    loader={"block-read": 0.9, "run": 0.1},
    loader_run=0.1,
)
SITUATIONS = {"all compute": (COMPUTES, COMPUTES), "all wait for one": (WAITS, READS)}


def node(rank: Rank) -> Node:
    """Return a node of eight such ranks, with ports, disks and mounts as such nodes have."""
    wires = (Wire(peer="10.0.0.0"), Wire(peer="10.0.0.1"), Wire(peer="10.0.9.9", role="loader"))
    return Node(
        ranks=tuple(replace(rank, name=str(i), wires=wires) for i in range(RANKS)),
        nics=tuple(Nic(name=f"eth{i}", rx_mb=900, tx_mb=900) for i in range(RANKS + 1)),
        kworkers={f"queue{i}": 0.01 for i in range(KWORKERS)},
        mounts={(f"/data{i}", "nfs4", f"10.9.0.{i}:/export"): 2.0 for i in range(2)},
        cgroup={"periods": 10, "throttled_periods": 0, "cpus_allowed": 128},
        rdma={"tx_packets": 1e6, "rx_packets": 1e6, "tx_bytes": 4e9, "rx_bytes": 4e9},
        received=20_000,
        segments=20_000,
        absent={f"ethtool.counter{i}": "eth0: its driver does not count it" for i in range(10)},
    )


class Wired:
    """What an agent on such a node would send: every metric of the catalogue, each tick."""

    def __init__(self, machine: Node) -> None:
        self._rates = machine.rates()
        self._totals: dict[tuple[str, Labels, str], float] = {}
        self._names = frame.Names(catalogue.SCOPES)
        self._sequence = 0

    def tick(self, now_us: int, load: float = 1.0) -> bytes:
        """Return what it sends a second later, at so much of its usual load."""
        rows: frame.Rows = {scope: {} for scope in catalogue.SCOPES}
        for (scope, labels), rates in self._rates.items():
            rows[scope][labels] = self._values(scope, labels, rates, load)
        sent = b""
        if self._names.settle(rows):
            sent += frame.pack(self._names.message(catalogue.SCHEMA))
        self._sequence += 1
        stamps = now_us, now_us, -1, -1
        return sent + frame.pack(
            frame.data(
                catalogue.SCHEMA, self._sequence, stamps, self._names, catalogue.SCOPES, rows
            )
        )

    def _values(
        self, scope: str, labels: Labels, rates: dict[str, float], load: float
    ) -> list[Value]:
        values: list[Value] = []
        for metric in catalogue.VALUES[scope]:
            rate = rates.get(metric.name, 0.0) * load
            if metric.kind == COUNTER:
                key = scope, labels, metric.name
                rate = self._totals[key] = self._totals.get(key, 1000.0) + rate
            value = max(rate, metric.low)
            values.append(round(value) if metric.type == "int" else value)
        return values


class Job:
    """The events of a job, as links would bring them; the last node is the odd one."""

    def __init__(self, names: Sequence[str], usual: Rank, odd: Rank) -> None:
        self._kinds = {name: Wired(node(usual)) for name in names[:1]}
        self._kinds[names[-1]] = Wired(node(odd))
        self._names = names
        self._decoders = {name: Decoder() for name in names}
        self._event_no = 0

    def greetings(self) -> Iterator[AnyEvent]:
        """Yield what comes before the first sample."""
        for name in self._names:
            self._decoders[name].feed(GREETING)
            yield Hello(
                **self._stamps(0), node=name, boot_id="b", agent_id="a", facts={"addresses": name}
            )

    def tick(self, now_us: int) -> Iterator[AnyEvent]:
        """Yield the samples of a second, decoded link by link, and the tick behind them."""
        sent = {name: kind.tick(now_us) for name, kind in self._kinds.items()}
        usual = sent[self._names[0]]
        for name in self._names:
            found = self._decoders[name].feed(sent.get(name, usual))[-1]
            assert isinstance(found, Frame)
            yield Sample(
                **self._stamps(now_us), node=name, boot_id="b", agent_id="a",
                sequence=found.sequence, generation=found.generation, node_mono_us=now_us,
                node_wall_us=now_us, offset_us=0, offset_error_us=0, tables=found.tables,
            )  # fmt: skip
        yield Tick(**self._stamps(now_us))

    def _stamps(self, now_us: int) -> dict[str, int]:
        self._event_no += 1
        return {"event_no": self._event_no, "arrived_us": now_us, "wall_us": now_us}


class Timed:
    """A judge that adds up what it takes, and a sink that closes the sum at each tick."""

    def __init__(self) -> None:
        self.judge = Judge()
        self.ticks_ms: list[float] = []
        self.states: set[tuple[str, str | None]] = set()
        self._spent_ms = 0.0

    def node(self, view: View, node: NodeView) -> tuple[Verdict, ...]:
        """Judge one node."""
        begin = time.process_time()
        verdicts = self.judge.node(view, node)
        self._spent_ms += (time.process_time() - begin) * 1e3
        return verdicts

    def job(self, view: View, verdicts: Sequence[tuple[Verdict, ...]]) -> JobVerdict:
        """Judge the job."""
        begin = time.process_time()
        verdict = self.judge.job(view, verdicts)
        self._spent_ms += (time.process_time() - begin) * 1e3
        return verdict

    def event(self, event: AnyEvent) -> None:
        """Take nothing of it."""

    def judged(self, _tick: Tick, _view: View, verdict: JobVerdict) -> None:
        """Take what this tick cost."""
        self.ticks_ms.append(self._spent_ms)
        self._spent_ms = 0.0
        self.states = {(verdict.job.state, verdict.job.cause)}


class Watch:
    """A second task on the event loop: how long it waits for its turn is how long a slice is."""

    def __init__(self) -> None:
        self.slices_ms: list[float] = []
        self._since = 0.0

    def begin(self) -> None:
        """Leave out what came before: the feed makes its events ahead."""
        self._since = time.process_time()

    async def turns(self) -> None:
        """Take turn after turn."""
        while True:
            self.begin()
            await asyncio.sleep(0)
            self.slices_ms.append((time.process_time() - self._since) * 1e3)


async def measured(nodes: int, ticks: int, usual: Rank, odd: Rank) -> tuple[Timed, Watch]:
    """Run a job through the engine: all of a second's samples come at once."""
    names = [f"n{i:04}" for i in range(nodes)]
    job, timed, watch = Job(names, usual, odd), Timed(), Watch()

    async def feed() -> AsyncIterator[AnyEvent]:
        for event in job.greetings():
            yield event
        for tick in range(1, HISTORY + ticks + 1):
            events = list(job.tick(tick * SECOND))
            if tick == HISTORY + 1:
                timed.ticks_ms.clear()
                watch.slices_ms.clear()
            watch.begin()
            for event in events:
                yield event

    settle()
    turns = asyncio.create_task(watch.turns())
    try:
        await run(feed(), Cluster(names, 1.0), timed, [timed])
    finally:
        turns.cancel()
    return timed, watch


def main() -> int:
    """Print the table; return 1 where the smaller job is over budget."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("ticks", nargs="?", type=int, default=TICKS)
    arguments.add_argument("--nodes", type=int, nargs="*", default=SIZES)
    chosen = arguments.parse_args()
    over = False
    print(f"{'':36}{'ms a tick: least':>17}{'median':>8}{'p99':>8}{'longest slice':>16}")
    for nodes in chosen.nodes:
        for name, kinds in SITUATIONS.items():
            timed, watch = asyncio.run(measured(nodes, chosen.ticks, *kinds))
            middle, longest = median(timed.ticks_ms), max(watch.slices_ms)
            most = sorted(timed.ticks_ms)[math.ceil(0.99 * len(timed.ticks_ms)) - 1]
            late = nodes <= SIZES[0] and max(middle, longest) > BUDGET_MS
            over |= late
            said = " ".join(f"{state}/{cause}" for state, cause in timed.states)
            figures = f"{min(timed.ticks_ms):17.1f}{middle:8.1f}{most:8.1f}{longest:13.1f} ms"
            row = f"{nodes:5} nodes, {name:22}{figures}  {said}"
            print(f"{row}  {'OVER BUDGET' if late else ''}".rstrip())
    print(f"budget: {BUDGET_MS:.0f} ms a tick and a slice, of {SIZES[0]} nodes; others are printed")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
