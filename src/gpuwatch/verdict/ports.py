"""What the causes of bad ports share: the worst port of a node, held against a rank that waits."""

from collections.abc import Iterable

import msgspec

from gpuwatch.model.verdict import Finding
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    percent,
    waiting,
    waiting_cap,
)

__all__ = ["PortFault", "assess_worst", "worst"]


_AS_BAD = 0.5
"""Share of the worst port's badness from which on another is bad as well."""


class PortFault(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with a port: how badly (0 to 1), what it is called, the fact, in words, and whose."""

    severity: float
    kind: Kind
    finding: Finding | None
    text: str
    port: str = ""


def worst(kind: Kind, faults: Iterable[PortFault]) -> PortFault:
    """Return the worst fault, of two as bad the same whatever their order; none is of `kind`.

    Where several ports are bad no single one is named, but their node.
    """
    bad = [fault for fault in faults if fault.severity > 0]
    if not bad:
        return PortFault(0.0, kind, None, "")
    found = max(bad, key=lambda fault: (fault.severity, fault.text))
    ports = {fault.port for fault in bad if fault.severity >= _AS_BAD * found.severity}
    return found if len(ports) == 1 else msgspec.structs.replace(found, port="")


def assess_worst(context: Context, found: PortFault) -> Assessment:
    """Judge one rank by its node's worst port: it counts as far as the rank waits for others."""
    if found.severity == 0:
        return NOTHING
    t, wait = context.thresholds, waiting(context)
    return assessment(
        context,
        found.kind,
        gate(wait, t) * found.severity,
        text=found.text,
        support=(found.finding, percent("wait", wait, t.lost, "GPU waits for others")),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),),
        cap=waiting_cap(context),
        place=found.port or None,
    )
