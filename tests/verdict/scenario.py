"""Nodes whose counters are known second by second: real samples, applied by the real cluster."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import COUNTER, Labels, Value
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Hello, Link, Row, Sample, Tick
from gpuwatch.model.progress import Progress
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.verdict.judge import Judge
from gpuwatch.verdict.thresholds import Thresholds
from verdict.machines import Gpu, Nic, Node, Rank, Wire

__all__ = [
    "DECODES",
    "GOOD",
    "HALF",
    "HOT",
    "LATE",
    "LOSES",
    "PEERS",
    "READS",
    "SECOND",
    "SEGMENTS",
    "SENDS",
    "SPIN",
    "VICTIM",
    "WAITS",
    "WRITES",
    "Gpu",
    "Nic",
    "Node",
    "Play",
    "Rank",
    "Wire",
    "blamed",
    "named",
    "quickly",
    "rank",
    "said",
    "settled",
]

SECOND = 1_000_000


class Play:
    """A cluster and its judge, fed a second at a time."""

    def __init__(self, names: Sequence[str], judge: Judge | None = None) -> None:
        self.cluster = Cluster(names, 1.0)
        self.judge = judge or Judge()
        self.now_us = SECOND
        self.event_no = 0
        self._counters: dict[str, dict[tuple[str, Labels], dict[str, float]]] = {}
        self._greeted: dict[str, str] = {}
        self._sequence = 0
        self.progress: Progress | None = None
        self.history: list[JobVerdict] = []

    def run(self, nodes: Sequence[Node], seconds: int) -> JobVerdict:
        """Let the nodes be so for some seconds; return the last verdict."""
        for _ in range(seconds):
            self.now_us += SECOND
            for node in nodes:
                self._greet(node)
                self.cluster.apply(self.sample(node))
            self.history.append(self.tick())
        return self.history[-1]

    def tick(self) -> JobVerdict:
        view = self.cluster.view(Tick(event_no=self._no(), arrived_us=self.now_us, wall_us=0))
        view = msgspec.structs.replace(view, progress=self.progress)
        return self.judge.job(view, [self.judge.node(view, node) for node in view.nodes])

    def _greet(self, node: Node) -> None:
        if self._greeted.get(node.name) != node.addresses:
            self._greeted[node.name] = node.addresses
            facts: dict[str, str | int | float | None] = {"addresses": node.addresses}
            self.cluster.apply(
                Hello(event_no=self._no(), arrived_us=self.now_us, wall_us=0, node=node.name,
                      boot_id="b", agent_id="a", facts=facts)
            )  # fmt: skip

    def lose(self, name: str, reason: str) -> None:
        self.cluster.apply(
            Link(event_no=self._no(), arrived_us=self.now_us, wall_us=0, node=name, state="lost",
                 step="streaming", reason=reason)
        )  # fmt: skip

    def leave(self, name: str) -> None:
        self.cluster.apply(
            Link(event_no=self._no(), arrived_us=self.now_us, wall_us=0, node=name, state="ended",
                 step="streaming", reason="no node of the job any more")
        )  # fmt: skip

    def restart_counters(self) -> None:
        """Let all counters begin anew, as after a driver was loaded again."""
        self._counters.clear()

    def sample(self, node: Node) -> Sample:
        self._sequence += 1
        counters = self._counters.setdefault(node.name, {})
        tables: dict[str, list[Row]] = {scope: [] for scope in catalogue.SCOPES}
        for (scope, labels), rates in node.rates().items():
            totals = counters.setdefault((scope, labels), {})
            values: list[Value] = []
            for row in catalogue.VALUES[scope]:
                rate = rates.get(row.name)
                if rate is None or (scope, row.name) in node.without:
                    values.append(None)
                elif row.kind == COUNTER:
                    totals[row.name] = totals.get(row.name, 1000.0) + rate
                    values.append(round(totals[row.name]))
                else:
                    values.append(round(rate) if row.type == "int" else rate)
            tables[scope].append(Row(labels, tuple(values)))
        return Sample(
            event_no=self._no(), arrived_us=self.now_us, wall_us=0, node=node.name, boot_id="b",
            agent_id="a", sequence=self._sequence, generation=1, node_mono_us=self.now_us,
            node_wall_us=0, offset_us=0, offset_error_us=0,
            tables=tuple(tuple(tables[s]) for s in catalogue.SCOPES),
        )  # fmt: skip

    def _no(self) -> int:
        self.event_no += 1
        return self.event_no


def settled(nodes: Sequence[Node], seconds: int = 50) -> JobVerdict:
    """Return the verdict after the nodes were so for long enough to be confirmed."""
    return Play([node.name for node in nodes]).run(nodes, seconds)


def quickly(nodes: Sequence[Node], seconds: int = 9) -> JobVerdict:
    """Return the verdict of a judge that confirms at once: for laws that hold at any time."""
    judge = Judge(Thresholds(suspect_after=1, confirm_after=2, dwell=1))
    return Play([node.name for node in nodes], judge).run(nodes, seconds)


def said(verdict: Verdict) -> tuple[str, str | None]:
    """Return state and cause."""
    return verdict.state, verdict.cause


def blamed(verdict: Verdict) -> set[str]:
    """Return the names of the culprits."""
    return {culprit.id for culprit in verdict.culprits}


SPIN = Gpu(util=100, power=130, memory=2)
WAITS = Rank(gpu=SPIN, loader={"futex": 0.98, "run": 0.02}, loader_run=0.02)
VICTIM = Node(ranks=(WAITS,))
PEERS = ("g1", "g2", "g3", "g4")
"""Names of nodes beside the one that a test is about."""


def rank(**fields: object) -> Node:
    """Return a node of one rank that differs from a healthy one in these fields."""
    return Node(ranks=(replace(Rank(), **fields),))  # type: ignore[arg-type]


GOOD = Node(nics=(Nic(rx_mb=3000, tx_mb=3000),))
HALF = Node(ranks=(Rank(gpu=Gpu(util=98, power=330, memory=10)),))
"""Waits half of the time, with steps shorter than what NVML averages over."""
READS = Node(
    ranks=(
        Rank(
            gpu=Gpu(util=20, power=150, memory=5),
            main={"pipe": 0.8, "run": 0.2},
            main_run=0.2,
            loader={"block-read": 0.85, "run": 0.1, "futex": 0.05},
            loader_run=0.1,
        ),
    ),
    disk_busy=0.98,
    disk_ms=40,
    disk_read_mb=100,
)
WRITES = Node(
    ranks=(
        Rank(
            gpu=Gpu(util=3, power=120, memory=0),
            main={"block-write": 0.75, "run": 0.25},
            main_run=0.25,
            write_mb=2000,
        ),
    ),
    kworkers={"flush-259:0": 0.5},
    disk_write_mb=2000,
    disk_busy=0.99,
)
DECODES = Node(
    ranks=(
        Rank(
            gpu=Gpu(util=45, power=240),
            main={"pipe": 0.7, "run": 0.3},
            main_run=0.3,
            loader={"run": 0.6, "ready": 0.35, "futex": 0.05},
            loader_run=0.6,
            loader_delay=0.35,
        ),
    ),
    cpus=12,
    busy=0.95,
)
LATE = Node(
    ranks=(
        Rank(
            gpu=Gpu(util=89, power=400, memory=12),
            main={"run": 0.45, "ready": 0.55},
            main_run=0.45,
            main_delay=0.55,
        ),
    ),
    busy=0.99,
    cpus=1,
)
SEGMENTS = 400_000 / 30
LOSES = replace(
    VICTIM,
    ranks=(replace(WAITS, gpu=Gpu(util=100, power=180, memory=4)),),
    segments=SEGMENTS,
    retransmits=SEGMENTS * 0.006,
    fast=SEGMENTS * 0.005,
    nics=(Nic(rx_mb=1500, tx_mb=1500),),
)
SENDS = replace(LOSES, retransmits=0, fast=0)
"""Waits as LOSES does, and loses nothing."""
HOT = Node(ranks=(Rank(gpu=Gpu(util=98, power=420, clock=900, heat=0.6)),))


def named(node: Node, *names: str) -> tuple[Node, ...]:
    """Return a node several times, under these names, each of its ranks under its own."""
    return tuple(
        replace(
            node,
            name=name,
            ranks=tuple(replace(r, name=f"{name}.{r.name}") for r in node.ranks),
        )
        for name in names
    )
