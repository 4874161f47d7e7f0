"""One node's numbers for the overview, taken from its view over the last few seconds."""

from dataclasses import dataclass

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Label, Labels, Value
from gpuwatch.model.event import Row
from gpuwatch.model.verdict import Verdict
from gpuwatch.model.view import NodeView, Window

__all__ = ["WINDOW_S", "Disk", "Facts", "Gpu", "Mount", "Nic", "Wait", "facts"]

WINDOW_S = 5.0
"""Seconds that the numbers of the overview are means of."""
HOT = 0x8 | 0x20 | 0x40 | 0x80
"""nvmlClocksEventReasons: HW slowdown, SW thermal, HW thermal, HW power brake (nvml.h)."""
ROLES = ("main", "loader", "checkpoint")
"""Threads whose waits are told apart; the rest are a rank's helpers."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its letter (paint.words.GPU_LETTERS), whether the driver lost it, and readings."""

    index: int
    letter: str
    lost: bool
    util: float | None
    power_w: float | None
    limit_w: float | None
    temperature_c: float | None
    memory_bytes: float | None


@dataclass(frozen=True, slots=True)
class Wait:
    """What most threads of a role were found in."""

    role: str
    family: str
    share: float


@dataclass(frozen=True, slots=True)
class Nic:
    """The busiest interface, bytes a second each way."""

    name: str
    down: float
    up: float
    line_bps: float | None


@dataclass(frozen=True, slots=True)
class Disk:
    """The busiest disk; `await_ms` is None when nothing was read or written."""

    name: str
    await_ms: float | None
    bytes_s: float
    busy: float


@dataclass(frozen=True, slots=True)
class Mount:
    """The network mount on which most requests wait: on average `waiting` at a time."""

    path: str
    type: str
    await_ms: float
    bytes_s: float | None
    waiting: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What the overview says of a node; None is missing, never zero."""

    gpus: tuple[Gpu, ...] = ()
    power_w: float | None = None
    limit_w: float | None = None
    waits: tuple[Wait, ...] = ()
    nic: Nic | None = None
    loss: float | None = None
    disk: Disk | None = None
    mount: Mount | None = None
    cpu: float | None = None
    iowait: float | None = None
    kworker: float | None = None
    queue: str | None = None
    agent: float | None = None


def facts(node: NodeView, ranks: tuple[Verdict, ...]) -> Facts:
    """Return the numbers of one node.

    Args:
        node: at this tick.
        ranks: verdicts of its ranks.
    """
    gpus = _gpus(node, ranks)
    window = node.window(WINDOW_S)
    power, limit = _mean([g.power_w for g in gpus]), _mean([g.limit_w for g in gpus])
    if window is None:
        return Facts(gpus, power, limit)
    cpu, iowait = _cpu(window)
    kworker, queue = _kworker(window)
    agent = (node.window(30) or window).rate("node", (), "agent_cpu_ms")
    return Facts(
        gpus, power, limit, _waits(window), _nic(window), _loss(window), _disk(window),
        _mount(window), cpu, iowait, kworker, queue, None if agent is None else agent / 1000,
    )  # fmt: skip


def _mean(values: list[float | None]) -> float | None:
    seen = [v for v in values if v is not None]
    return sum(seen) / len(seen) if seen else None


def _gpus(node: NodeView, ranks: tuple[Verdict, ...]) -> tuple[Gpu, ...]:
    sample = node.sample
    if sample is None:
        return ()
    by_rank = {v.rank: v for v in ranks}
    owners: dict[Label, Verdict] = {}
    for row in sample.rows("thread_group"):
        verdict = by_rank.get(str(row.labels[1]))
        if verdict is not None and row.labels[4] is not None:
            owners[row.labels[4]] = verdict
    cards = [_gpu(row, owners.get(row.labels[0])) for row in sample.rows("gpu")]
    return tuple(sorted(cards, key=lambda g: g.index))


def _gpu(row: Row, owner: Verdict | None) -> Gpu:
    place = catalogue.INDEX["gpu"]
    util, power = row.values[place["util_pct"]], row.values[place["power_w"]]
    letter = _letter(row.values[place["event_reasons"]], owner)
    lost = row.values[place["gpu_lost"]] == 1
    if lost:
        letter = "!"
    elif util is None and power is None:
        letter = "\N{MIDDLE DOT}"
    return Gpu(
        int(row.labels[0] or 0),
        letter,
        lost,
        None if util is None else util / 100,
        power,
        row.values[place["power_limit_w"]],
        row.values[place["temperature_c"]],
        row.values[place["memory_used_bytes"]],
    )


def _letter(reasons: Value, owner: Verdict | None) -> str:
    if owner is not None and (owner.state, owner.cause) == ("GPU", "fault"):
        return "!"
    if reasons is not None and int(reasons) & HOT:
        return "H"
    if owner is None or owner.shares is None:
        return "?"
    shares = owner.shares
    spin = "X" if owner.state == "NETWORK" else "S"
    return max(
        (shares.compute, "C"), (shares.spin, spin), (shares.starved, "_"), (shares.idle, "i"),
        (shares.unknown, "?"),
    )[1]  # fmt: skip


def _waits(window: Window) -> tuple[Wait, ...]:
    counts: dict[str, dict[str, float]] = {}
    for labels in window.entities("thread_wait"):
        role, family = str(labels[2]), str(labels[3])
        seen = window.growth("thread_wait", labels, "wait_samples")
        if role in ROLES and seen:
            families = counts.setdefault(role, {})
            families[family] = families.get(family, 0) + seen
    top = []
    for role in ROLES:
        families = counts.get(role, {})
        total = sum(families.values())
        if total:
            family = max(families, key=lambda f: families[f])
            top.append(Wait(role, family, families[family] / total))
    return tuple(top)


def _nic(window: Window) -> Nic | None:
    best: Nic | None = None
    for labels in window.entities("nic"):
        down, up = (window.rate("nic", labels, m) for m in ("rx_bytes", "tx_bytes"))
        if down is None or up is None:
            continue
        if best is None or down + up > best.down + best.up:
            speed = window.latest("nic", labels, "speed_mbps")
            best = Nic(str(labels[0]), down, up, None if speed is None else speed * 1e6)
    return best


def _loss(window: Window) -> float | None:
    """Return the share of segments sent again; tail-loss probes are no sign of loss."""
    sent, again, probes = (
        window.growth("node", (), m)
        for m in ("tcp_out_segs", "tcp_retrans_segs", "tcp_loss_probes")
    )
    if sent is None or again is None:
        return None
    return max(0.0, again - (probes or 0.0)) / sent if sent > 0 else 0.0


def _disk(window: Window) -> Disk | None:
    best: Disk | None = None
    for labels in window.entities("disk"):
        if labels[1] != "disk":
            continue
        rate = {m: window.rate("disk", labels, m) for m in _DISK}
        if any(v is None for v in rate.values()):
            continue
        reads, writes, read_ms, write_ms, read, written, busy = (rate[m] or 0.0 for m in _DISK)
        done = reads + writes
        disk = Disk(
            str(labels[0]),
            (read_ms + write_ms) / done if done else None,
            read + written,
            busy / 1000,
        )
        if best is None or disk.busy > best.busy:
            best = disk
    return best


def _mount(window: Window) -> Mount | None:
    best: Mount | None = None
    for labels in window.entities("mount"):
        ops, spent_ms = (_sum(window, labels, names) for names in (_OPS, _EXE))
        if not ops or spent_ms is None:
            continue
        bytes_s = _sum(window, labels, ("read_bytes", "write_bytes"))
        mount = Mount(str(labels[0]), str(labels[1]), spent_ms / ops, bytes_s, spent_ms / 1000)
        if best is None or mount.waiting > best.waiting:
            best = mount
    return best


def _sum(window: Window, labels: Labels, metrics: tuple[str, ...]) -> float | None:
    """Return the sum of the rates that are known, None where none is."""
    rates = [window.rate("mount", labels, metric) for metric in metrics]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


_OPS = ("read_ops", "write_ops", "commit_ops", "meta_ops")
_EXE = ("read_exe_ms", "write_exe_ms", "commit_exe_ms", "meta_exe_ms")
_DISK = ("reads", "writes", "read_ms", "write_ms", "read_bytes", "write_bytes", "busy_ms")
_CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def _cpu(window: Window) -> tuple[float | None, float | None]:
    """Return the shares of all CPU time that was busy, and idle with I/O outstanding."""
    rates = {m: window.rate("node", (), f"cpu_{m}_ms") for m in _CPU}
    total = sum(v for v in rates.values() if v is not None)
    idle, iowait = rates["idle"], rates["iowait"]
    if not total or idle is None:
        return None, None
    busy = max(0.0, 1 - (idle + (iowait or 0.0)) / total)
    return busy, None if iowait is None else iowait / total


def _kworker(window: Window) -> tuple[float | None, str | None]:
    """Return the CPU time of kernel threads, as a share of one core, and the busiest queue."""
    queues = [
        (rate / 1000, str(labels[0]))
        for labels in window.entities("kworker")
        if (rate := window.rate("kworker", labels, "kworker_cpu_ms")) is not None
    ]
    if not queues:
        return None, None
    return sum(rate for rate, _ in queues), max(queues)[1]
