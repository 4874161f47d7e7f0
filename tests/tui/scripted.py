"""Jobs made of rows of the catalogue, second by second, and a judge that says what it was told."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import COUNTER, Labels, Value
from gpuwatch.model.event import AnyEvent, Hello, Link, Row, Sample, Tick
from gpuwatch.model.verdict import JobVerdict, Shares, Verdict
from gpuwatch.model.view import NodeView, View

WALL_US = 1_790_000_000_000_000
"""Wall clock at second 0."""
START_US = 1_000_000_000
"""Viewer's monotonic clock at second 0."""


class Stamp(TypedDict):
    """What all events have."""

    event_no: int
    arrived_us: int
    wall_us: int


UNSTAMPED: Stamp = {"event_no": 0, "arrived_us": 0, "wall_us": 0}
"""Until `play` puts events in order."""

Level = dict[str, float | None]


@dataclass(frozen=True)
class Load:
    """How a node runs: gauges as they are, counters as growth a second."""

    gpu: Level = field(
        default_factory=lambda: {
            "util_pct": 98, "memory_util_pct": 60, "power_w": 612, "power_limit_w": 700, "temperature_c": 61,
            "memory_used_bytes": 71 * 2**30, "memory_total_bytes": 80 * 2**30, "event_reasons": 0,
            "sm_clock_mhz": 1905, "energy_mj": 612_000, "throttle_power_cap_ns": 4e6,
        }
    )  # fmt: skip
    node: Level = field(
        default_factory=lambda: {
            "cpu_user_ms": 5800, "cpu_system_ms": 900, "cpu_idle_ms": 57_200, "cpu_iowait_ms": 60, "cpus": 64,
            "tcp_out_segs": 41_000, "tcp_in_segs": 40_000, "tcp_retrans_segs": 2, "tcp_loss_probes": 2,
            "memory_total_bytes": 512 * 2**30, "memory_dirty_bytes": 120 * 2**20, "agent_cpu_ms": 8,
            "agent_memory_bytes": 24 * 2**20, "uptime_s": 90_000,
        }
    )  # fmt: skip
    nic: Level = field(
        default_factory=lambda: {
            "rx_bytes": 1.1e9,
            "tx_bytes": 1.1e9,
            "carrier": 1,
            "speed_mbps": 25_000,
        }
    )
    disk: Level = field(
        default_factory=lambda: {
            "reads": 310, "read_bytes": 160e6, "read_ms": 280, "writes": 3, "write_bytes": 24e3, "write_ms": 4,
            "busy_ms": 90, "in_flight": 1,
        }
    )  # fmt: skip
    kworker: dict[str, float] = field(default_factory=lambda: {"mlx5_cmd": 3, "writeback": 1})
    waits: dict[tuple[str, str], float] = field(
        default_factory=lambda: {
            ("main", "run"): 4.6,
            ("main", "gpu"): 0.4,
            ("loader", "futex"): 18,
            ("loader", "run"): 2,
        }
    )


@dataclass(frozen=True)
class Machine:
    """One node, what it runs at each second, and what it cannot read."""

    name: str
    gpus: int = 8
    load: Callable[[int], Load | None] = lambda _: Load()
    absent: tuple[tuple[str, str], ...] = ()
    link: Link | None = None
    nic: str = "eth0"
    nics: dict[str, Level] | None = None
    group: str = "slurm:4711"

    def events(self, seconds: int) -> Iterable[tuple[float, AnyEvent]]:
        """Yield (second, event); event numbers are put in later."""
        if self.link is not None:
            yield 0.0, self.link
            return
        yield 0.0, Link(node=self.name, state="streaming", step="streaming", **UNSTAMPED)
        facts: dict[str, str | int | float | None] = {
            "kernel": "6.1.0",
            "python": "3.11.2",
            "cpus": 64,
        }
        yield 0.0, Hello(node=self.name, boot_id="b", agent_id="a", facts=facts, **UNSTAMPED)
        grown: dict[tuple[str, Labels, str], float] = {}
        for second in range(seconds):
            load = self.load(second)
            if load is not None:
                yield second + 0.6, self._sample(second, load, grown)

    def _sample(
        self, second: int, load: Load, grown: dict[tuple[str, Labels, str], float]
    ) -> Sample:
        tables: dict[str, list[Row]] = {scope: [] for scope in catalogue.SCOPES}

        def put(scope: str, labels: Labels, level: Level) -> None:
            values: list[Value] = []
            for row in catalogue.VALUES[scope]:
                value = level.get(row.name)
                if value is not None and row.kind == COUNTER:
                    key = (scope, labels, row.name)
                    value = grown[key] = grown.get(key, 0.0) + value
                values.append(None if value is None else int(value) if row.type == "int" else value)
            tables[scope].append(Row(labels, tuple(values)))

        put("node", (), load.node)
        for gpu in range(self.gpus):
            put("gpu", (gpu, f"GPU-{gpu}", "NVIDIA H100 80GB HBM3"), load.gpu)
            for role, threads in (("main", 1), ("loader", 4)):
                labels = (self.group, str(gpu), role, 4000 + gpu, gpu)
                put(
                    "thread_group",
                    labels,
                    {"threads": threads, "samples": 5 * threads, "run_ns": 4e8},
                )
            for (role, family), seen in load.waits.items():
                put(
                    "thread_wait",
                    (self.group, str(gpu), role, family, "idle"),
                    {"wait_samples": seen},
                )
        for nic, flow in (self.nics or {self.nic: load.nic}).items():
            put("nic", (nic,), flow)
        put("disk", ("nvme0n1", "disk"), load.disk)
        for queue, ms in load.kworker.items():
            put("kworker", (queue,), {"kworker_cpu_ms": ms})
        tables["absence"] = [Row(pair, ()) for pair in self.absent]
        return Sample(
            event_no=0, arrived_us=0, wall_us=0, node=self.name, boot_id="b", agent_id="a", sequence=second,
            generation=1, node_mono_us=second * 1_000_000, node_wall_us=WALL_US + second * 1_000_000,
            offset_us=0, offset_error_us=200, tables=tuple(tuple(tables[s]) for s in catalogue.SCOPES),
        )  # fmt: skip


def play(machines: Sequence[Machine], seconds: int) -> list[AnyEvent]:
    """Return all events of a job in order, a tick at the end of each second."""
    timed = [pair for machine in machines for pair in machine.events(seconds)]
    timed += [(second + 1.0, Tick(**UNSTAMPED)) for second in range(seconds)]
    timed.sort(key=lambda pair: pair[0])
    return [_stamped(event, no, second) for no, (second, event) in enumerate(timed)]


def _stamped(event: AnyEvent, no: int, second: float) -> AnyEvent:
    us = round(second * 1e6)
    return msgspec.structs.replace(
        event, event_no=no, arrived_us=START_US + us, wall_us=WALL_US + us
    )


class Feed:
    """Gives out events as far as it was told to, then waits."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self._events = events
        self._open = asyncio.Event()
        self._until = len(events)

    def hold_after(self, second: float) -> None:
        """Stop before the first event after this second."""
        self._until = next(
            (i for i, e in enumerate(self._events) if e.arrived_us > START_US + second * 1e6),
            len(self._events),
        )
        self._open.set()

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        """Yield events, and never end."""
        place = 0
        while True:
            while place < self._until:
                yield self._events[place]
                place += 1
            self._open.clear()
            await self._open.wait()


class Told:
    """A judge that says what a script says."""

    def __init__(self, script: Callable[[View], JobVerdict]) -> None:
        self._script = script

    def node(self, view: View, node: NodeView) -> tuple[Verdict, ...]:
        """Say nothing of a node alone."""
        return ()

    def job(self, view: View, verdicts: Sequence[tuple[Verdict, ...]]) -> JobVerdict:
        """Return what the script says now."""
        return self._script(view)


COMPUTING = Shares(0.94, 0.03, 0.01, 0.01, 0.01, "learned")
SPINNING = Shares(0.06, 0.91, 0.01, 0.01, 0.01, "learned")
STARVED = Shares(0.11, 0.0, 0.86, 0.02, 0.01, "learned")


def second(view: View) -> int:
    """Return the second of a tick."""
    return (view.now_us - START_US) // 1_000_000


def verdict_of(node: str, gpus: int, like: Verdict) -> tuple[Verdict, tuple[Verdict, ...]]:
    """Return a node's verdict, and the same for each of its ranks."""
    own = msgspec.structs.replace(like, scope="node", node=node)
    ranks = tuple(
        msgspec.structs.replace(like, scope="rank", node=node, rank=str(r)) for r in range(gpus)
    )
    return own, ranks


__all__ = [
    "COMPUTING",
    "SPINNING",
    "START_US",
    "STARVED",
    "UNSTAMPED",
    "WALL_US",
    "Feed",
    "Level",
    "Load",
    "Machine",
    "Told",
    "play",
    "replace",
    "second",
    "verdict_of",
]  # fmt: skip
