"""What the causes look at: one rank's threads and one node's host, over one window.

Every value may be None: it could not be read, or there was too little to tell a rate from.
"""

import math

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Window
from gpuwatch.verdict.thresholds import Thresholds

__all__ = [
    "Disk", "Host", "Loss", "Nic", "Role", "Threads", "Waits", "host", "loss", "threads",
    "wilson",
]  # fmt: skip

ENOUGH_SAMPLES = 10
"""Thread samples below which no share is told: two seconds at 5 Hz."""
ENOUGH_RETRANSMITS = 10
"""Retransmits below which a rate is not held against the network."""
_Z = 1.96
_WANTED = 0.02
"""Share of a CPU that threads must have wanted before it is told which part of it they got."""


class Waits(msgspec.Struct, frozen=True):
    """Where a role's threads were found, as shares of their samples.

    `starved` tells whether only samples count in which the rank's GPU was idle: with a full
    prefetch queue, loaders that read while the GPU works are no wait.
    """

    shares: dict[str, float]
    samples: float
    starved: bool

    def share(self, *families: str) -> float:
        """Return the share of samples in these families."""
        return sum(self.shares.get(family, 0.0) for family in families)

    def longest(self, *families: str) -> str:
        """Return which of these families was met most."""
        return max(families, key=lambda family: (self.shares.get(family, 0.0), family))


class Role(msgspec.Struct, frozen=True):
    """The threads of one role: `run` and `delay` are shares of one CPU, a thread that uses any.

    `cores` is what all of them used together.
    """

    threads: float | None = None
    run: float | None = None
    delay: float | None = None
    cores: float | None = None
    read_mb_s: float | None = None
    write_mb_s: float | None = None
    waits: Waits | None = None

    @property
    def late(self) -> float | None:
        """Return the part of the time that its threads wanted to run in which they did not."""
        if self.run is None or self.delay is None or self.run + self.delay < _WANTED:
            return None
        return self.delay / (self.run + self.delay)


class Allowance(msgspec.Struct, frozen=True):
    """What a rank's control group lets it use.

    `throttled` is the share of periods in which a quota stopped it: 0 without a quota. `cpus` is
    on how many CPUs it may run.
    """

    throttled: float | None = None
    cpus: float | None = None


class Threads(msgspec.Struct, frozen=True):
    """A rank: one process tree."""

    group: str
    rank: str
    pid: int | None
    gpu: int | None
    world: int | None
    roles: dict[str, Role]
    allowance: Allowance = Allowance()

    def role(self, name: str) -> Role:
        """Return a role; one of which nothing is known when the rank has none."""
        return self.roles.get(name, Role())


_FEW_SEGMENTS = 200
"""Received segments below which their order says nothing; receive offload joins many into one."""


class Loss(msgspec.Struct, frozen=True):
    """TCP's own view: `low` is the lower end of the 95 % interval of `rate`."""

    segments: float
    retransmits: float
    raw: float
    rate: float
    low: float
    hard: float
    reordered: float
    segments_s: float


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

    @property
    def nic(self) -> Nic | None:
        """The fullest port; by bytes where no speed is known."""
        return max(self.nics, key=lambda n: (n.used or 0.0, n.bytes_s, n.name), default=None)

    @property
    def disk(self) -> Disk | None:
        """The busiest disk."""
        return max(self.disks, key=lambda d: (d.busy or 0.0, d.name), default=None)


def threads(window: Window, slow: Window) -> tuple[Threads, ...]:
    """Return the ranks of a node's last sample.

    Args:
        window: what is told as a mean.
        slow: where a thread was looked at too seldom in the other, as on a busy node.
    """
    waits = _waits(slow) | _waits(window)
    found: dict[tuple[str, str], Threads] = {}
    for labels in window.entities("thread_group"):
        group, rank, name = str(labels[0]), str(labels[1]), str(labels[2])
        role = _role(window, labels, waits.get((group, rank, name)))
        known = found.get((group, rank))
        if known is None:
            known = found[group, rank] = Threads(
                group, rank, _number(labels[3]), _number(labels[4]), _world(window, labels), {}
            )
        known.roles[name] = role
    return tuple(found.values())


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
        _scaled(fast.rate("node", (), "pressure_io_some_us"), 1e-6),
        _scaled(fast.rate("node", (), "pressure_cpu_some_us"), 1e-6),
        {
            str(labels[0]): cores
            for labels in fast.entities("kworker")
            if (cores := _scaled(fast.rate("kworker", labels, "kworker_cpu_ms"), 1e-3)) is not None
        },
        _disorder(fast) or _disorder(slow),
    )


def loss(window: Window, thresholds: Thresholds) -> Loss | None:
    """Return TCP's losses; None where a counter is missing or too few segments were sent."""
    sent = window.growth("node", (), "tcp_out_segs")
    again = window.growth("node", (), "tcp_retrans_segs")
    probes = window.growth("node", (), "tcp_loss_probes")
    if sent is None or again is None or probes is None or sent < thresholds.retransmit_segments:
        return None
    lost = max(0.0, again - probes)
    hard = _sum(window, "tcp_timeouts", "tcp_fast_retrans", "tcp_slow_start_retrans")
    reordered = max(
        _sum(window, "tcp_dsack_received"), _sum(window, "tcp_sack_reorder")
    )  # fmt: skip
    return Loss(
        segments=sent,
        retransmits=lost,
        raw=again / sent,
        rate=lost / sent,
        low=wilson(lost, sent) if lost >= ENOUGH_RETRANSMITS else 0.0,
        hard=min(1.0, hard / lost) if lost else 0.0,
        reordered=min(1.0, reordered / lost) if lost else 0.0,
        segments_s=sent / window.seconds,
    )


def _disorder(window: Window) -> float | None:
    got = window.growth("node", (), "tcp_in_segs")
    late = window.growth("node", (), "tcp_out_of_order")
    return late / got if got is not None and late is not None and got >= _FEW_SEGMENTS else None


def wilson(hits: float, trials: float) -> float:
    """Return the lower end of the 95 % Wilson interval of a share."""
    share = min(1.0, hits / trials)
    centre = share + _Z**2 / (2 * trials)
    spread = _Z * math.sqrt(share * (1 - share) / trials + _Z**2 / (4 * trials**2))
    return max(0.0, (centre - spread) / (1 + _Z**2 / trials))


def _waits(window: Window) -> dict[tuple[str, str, str], Waits]:
    every: dict[tuple[str, str, str], dict[str, float]] = {}
    starved: dict[tuple[str, str, str], dict[str, float]] = {}
    for labels, count in window.growths("thread_wait", "wait_samples"):
        if count == 0:
            continue
        key, family = (str(labels[0]), str(labels[1]), str(labels[2])), str(labels[3])
        for table in (every, starved) if labels[4] == "idle" else (every,):
            role = table.setdefault(key, {})
            role[family] = role.get(family, 0.0) + count
    found = {}
    for key, counts in every.items():
        alone = starved.get(key, {})
        known = _shares(alone, starved=True) or _shares(counts, starved=False)
        if known:
            found[key] = known
    return found


def _shares(counts: dict[str, float], *, starved: bool) -> Waits | None:
    total = sum(counts.values())
    if total < ENOUGH_SAMPLES:
        return None
    return Waits({family: n / total for family, n in counts.items()}, total, starved)


def _role(window: Window, labels: Labels, waits: Waits | None) -> Role:
    threads = window.rate("thread_group", labels, "threads")
    sampled = window.rate("thread_group", labels, "sampled_threads")
    run = window.rate("thread_group", labels, "run_ns")
    delay = window.rate("thread_group", labels, "delay_ns")
    return Role(
        threads,
        run / 1e9 / sampled if run is not None and sampled else None,
        delay / 1e9 / sampled if delay is not None and sampled else None,
        _scaled(run, 1e-9),
        _scaled(window.rate("thread_group", labels, "storage_read_bytes"), 1e-6),
        _scaled(window.rate("thread_group", labels, "storage_write_bytes"), 1e-6),
        waits,
    )


def _world(window: Window, labels: Labels) -> int | None:
    world = window.latest("thread_group", labels, "world_size")
    return None if world is None else int(world)


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
        _scaled(window.rate("disk", labels, "busy_ms"), 1e-3),
        _await(window, labels, "read"),
        _await(window, labels, "write"),
        (window.rate("disk", labels, "read_bytes") or 0.0) / 1e6,
        (window.rate("disk", labels, "write_bytes") or 0.0) / 1e6,
    )


def _await(window: Window, labels: Labels, kind: str) -> float | None:
    done = window.growth("disk", labels, f"{kind}s")
    spent = window.growth("disk", labels, f"{kind}_ms")
    return spent / done if done and spent is not None else None


def _sum(window: Window, *counters: str) -> float:
    return sum(window.growth("node", (), name) or 0.0 for name in counters)


def _scaled(rate: float | None, factor: float) -> float | None:
    return None if rate is None else rate * factor


def _number(label: object) -> int | None:
    return label if isinstance(label, int) else None
