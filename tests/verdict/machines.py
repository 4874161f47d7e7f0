"""Machines of a job as far as counters tell: what each gains a second, what each gauge reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuwatch.agent.metric import Labels

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
    pcie_mb: float | None = None
    more: Mapping[str, float] = field(default_factory=dict)


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
    far: bool | None = None
    checkpoint: Mapping[str, float] = field(default_factory=dict)
    workers: int = 0
    worker_run: float = 1.0
    worker_while: tuple[float, float] = (1.0, 1.0)
    """Shares of its time that a worker thread runs while the GPU is busy, and while it is idle."""
    read_mb: float = 50.0
    write_mb: float = 0.0
    main_read_mb: float = 0.0
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
    more: Mapping[str, float] = field(default_factory=dict)


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
    guests: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Memory that other processes hold, by GPU and process; ranks are 1000 and following."""
    cgroup: Mapping[str, float] = field(default_factory=dict)
    mounts: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    names: Mapping[str, float] = field(default_factory=dict)
    """What else mounts count: requests for metadata."""
    rdma: Mapping[str, float] = field(default_factory=dict)
    swap_in_pages: float = 0.0
    softirq: float = 0.0
    addresses: str = ""
    more: Mapping[str, float] = field(default_factory=dict)
    """What else the node counts, as `gpu.more` is what else a GPU does."""
    cores: Mapping[int, float] = field(default_factory=dict)

    def rates(self) -> Rates:
        """Return what each entity's counters gain a second, and what its gauges read."""
        found: Rates = {("node", ()): self._host()}
        gpus = [r.gpu for r in self.ranks] or list(self.gpus)
        for i, gpu in enumerate(gpus):
            found["gpu", (i, f"GPU-{self.name}-{i}", gpu.model)] = _gpu(gpu)
            if self.held:
                found["gpu_process", (i, 1000 + i)] = {"gpu_memory_bytes": 4e10}
        for guest, held in self.guests.items():
            found["gpu_process", guest] = {"gpu_memory_bytes": held}
        for i, rank in enumerate(self.ranks):
            found.update(_rank(rank, i))
        for nic in self.nics:
            found["nic", (nic.name,)] = _nic(nic)
        found["disk", ("nvme0n1", "disk")] = self._disk()
        if self.rdma:
            found["rdma", ("mlx5_0/1", "eth0", "Ethernet")] = dict(self.rdma)
        for mount, read_ms in self.mounts.items():
            found["mount", mount] = {
                "read_ops": 10,
                "read_exe_ms": 10 * read_ms,
                "waiting": 2,
                **self.names,
            }
        if self.cgroup:
            found["cgroup", ("/job", "slurm:1", None)] = {"ranks": len(self.ranks), **self.cgroup}
        for queue, cores in self.kworkers.items():
            found["kworker", (queue,)] = {"kworker_cpu_ms": cores * 1000}
        for core, share in self.cores.items():
            found["cpu_core", (core,)] = {"softirq_ms": share * 1000}
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
            "swap_in_pages": self.swap_in_pages, "cpu_hottest_softirq_ms": self.softirq * 1000,
            **self._received(), **self.more,
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
        "pcie_rx_bytes": gpu.pcie_mb and gpu.pcie_mb * 1e6, "pcie_tx_bytes": gpu.pcie_mb and gpu.pcie_mb * 1e6, **gpu.more,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def _nic(nic: Nic) -> dict[str, float]:
    values = {
        "rx_bytes": nic.rx_mb * 1e6, "tx_bytes": nic.tx_mb * 1e6, "rx_packets": nic.rx_mb * 700,
        "tx_packets": nic.tx_mb * 700, "rx_errors": nic.errors, "tx_errors": 0,
        "rx_pause_us": nic.paused_us, "tx_pause_us": nic.pauses_us,
        "carrier_changes": nic.flaps, "carrier": nic.carrier, "speed_mbps": nic.speed,
        **nic.more,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def _rank(rank: Rank, index: int) -> Rates:
    found: Rates = {}
    roles = {
        "main": (rank.main, 1, rank.main_run, rank.main_delay, rank.write_mb),
        "loader": (rank.loader, rank.loaders, rank.loader_run, rank.loader_delay, 0.0),
        "checkpoint": (rank.checkpoint, 1, 0.1, 0.0, rank.checkpoint_write_mb),
        "worker": ({"run": 1.0}, rank.workers, rank.worker_run, 0.0, 0.0),
    }
    read = {"loader": rank.read_mb, "main": rank.main_read_mb}
    for role, (waits, threads, run, delay, write_mb) in roles.items():
        if not waits or not threads:
            continue
        found["thread_group", (rank.group, rank.name, role, rank.pid + index, index)] = {
            "threads": threads, "sampled_threads": threads, "samples": 5 * threads,
            "run_ns": run * threads * 1e9, "delay_ns": delay * threads * 1e9,
            "storage_read_bytes": read.get(role, 0.0) * 1e6,
            "storage_write_bytes": write_mb * 1e6, "world_size": rank.world or 0,
            **({} if rank.age_s is None else {"age_s": rank.age_s}),
        }  # fmt: skip
        busy = (rank.gpu.util or 0) / 100
        counts = rank.worker_while if role == "worker" else (1.0, 1.0)
        for wait, share in waits.items():
            for state, part in (("busy", busy * counts[0]), ("idle", (1 - busy) * counts[1])):
                labels = (rank.group, rank.name, role, wait, state)
                found["thread_wait", labels] = {"wait_samples": 5 * threads * share * part}
    if rank.loaders_on is not None:
        placed: dict[str, float] = {"processes": rank.loaders, "cpus_allowed": rank.loaders_on}
        found["placement", (rank.group, rank.name, "loader")] = placed
    if rank.far is not None:
        found["placement", (rank.group, rank.name, "main")] = {
            "processes": 1, "cpus_allowed": 32, "numa_far": int(rank.far),
        }  # fmt: skip
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
