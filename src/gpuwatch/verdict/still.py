"""Whether nothing at all moves on a node: what a job that hangs looks like.

Threads sleep or spin without a change, GPUs spin or do nothing, and no byte of the job goes over a
wire or to storage. Idle ports alone are normal: on one node with NVLink they always are. Where the
job's own connections are read they stand for the ports, on which others may have traffic; and a
log that tells of steps says more than all of it.
"""

from gpuwatch.agent.metric import Labels
from gpuwatch.model.progress import Progress
from gpuwatch.model.view import NodeView, Window
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["log_stands", "stands"]

_ENOUGH = 0.9
"""Share of the time that must have been watched."""
_QUIET_BYTES_S = 500_000.0
"""Sessions, mounts and monitors move less; a step's gradients are megabytes."""
_QUIET_CONNECTION_BYTES_S = 50_000.0
"""A rendezvous store's heartbeats are some bytes."""
_STEPS = 5.0
"""Step periods without a step for which a job may still be within a long one."""
_QUIET_STORAGE_BYTES_S = 50_000.0
_EVEN = 0.04
"""How far from a whole number of CPUs a role's use may be: its threads sleep, or spin for their GPU."""
_FLAT = 0.03
"""Change of power, as a share of the limit, within the noise of the board's sensor."""
_NOTHING, _FULL = 5.0, 95.0
"""Utilisation up to which a GPU does nothing, and from which it may spin, in percent."""


def log_stands(progress: Progress | None, thresholds: Thresholds) -> bool | None:
    """Tell whether the job's log has told of no step for long enough; None where it tells of none."""
    if progress is None or progress.still_s is None or progress.reason is not None:
        return None
    enough_s = max(thresholds.hung_after, _STEPS * (progress.period_s or 0.0))
    return progress.still_s >= enough_s


def stands(node: NodeView, thresholds: Thresholds) -> bool:
    """Tell whether ranks are there, and nothing moved for long enough; what is not read is no proof."""
    window = node.window(thresholds.hung_after)
    if node.stale or window is None or window.seconds < _ENOUGH * thresholds.hung_after:
        return False
    groups = window.entities("thread_group")
    return (
        bool(groups)
        and _quiet_wire(node, window)
        and _quiet(window, "rdma")
        and all(_sleeps(window, labels) for labels in groups)
        and _same_threads(window, groups)
        and _gpus_stand(node, window, {labels[4] for labels in groups}, thresholds)
    )


def _quiet_wire(node: NodeView, window: Window) -> bool:
    """Tell whether nothing goes to other nodes, by the job's connections where all of them are told."""
    every = [labels for labels in window.seen("connection") if labels[2] == "main"]
    hidden = any(subject.partition(".")[0] == "sockets" for subject, _ in node.absences())
    told = [e for e in every if window.coverage("connection", e, "acked_bytes") >= _ENOUGH]
    if hidden or not told:
        return _quiet(window, "nic")
    return all(
        (window.rate("connection", labels, way) or 0.0) < _QUIET_CONNECTION_BYTES_S
        for labels in every
        for way in ("acked_bytes", "received_bytes")
    )


def _quiet(window: Window, scope: str) -> bool:
    return all(
        (window.rate(scope, labels, way) or 0.0) < _QUIET_BYTES_S
        for labels in window.entities(scope)
        for way in ("rx_bytes", "tx_bytes")
    )


def _sleeps(window: Window, labels: Labels) -> bool:
    """Tell whether a role's threads sleep, or spin for a GPU that is busy, and move no files."""
    run_ns = window.rate("thread_group", labels, "run_ns")
    moved = [
        window.rate("thread_group", labels, name) or 0.0
        for name in ("storage_read_bytes", "storage_write_bytes")
    ]
    if run_ns is None or max(moved) >= _QUIET_STORAGE_BYTES_S:
        return False
    cores = run_ns / 1e9
    gpu = next((g for g in window.entities("gpu") if g[0] == labels[4]), None)
    if gpu is None or (window.rate("gpu", gpu, "util_pct") or 0.0) < _FULL:
        return cores <= _EVEN
    return abs(cores - round(cores)) <= _EVEN * max(1.0, cores)


def _same_threads(window: Window, groups: tuple[Labels, ...]) -> bool:
    """Tell whether the ranks were there all the time: what has just begun does not hang."""
    return window.began_with("thread_group") >= set(groups)


def _gpus_stand(
    node: NodeView, window: Window, used: set[str | int | None], thresholds: Thresholds
) -> bool:
    fast = node.window(thresholds.fast_window)
    gpus = [labels for labels in window.entities("gpu") if labels[0] in used]
    return (
        fast is not None and bool(gpus) and all(_stands(fast, window, g, thresholds) for g in gpus)
    )


def _stands(fast: Window, slow: Window, gpu: Labels, thresholds: Thresholds) -> bool:
    util = slow.rate("gpu", gpu, "util_pct")
    if slow.latest("gpu", gpu, "gpu_lost"):
        return True
    if util is None:
        return False
    if util <= _NOTHING:
        return True
    power, now = slow.rate("gpu", gpu, "power_w"), fast.rate("gpu", gpu, "power_w")
    limit = slow.rate("gpu", gpu, "power_limit_w")
    if util < _FULL or power is None or now is None or not limit:
        return False
    return power <= thresholds.spin_power * limit and abs(power - now) <= _FLAT * limit
