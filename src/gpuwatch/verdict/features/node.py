"""A node without its GPUs and ranks: CPUs, ports, disks."""

import math
from functools import cached_property

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Columns, Window
from gpuwatch.verdict.features.mounts import Mount, mounts
from gpuwatch.verdict.features.rates import PAGE_MB, added, scaled
from gpuwatch.verdict.features.rdma import Rdma, rdma
from gpuwatch.verdict.features.tcp import Loss, disorder, loss
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Disk", "Host", "Memory", "Nic", "host"]

_CPU = Columns(
    "node", "cpu_idle_ms", "cpu_iowait_ms", "cpu_steal_ms", "cpu_user_ms", "cpu_nice_ms",
    "cpu_system_ms", "cpu_irq_ms", "cpu_softirq_ms",
)  # fmt: skip
_NODE = Columns(
    "node", "cpus_allowed", "cpus", "pressure_io_some_us", "pressure_cpu_some_us", "swap_in_pages",
    "cpu_hottest_softirq_ms",
)  # fmt: skip
_BYTES = Columns("nic", "rx_bytes", "tx_bytes")
_LINK = Columns("nic", "speed_mbps", "carrier")
_RARE = Columns("nic", "carrier_changes", "rx_packets", "tx_packets", "rx_errors", "tx_errors")
_DISK = Columns("disk", "busy_ms", "read_bytes", "write_bytes")
_DONE = Columns("disk", "reads", "read_ms", "writes", "write_ms")


class Nic(msgspec.Struct, frozen=True, gc=False):
    """One port; `used` is the fuller direction's share of the line rate."""

    name: str
    bytes_s: float
    speed_mbps: float | None
    used: float | None
    direction: str
    errors: float | None
    flaps: float | None
    down: bool


class Disk(msgspec.Struct, frozen=True, gc=False):
    """One whole disk."""

    name: str
    busy: float | None
    read_ms: float | None
    write_ms: float | None
    read_mb_s: float
    write_mb_s: float


class Memory(msgspec.Struct, frozen=True, gc=False):
    """A node's memory: what comes back from swap."""

    swap_mb_s: float | None = None


class Host(msgspec.Struct, frozen=True, dict=True):
    """A node without its GPUs and ranks. Shares are of all its CPUs.

    What only few ask for is read when they do, of `fast` and, what is rare, of `slow`.
    `disorder` is the share of received TCP segments that came out of order: behind a gap, so that
    the far end of a path that loses shows it, where the near end shows what it sends again.
    """

    fast: Window
    slow: Window
    busy: float | None
    iowait: float | None
    steal: float | None
    cpus: float | None
    loss: Loss | None
    io_pressure: float | None
    cpu_pressure: float | None
    disorder: float | None
    memory: Memory
    hottest_softirq: float | None

    @cached_property
    def nics(self) -> tuple[Nic, ...]:
        """All ports."""
        return tuple([_nic(self.fast, self.slow, each) for each in self.fast.entities("nic")])

    @cached_property
    def disks(self) -> tuple[Disk, ...]:
        """All whole disks."""
        every = self.fast.entities("disk")
        return tuple([_disk(self.fast, each) for each in every if each[1] == "disk"])

    @cached_property
    def kworkers(self) -> dict[str, float]:
        """How many CPUs the kernel's workers of each queue use."""
        used = self.fast.rates("kworker", "kworker_cpu_ms")
        return {str(labels[0]): ms / 1e3 for labels, ms in used}

    @cached_property
    def mounts(self) -> tuple[Mount, ...]:
        """All mounts of servers."""
        return mounts(self.fast)

    @cached_property
    def rdma(self) -> tuple[Rdma, ...]:
        """All ports that RDMA may use."""
        return rdma(self.fast, self.slow)

    @cached_property
    def nic(self) -> Nic | None:
        """The fullest port; by bytes where no speed is known."""
        return max(self.nics, key=lambda n: (n.used or 0.0, n.bytes_s, n.name), default=None)

    @cached_property
    def disk(self) -> Disk | None:
        """The busiest disk."""
        return max(self.disks, key=lambda d: (d.busy or 0.0, d.name), default=None)


def host(fast: Window, slow: Window, thresholds: Thresholds) -> Host:
    """Return a node's host.

    Args:
        fast: what is told as a mean.
        slow: what is rare: loss of little traffic, flaps of a link.
        thresholds: of the judge.
    """
    busy, iowait, steal = _cpu(fast)
    allowed, cpus, io_us, cpu_us, swapped, hottest_ms = fast.rates_of((), _NODE)
    return Host(
        fast,
        slow,
        busy,
        iowait,
        steal,
        allowed or cpus,
        loss(fast, thresholds) or loss(slow, thresholds),
        scaled(io_us, 1e-6),
        scaled(cpu_us, 1e-6),
        disorder(fast) or disorder(slow),
        Memory(scaled(swapped, PAGE_MB)),
        scaled(hottest_ms, 1e-3),
    )


def _cpu(window: Window) -> tuple[float | None, float | None, float | None]:
    rates = window.rates_of((), _CPU)
    total = math.fsum(rate for rate in rates if rate is not None)
    idle, iowait, steal = rates[:3]
    if not total or idle is None:
        return None, None, None
    resting = idle + (iowait or 0.0)
    return (
        1 - resting / total,
        None if iowait is None else iowait / total,
        None if steal is None else steal / total,
    )


def _nic(fast: Window, slow: Window, labels: Labels) -> Nic:
    received, sent = fast.rates_of(labels, _BYTES)
    bytes_s = max(received or 0.0, sent or 0.0)
    speed, carrier = fast.latest_of(labels, _LINK)
    flaps, *counts = slow.growths_of(labels, _RARE)
    packets, errors = added(counts[:2]), added(counts[2:])
    return Nic(
        name=str(labels[0]),
        bytes_s=bytes_s,
        speed_mbps=speed,
        used=bytes_s * 8e-6 / speed if speed else None,
        direction="in" if (received or 0.0) >= (sent or 0.0) else "out",
        errors=errors / packets if packets and errors is not None else None,
        flaps=flaps,
        down=carrier == 0,
    )


def _disk(window: Window, labels: Labels) -> Disk:
    busy_ms, read, written = window.rates_of(labels, _DISK)
    reads, read_ms, writes, write_ms = window.growths_of(labels, _DONE)
    return Disk(
        str(labels[0]),
        scaled(busy_ms, 1e-3),
        read_ms / reads if reads and read_ms is not None else None,
        write_ms / writes if writes and write_ms is not None else None,
        (read or 0.0) / 1e6,
        (written or 0.0) / 1e6,
    )
