"""NETWORK/link: a port went down and up, runs below its peers' speed, or gets bad packets."""

from gpuwatch.verdict.evidence import Assessment, Context, Kind, number, once_a_node, percent, ramp
from gpuwatch.verdict.features import Nic
from gpuwatch.verdict.ports import PortFault, assess_worst, worst

NAME = Kind("NETWORK", "link")
_IN_USE_BYTES_S = 1e6
"""A bad port that carries less than this is not the job's."""
_IN_USE = 0.1
"""Nor is a slow one that is used less: what holds up a job is full at least at times."""


def fault(context: Context) -> float:
    """Return how bad the worst port is, 0 to 1."""
    return _worst(context).severity


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    return assess_worst(context, _worst(context))


@once_a_node
def _worst(context: Context) -> PortFault:
    looks = (_flapping, _slow, _bad)
    return worst(NAME, (look(context, nic) for nic in context.host.nics for look in looks))


_NONE = PortFault(0.0, NAME, None, "")


def _flapping(context: Context, nic: Nic) -> PortFault:
    if nic.down and context.peers.up.get(nic.name, 0) > context.peers.nodes / 2:
        finding = number(f"nic.{nic.name}.carrier", 0.0, "", 1.0, f"carrier of {nic.name}")
        return PortFault(0.8, NAME, finding, f"has no link on {nic.name}, its peers have", nic.name)
    if not nic.flaps:
        return _NONE
    finding = number(
        f"nic.{nic.name}.carrier_changes", nic.flaps, "", 1.0, f"link changes of {nic.name}"
    )
    return PortFault(0.9, NAME, finding, f"had its link {nic.name} go down and up", nic.name)


def _slow(context: Context, nic: Nic) -> PortFault:
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
    return PortFault(0.8, NAME, finding, text, nic.name)


def _bad(context: Context, nic: Nic) -> PortFault:
    limit = context.thresholds.packet_errors
    severity = 0.8 * ramp(nic.errors, limit / 10, limit)
    if severity == 0 or nic.bytes_s < _IN_USE_BYTES_S:
        return _NONE
    finding = percent(f"nic.{nic.name}.errors", nic.errors, limit, f"bad packets on {nic.name}")
    return PortFault(severity, NAME, finding, f"gets bad packets on {nic.name}", nic.name)


__all__ = ["NAME", "assess", "fault"]
