"""HOST-LINK/pcie: a GPU's PCIe link is narrower or slower than it could be, or full.

A link falls to its lowest generation while its GPU idles, slots differ by design, and virtual
machines make numbers up: only a link that is so all the time, on a GPU at work, below what it could
be and below its siblings, is bad. It costs no more time than it is in use: where its bytes are not read
nothing is said. Traffic of adapters that reach into GPU memory is an exchange, not copying.
"""

from gpuwatch.agent.metric import Labels
from gpuwatch.verdict.evidence import (
    NOTHING,
    Assessment,
    Context,
    Kind,
    Signal,
    assessment,
    gate,
    number,
    once,
    once_a_node,
    percent,
    ramp,
    waiting,
)
from gpuwatch.verdict.features.host_links import Pcie, pcies

NAME = Kind("HOST-LINK", "pcie")
_REACHED = 0.8
"""Share of what a link carries that copies reach at best: headers and turns take the rest."""
_FULL = (0.4, 0.7)
"""Share of time that a link in order is in use at its best, from which it is what is waited for."""
_LIES = 1.05
"""No link carries more than it can: then its width or generation is not what it tells."""
_ALIKE_CAP = 0.5
"""All of the node's GPUs are so, or it has one: a slot, a virtual machine, a setting."""
_FULL_CAP = 0.7
"""What is copied may be meant to be."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    score, cap = _judged(context)
    link = links(context).get(context.card or ()) if score else None
    if link is None:
        return NOTHING
    t, best, lost = context.thresholds, _best(link), _lost(context)
    used = f", {min(1.0, link.used or 0.0) * 100:.0f} % in use"
    if link.replays_min and link.replays_min >= t.pcie_replays:
        used = f", {link.replays_min:.0f} packets sent again a minute{used}"
    usual = "" if best == (link.gen, link.width) else f", which could be gen {best[0]} x{best[1]}"
    return assessment(
        context,
        NAME,
        0.95 * score,
        text=f"waits for its PCIe link: gen {link.gen} x{link.width}{usual}{used}",
        support=(
            number("pcie_width", link.width, "", _above(best[1], link.width), "PCIe lanes"),
            number("pcie_gen", link.gen, "", _above(best[0], link.gen), "PCIe generation"),
            percent("pcie.used", link.used, _FULL[1], "PCIe link in use"),
            number("pcie_replays", link.replays_min, "/min", t.pcie_replays, "packets sent again"),
            percent("lost", lost, t.lost, "GPU starved or waits"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(Signal("nvml.pcie_replays", link.replays_min is not None, 0.05),),
        cap=cap,
    )


def severity(context: Context) -> float:
    """Return how surely the rank waits for its GPU's PCIe link, 0 to 1."""
    return min(_judged(context))


def _lost(context: Context) -> float:
    return max(context.gpu.shares.starved, waiting(context))


@once
def _judged(context: Context) -> tuple[float, float]:
    """Return how surely the link is waited for, and the confidence that is possible at most."""
    t, lost = context.thresholds, _lost(context)
    opened = gate(lost, t) if lost else 0.0
    link = links(context).get(context.card or ()) if opened else None
    if link is None or link.used is None or link.used > _LIES:
        return 0.0, 0.0
    if (context.gpu.util or 0.0) < t.gpu_idle:
        return 0.0, 0.0
    slow = _slow(link)
    replays = ramp(link.replays_min, t.pcie_replays / 2, 4 * t.pcie_replays)
    if slow or replays:
        explained = min(1.0, link.used / _REACHED / lost)
        cap = 1.0 if _alone(link) or replays else _ALIKE_CAP
        return opened * max(slow, 0.8 * replays) * explained, cap
    full = ramp(link.used, *_FULL) * (1 - _exchanged(context, link))
    return 0.8 * gate(context.gpu.shares.starved, t) * full, _FULL_CAP


def _slow(link: Pcie) -> float:
    """Return how far a link is below what it could be, 0 to 1: half of it is 1."""
    if not link.steady:
        return 0.0
    best = _best(link)
    width, gen = link.width / best[1], 0.5 ** (best[0] - link.gen)
    return ramp(1 - width * gen, 0.0, 0.5)


def _best(link: Pcie) -> tuple[int, int]:
    """Return generation and width that the link could have; a slot of less is not at fault."""
    gens, widths = (link.gen, link.gen_max), (link.width, link.width_max)
    return max(g for g in gens if g is not None), max(w for w in widths if w is not None)


def _above(best: int, now: int) -> int | None:
    """Return what a link could have, where that is more than it has."""
    return best if best > now else None


def _alone(link: Pcie) -> bool:
    """Tell whether a sibling has a better link."""
    return (link.gen_sibling or 0) > link.gen or (link.width_sibling or 0) > link.width


def _exchanged(context: Context, link: Pcie) -> float:
    """Return how surely what goes over the link is an exchange by adapters, 0 to 1."""
    moved = max(link.to_s or 0.0, link.from_s or 0.0)
    by_rdma = sum(port.bytes_s or 0.0 for port in context.host.rdma)
    return ramp(by_rdma / moved, 0.2, 0.6) if moved else 0.0


@once_a_node
def links(context: Context) -> dict[Labels, Pcie]:
    """Return the PCIe links of all GPUs of the node."""
    return pcies(context.fast, context.slow)


__all__ = ["NAME", "assess", "links", "severity"]
