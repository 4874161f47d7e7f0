"""Nodes whose counters are known second by second: real samples, applied by the real cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import COUNTER, Labels, Value
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Hello, Link, Row, Sample, Tick
from gpuwatch.model.progress import Progress
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.verdict.judge import Judge
from gpuwatch.verdict.thresholds import Thresholds

SECOND = 1_000_000
Rates = dict[tuple[str, Labels], dict[str, float]]


@dataclass(frozen=True)
class Gpu:
    util: float | None = 99
    power: float | None = 610
    limit: float | None = 700
    memory: float | None = 25
    clock: float = 1980
    heat: float = 0.0
    cap: float = 0.0
    model: str = "NVIDIA H100 80GB HBM3"
    lost: bool = False
    xid: int = 0
    xids: float = 0.0
    sm: float | None = None
    tensor: float | None = None
    dram: float | None = None
    reasons: int | None = None


@dataclass(frozen=True)
class Wire:
    """Connections of a rank's role to one peer."""

    peer: str = "10.0.0.2"
    role: str = "main"
    trip_ms: float = 0.5
    swing: float = 0.1
    segments: float = 2000.0
    again: float = 0.0
    busy: float = 0.04
    received_mb: float = 5.0
    sent_mb: float = 5.0


@dataclass(frozen=True)
class Rank:
    """A rank: waits are shares of samples, run and delay shares of a CPU, for each thread."""

    name: str = "0"
    gpu: Gpu = Gpu()
    main: Mapping[str, float] = field(default_factory=lambda: {"run": 1.0})
    main_run: float = 1.0
    main_delay: float = 0.0
    loader: Mapping[str, float] = field(default_factory=lambda: {"futex": 0.8, "run": 0.2})
    loader_run: float = 0.2
    loader_delay: float = 0.0
    loaders: int = 16
    loaders_on: int | None = None
    checkpoint: Mapping[str, float] = field(default_factory=dict)
    read_mb: float = 50.0
    write_mb: float = 0.0
    checkpoint_write_mb: float = 0.0
    world: int | None = None
    group: str = "slurm:1"
    pid: int = 1000
    age_s: float | None = None
    wires: tuple[Wire, ...] = ()


@dataclass(frozen=True)
class Nic:
    name: str = "eth0"
    rx_mb: float = 0.1
    tx_mb: float = 0.1
    speed: float | None = 100_000
    flaps: float = 0.0
    errors: float = 0.0
    carrier: int = 1
    paused_us: float | None = None
    pauses_us: float | None = None


@dataclass(frozen=True)
class Node:
    name: str = "n1"
    ranks: tuple[Rank, ...] = (Rank(),)
    gpus: tuple[Gpu, ...] = ()
    busy: float = 0.1
    iowait: float = 0.0
    steal: float = 0.0
    cpus: int = 128
    segments: float = 0.0
    retransmits: float = 0.0
    probes: float = 0.0
    fast: float = 0.0
    dsack: float = 0.0
    received: float | None = None
    disorder: float = 0.0
    nics: tuple[Nic, ...] = (Nic(),)
    disk_busy: float = 0.02
    disk_ms: float = 0.2
    disk_read_mb: float = 1.0
    disk_write_mb: float = 1.0
    io_pressure: float = 0.0
    kworkers: Mapping[str, float] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[tuple[str, str]] = frozenset()
    held: bool = True
    cgroup: Mapping[str, float] = field(default_factory=dict)
    mounts: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    rdma: Mapping[str, float] = field(default_factory=dict)
    swap_in_pages: float = 0.0
    addresses: str = ""

    def rates(self) -> Rates:
        """Return what each entity's counters gain a second, and what its gauges read."""
        found: Rates = {("node", ()): self._host()}
        gpus = [r.gpu for r in self.ranks] or list(self.gpus)
        for i, gpu in enumerate(gpus):
            found["gpu", (i, f"GPU-{self.name}-{i}", gpu.model)] = _gpu(gpu)
            if self.held:
                found["gpu_process", (i, 1000 + i)] = {"gpu_memory_bytes": 4e10}
        for i, rank in enumerate(self.ranks):
            found.update(_rank(rank, i))
        for nic in self.nics:
            found["nic", (nic.name,)] = _nic(nic)
        found["disk", ("nvme0n1", "disk")] = self._disk()
        if self.rdma:
            found["rdma", ("mlx5_0/1", "eth0", "Ethernet")] = dict(self.rdma)
        for mount, read_ms in self.mounts.items():
            found["mount", mount] = {"read_ops": 10, "read_exe_ms": 10 * read_ms, "waiting": 2}
        if self.cgroup:
            found["cgroup", ("/job", "slurm:1", None)] = {"ranks": len(self.ranks), **self.cgroup}
        for queue, cores in self.kworkers.items():
            found["kworker", (queue,)] = {"kworker_cpu_ms": cores * 1000}
        for subject, reason in self.absent.items():
            found["absence", (subject, reason)] = {}
        return found

    def _host(self) -> dict[str, float]:
        total = self.cpus * 1000
        idle = 1 - self.busy - self.iowait - self.steal
        return {
            "cpu_user_ms": total * self.busy, "cpu_idle_ms": total * idle, "cpu_nice_ms": 0,
            "cpu_iowait_ms": total * self.iowait, "cpu_steal_ms": total * self.steal,
            "cpu_system_ms": 0, "cpu_irq_ms": 0, "cpu_softirq_ms": 0,
            "cpus": self.cpus, "cpus_allowed": self.cpus,
            "tcp_out_segs": self.segments, "tcp_retrans_segs": self.retransmits,
            "tcp_loss_probes": self.probes, "tcp_fast_retrans": self.fast, "tcp_timeouts": 0,
            "tcp_slow_start_retrans": 0, "tcp_dsack_received": self.dsack, "tcp_sack_reorder": 0,
            "pressure_io_some_us": self.io_pressure * 1e6, "pressure_cpu_some_us": 0,
            "swap_in_pages": self.swap_in_pages,
            **self._received(),
        }  # fmt: skip

    def _received(self) -> dict[str, float]:
        if self.received is None:
            return {}
        return {
            "tcp_in_segs": self.received,
            "tcp_out_of_order": self.received * self.disorder,
        }

    def _disk(self) -> dict[str, float]:
        reads, writes = self.disk_read_mb * 8, self.disk_write_mb * 8
        return {
            "busy_ms": self.disk_busy * 1000, "reads": reads, "writes": writes,
            "read_ms": reads * self.disk_ms, "write_ms": writes * self.disk_ms,
            "read_bytes": self.disk_read_mb * 1e6, "write_bytes": self.disk_write_mb * 1e6,
        }  # fmt: skip


def _gpu(gpu: Gpu) -> dict[str, float]:
    values = {
        "util_pct": gpu.util, "power_w": gpu.power, "power_limit_w": gpu.limit,
        "memory_util_pct": gpu.memory, "sm_clock_mhz": gpu.clock, "sm_clock_max_mhz": 1980,
        "throttle_hw_thermal_ns": gpu.heat * 1e9, "throttle_power_cap_ns": gpu.cap * 1e9,
        "throttle_sw_thermal_ns": 0, "throttle_hw_brake_ns": 0,
        "gpm_sm_pct": gpu.sm, "gpm_tensor_pct": gpu.tensor, "gpm_dram_pct": gpu.dram,
        "gpu_lost": int(gpu.lost), "xid": gpu.xid, "xids": gpu.xids,
        "event_reasons": gpu.reasons,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def _nic(nic: Nic) -> dict[str, float]:
    values = {
        "rx_bytes": nic.rx_mb * 1e6, "tx_bytes": nic.tx_mb * 1e6, "rx_packets": nic.rx_mb * 700,
        "tx_packets": nic.tx_mb * 700, "rx_errors": nic.errors, "tx_errors": 0,
        "rx_pause_us": nic.paused_us, "tx_pause_us": nic.pauses_us,
        "carrier_changes": nic.flaps, "carrier": nic.carrier, "speed_mbps": nic.speed,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def _rank(rank: Rank, index: int) -> Rates:
    found: Rates = {}
    roles = {
        "main": (rank.main, 1, rank.main_run, rank.main_delay, rank.write_mb),
        "loader": (rank.loader, rank.loaders, rank.loader_run, rank.loader_delay, 0.0),
        "checkpoint": (rank.checkpoint, 1, 0.1, 0.0, rank.checkpoint_write_mb),
    }
    for role, (waits, threads, run, delay, write_mb) in roles.items():
        if not waits or not threads:
            continue
        found["thread_group", (rank.group, rank.name, role, rank.pid + index, index)] = {
            "threads": threads, "sampled_threads": threads, "samples": 5 * threads,
            "run_ns": run * threads * 1e9, "delay_ns": delay * threads * 1e9,
            "storage_read_bytes": (rank.read_mb if role == "loader" else 0.0) * 1e6,
            "storage_write_bytes": write_mb * 1e6, "world_size": rank.world or 0,
            **({} if rank.age_s is None else {"age_s": rank.age_s}),
        }  # fmt: skip
        busy = (rank.gpu.util or 0) / 100
        for wait, share in waits.items():
            for state, part in (("busy", busy), ("idle", 1 - busy)):
                labels = (rank.group, rank.name, role, wait, state)
                found["thread_wait", labels] = {"wait_samples": 5 * threads * share * part}
    if rank.loaders_on is not None:
        placed: dict[str, float] = {"processes": rank.loaders, "cpus_allowed": rank.loaders_on}
        found["placement", (rank.group, rank.name, "loader")] = placed
    for wire in rank.wires:
        found["connection", (rank.group, rank.name, wire.role, wire.peer)] = _wire(wire)
    return found


def _wire(wire: Wire) -> dict[str, float]:
    return {
        "connections": 1, "connecting": 0, "out_segs": wire.segments,
        "busy_us": wire.busy * 1e6,
        "retransmits": wire.segments * wire.again, "spurious_retransmits": 0,
        "received_bytes": wire.received_mb * 1e6, "acked_bytes": wire.sent_mb * 1e6,
        "rtt_us": wire.trip_ms * 1e3, "rtt_var_us": wire.trip_ms * wire.swing * 1e3,
    }  # fmt: skip


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
                    values.append(rate)
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
