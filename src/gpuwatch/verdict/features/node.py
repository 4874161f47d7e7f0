"""A node without its GPUs and ranks: CPUs, ports, disks."""

import math

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Window
from gpuwatch.verdict.features.mounts import Mount, mounts
from gpuwatch.verdict.features.rates import PAGE_MB, scaled
from gpuwatch.verdict.features.rdma import Rdma, rdma
from gpuwatch.verdict.features.tcp import Loss, disorder, loss
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Disk", "Host", "Memory", "Nic", "host"]


class Nic(msgspec.Struct, frozen=True):
    """One port; `used` is the fuller direction's share of the line rate."""

    name: str
    bytes_s: float
    speed_mbps: float | None
    used: float | None
    direction: str
    errors: float | None
    flaps: float | None
    down: bool


class Disk(msgspec.Struct, frozen=True):
    """One whole disk."""

    name: str
    busy: float | None
    read_ms: float | None
    write_ms: float | None
    read_mb_s: float
    write_mb_s: float


class Memory(msgspec.Struct, frozen=True):
    """A node's memory: what comes back from swap."""

    swap_mb_s: float | None = None


class Host(msgspec.Struct, frozen=True):
    """A node without its GPUs and ranks. Shares are of all its CPUs.

    `disorder` is the share of received TCP segments that came out of order: behind a gap, so that
    the far end of a path that loses shows it, where the near end shows what it sends again.
    """

    busy: float | None = None
    iowait: float | None = None
    steal: float | None = None
    cpus: float | None = None
    loss: Loss | None = None
    nics: tuple[Nic, ...] = ()
    disks: tuple[Disk, ...] = ()
    io_pressure: float | None = None
    cpu_pressure: float | None = None
    kworkers: dict[str, float] = {}
    disorder: float | None = None
    mounts: tuple[Mount, ...] = ()
    rdma: tuple[Rdma, ...] = ()
    memory: Memory = Memory()

    @property
    def nic(self) -> Nic | None:
        """The fullest port; by bytes where no speed is known."""
        return max(self.nics, key=lambda n: (n.used or 0.0, n.bytes_s, n.name), default=None)

    @property
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
    return Host(
        busy,
        iowait,
        steal,
        fast.rate("node", (), "cpus_allowed") or fast.rate("node", (), "cpus"),
        loss(fast, thresholds) or loss(slow, thresholds),
        tuple(_nic(fast, slow, labels) for labels in fast.entities("nic")),
        tuple(_disk(fast, labels) for labels in fast.entities("disk") if labels[1] == "disk"),
        scaled(fast.rate("node", (), "pressure_io_some_us"), 1e-6),
        scaled(fast.rate("node", (), "pressure_cpu_some_us"), 1e-6),
        {
            str(labels[0]): cores
            for labels in fast.entities("kworker")
            if (cores := scaled(fast.rate("kworker", labels, "kworker_cpu_ms"), 1e-3)) is not None
        },
        disorder(fast) or disorder(slow),
        mounts(fast),
        rdma(slow),
        Memory(scaled(fast.rate("node", (), "swap_in_pages"), PAGE_MB)),
    )


def _cpu(window: Window) -> tuple[float | None, float | None, float | None]:
    kinds = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    rates = {kind: window.rate("node", (), f"cpu_{kind}_ms") for kind in kinds}
    total = math.fsum(rate for rate in rates.values() if rate is not None)
    idle, iowait, steal = rates["idle"], rates["iowait"], rates["steal"]
    if not total or idle is None:
        return None, None, None
    resting = idle + (iowait or 0.0)
    return (
        1 - resting / total,
        None if iowait is None else iowait / total,
        None if steal is None else steal / total,
    )


def _nic(fast: Window, slow: Window, labels: Labels) -> Nic:
    received = fast.rate("nic", labels, "rx_bytes")
    sent = fast.rate("nic", labels, "tx_bytes")
    bytes_s = max(received or 0.0, sent or 0.0)
    speed = fast.latest("nic", labels, "speed_mbps")
    packets = (_nic_sum(slow, labels, "packets"), _nic_sum(slow, labels, "errors"))
    return Nic(
        name=str(labels[0]),
        bytes_s=bytes_s,
        speed_mbps=speed,
        used=bytes_s * 8e-6 / speed if speed else None,
        direction="in" if (received or 0.0) >= (sent or 0.0) else "out",
        errors=packets[1] / packets[0] if packets[0] and packets[1] is not None else None,
        flaps=slow.growth("nic", labels, "carrier_changes"),
        down=fast.latest("nic", labels, "carrier") == 0,
    )


def _nic_sum(window: Window, labels: Labels, kind: str) -> float | None:
    parts = [window.growth("nic", labels, f"{way}_{kind}") for way in ("rx", "tx")]
    read = [part for part in parts if part is not None]
    return sum(read) if read else None


def _disk(window: Window, labels: Labels) -> Disk:
    return Disk(
        str(labels[0]),
        scaled(window.rate("disk", labels, "busy_ms"), 1e-3),
        _await(window, labels, "read"),
        _await(window, labels, "write"),
        (window.rate("disk", labels, "read_bytes") or 0.0) / 1e6,
        (window.rate("disk", labels, "write_bytes") or 0.0) / 1e6,
    )


def _await(window: Window, labels: Labels, kind: str) -> float | None:
    done = window.growth("disk", labels, f"{kind}s")
    spent = window.growth("disk", labels, f"{kind}_ms")
    return spent / done if done and spent is not None else None
