"""STORAGE/read: loaders, or the main thread, are blocked in reads while the GPU starves.

The witness is where threads wait, never iowait: iowait reads 0 while a reader is blocked if the
CPUs have other work, and counts neither NFS nor FUSE.
"""

from gpuwatch.verdict.asked import asked_for_names
from gpuwatch.verdict.causes import offload
from gpuwatch.verdict.causes.memory import thrashing
from gpuwatch.verdict.evidence import (
    NOTHING,
    STARTING_CAP,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    input_lost,
    number,
    once,
    percent,
    ramp,
    resting,
    starting,
)
from gpuwatch.verdict.features import Mount, Role

NAME = Kind("STORAGE", "read")
_READS = ("block-read", "netfs", "fuse")
_SLOW_MS = (1.0, 5.0)
"""Time that a read of a local disk takes: one NVMe reads in 0.1 ms alone, 4 ms under full load."""
_REMOTE_MS = (5.0, 30.0)
"""Time that a read from a server takes: 1 to 3 ms within a site, 150 ms from one that is slow."""
_BLIND_CAP = 0.5
_EITHER_CAP = 0.5
"""A main thread in a network mount, neither reading nor writing bytes, may as well flush."""
_HIDDEN = 0.5
"""Share of samples without a known name from which on a role's waits tell nothing."""


@once
def writes(context: Context) -> bool:
    """Tell whether the rank's main thread rather writes than reads."""
    main = context.role("main")
    written = main.write_mb_s or 0.0
    return written >= context.thresholds.write_rate and written > (main.read_mb_s or 0.0)


@once
def blocked(context: Context) -> tuple[float, str, str]:
    """Return the largest share of thread samples in reads, of which role, in which family."""
    best = (0.0, "loader", "block-read")
    for name in ("loader", "main"):
        waits = context.role(name).waits
        if waits is None:
            continue
        families = ("block-read",) if name == "main" and writes(context) else _READS
        best = max(best, (waits.share(*families), name, waits.longest(*families)))
    return best


@once
def severity(context: Context) -> float:
    """Return how surely reads are waited for, 0 to 1, by the threads alone."""
    t = context.thresholds
    return ramp(blocked(context)[0], t.storage_wait / 2, 2 * t.storage_wait)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, lost = context.thresholds, input_lost(context)
    opened = gate(lost, t)
    if opened == 0:
        return NOTHING
    if not any(_told(context.role(name)) for name in ("loader", "main")):
        return _blind(context, opened)
    share, role, family = blocked(context)
    begins = starting(context)
    if share == 0 or (begins and role == "main"):
        return NOTHING
    waits, disk = context.role(role).waits, context.host.disk
    mount = _mount(context, family)
    running = waits.share("run", "ready") if waits else 0.0
    rest = resting(context) if role == "loader" else 0.0
    return assessment(
        context,
        NAME,
        opened * (0.9 * severity(context) + 0.1 * _slow(context))
        - 0.5 * thrashing(context)
        - 0.5 * offload.severity(context)
        - (0.4 * asked_for_names(context) if family == "netfs" else 0.0)
        - 0.5 * ramp(running, 0.3, 0.8)
        - 0.5 * ramp(rest, 0.2, 0.5),
        text=f"waits for reads from storage: {_plural(role)} blocked in {family} {share * 100:.0f} %"
        " while its GPU was starved",
        support=(
            percent(f"thread_wait.{role}.{family}", share, t.storage_wait, f"{role} in {family}"),
            percent("gpu.starved", lost, t.lost, "GPU starved"),
            number("disk.read_await", disk.read_ms, "ms", _SLOW_MS[1], f"reads of {disk.name} take")
            if disk and not mount
            else None,
            number(
                "mount.read", mount.read_ms, "ms", _REMOTE_MS[1], f"reads of {mount.source} take"
            )
            if mount
            else None,
        ),
        against=(
            percent(f"thread_wait.{role}.run", running, None, f"{role} on a CPU or ready"),
            percent(f"thread_wait.{role}.rest", rest, None, f"{role} with nothing to do"),
            percent("disk.busy", disk.busy if disk else None, None, "busiest disk in use"),
        ),
        signals=(
            Signal("threads.io", context.role(role).read_mb_s is not None, 0.05),
            Signal("disk", disk is not None and disk.busy is not None, 0.05),
        ),
        cap=min(STARTING_CAP if begins else 1.0, _EITHER_CAP if _either(context, role) else 1.0),
        place=mount.source if mount else None,
    )


def _blind(context: Context, opened: float) -> Assessment:
    """Without thread samples only the disk and iowait are left, and prove little."""
    host, disk = context.host, context.host.disk
    busy = ramp(disk.busy, 0.7, 0.95) if disk and disk.read_mb_s > disk.write_mb_s else 0.0
    score = opened * 0.6 * max(ramp(host.iowait, 0.05, 0.3), busy)
    if score == 0:
        return NOTHING
    return assessment(
        context,
        NAME,
        score,
        text="probably waits for reads from storage: its disk is busy and its GPU starved",
        support=(
            percent("disk.busy", disk.busy if disk else None, 0.95, "busiest disk in use"),
            percent("cpu_iowait_ms", host.iowait, 0.3, "iowait"),
        ),
        against=(percent("cpu.busy", host.busy, context.thresholds.host_busy, "CPUs in use"),),
        signals=(Signal("threads.wchan", readable=False, weight=0.3),),
        cap=_BLIND_CAP,
    )


def _either(context: Context, role: str) -> bool:
    main = context.role("main")
    least = context.thresholds.write_rate
    return (
        role == "main"
        and max(main.read_mb_s or 0.0, main.write_mb_s or 0.0) < least
        and (
            main.waits is not None
            and main.waits.share("netfs", "fuse") > main.waits.share("block-read")
        )
    )


def _told(role: Role) -> bool:
    return role.waits is not None and role.waits.share("unknown") < _HIDDEN


def _mount(context: Context, family: str) -> Mount | None:
    """Return the mount that most is read from, where threads wait in one of its kind."""
    if family not in ("netfs", "fuse"):
        return None
    fuse = family == "fuse"
    fitting = [m for m in context.host.mounts if m.type.startswith("fuse") == fuse]
    return max(fitting, key=lambda m: (m.reading or 0.0, m.source), default=None)


def _slow(context: Context) -> float:
    disk = context.host.disk
    queues = context.host.kworkers
    remote = sum(cores for name, cores in queues.items() if name in ("nfsiod", "rpciod", "xprtiod"))
    local = ramp(disk.read_ms, *_SLOW_MS) if disk else 0.0
    reads = [m.read_ms for m in context.host.mounts if m.read_ms is not None]
    remote = max(remote, *(ramp(ms, *_REMOTE_MS) for ms in reads)) if reads else remote
    return max(local, ramp(context.host.io_pressure, 0.02, 0.2), ramp(remote, 0.0, 0.05))


def _plural(role: str) -> str:
    return "loaders" if role == "loader" else "main thread"


__all__ = ["NAME", "assess", "blocked", "severity", "writes"]
