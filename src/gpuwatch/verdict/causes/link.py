"""NETWORK/link: a port went down and up, runs below its peers' speed, or gets bad packets."""

import msgspec

from gpuwatch.model.verdict import Finding
from gpuwatch.verdict.evidence import (
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    number,
    percent,
    ramp,
    waiting,
    waiting_cap,
)
from gpuwatch.verdict.features import Nic

NAME = Kind("NETWORK", "link")
_IN_USE_BYTES_S = 1e6
"""A bad port that carries less than this is not the job's."""
_IN_USE = 0.1
"""Nor is a slow one that is used less: what holds up a job is full at least at times."""


class _Fault(msgspec.Struct, frozen=True):
    severity: float
    finding: Finding | None
    text: str


def fault(context: Context) -> float:
    """Return how bad the worst port is, 0 to 1."""
    return max((_worst(context, nic).severity for nic in context.host.nics), default=0.0)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, wait = context.thresholds, waiting(context)
    worst = max(
        (_worst(context, nic) for nic in context.host.nics),
        key=lambda f: f.severity,
        default=_NONE,
    )
    if worst.severity == 0:
        return Assessment(*NAME, 0.0)
    return assessment(
        context,
        NAME,
        gate(wait, t) * worst.severity,
        text=worst.text,
        support=(worst.finding, percent("wait", wait, t.lost, "GPU waits for others")),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=waiting_cap(context),
    )


_NONE = _Fault(0.0, None, "")


def _worst(context: Context, nic: Nic) -> _Fault:
    return max(
        _flapping(context, nic), _slow(context, nic), _bad(context, nic), key=lambda f: f.severity
    )


def _flapping(context: Context, nic: Nic) -> _Fault:
    if nic.down and context.peers.up.get(nic.name, 0) > context.peers.nodes / 2:
        finding = number(f"nic.{nic.name}.carrier", 0.0, "", 1.0, f"carrier of {nic.name}")
        return _Fault(0.8, finding, f"has no link on {nic.name}, its peers have")
    if not nic.flaps:
        return _NONE
    finding = number(
        f"nic.{nic.name}.carrier_changes", nic.flaps, "", 1.0, f"link changes of {nic.name}"
    )
    return _Fault(0.9, finding, f"had its link {nic.name} go down and up")


def _slow(context: Context, nic: Nic) -> _Fault:
    """A port of the same name runs faster on most nodes."""
    speeds = context.peers.speeds.get(nic.name, ())
    if nic.speed_mbps is None or len(speeds) < 3 or (nic.used or 0.0) < _IN_USE:
        return _NONE
    usual = speeds[len(speeds) // 2]
    if nic.speed_mbps > usual * (1 - context.thresholds.bandwidth_deficit):
        return _NONE
    finding = number(
        f"nic.{nic.name}.speed_mbps", nic.speed_mbps, "Mb/s", usual, f"{nic.name} runs at"
    )
    text = f"has a slow link: {nic.name} at {nic.speed_mbps:g} Mb/s, its peers at {usual:g}"
    return _Fault(0.8, finding, text)


def _bad(context: Context, nic: Nic) -> _Fault:
    limit = context.thresholds.packet_errors
    severity = 0.8 * ramp(nic.errors, limit / 10, limit)
    if severity == 0 or nic.bytes_s < _IN_USE_BYTES_S:
        return _NONE
    finding = percent(f"nic.{nic.name}.errors", nic.errors, limit, f"bad packets on {nic.name}")
    return _Fault(severity, finding, f"gets bad packets on {nic.name}")


__all__ = ["NAME", "assess", "fault"]
