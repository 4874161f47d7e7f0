"""HOST-LINK/nvlink: NVLinks of a GPU are down or break, or ranks exchange over PCIe beside them.

Pairs may be bridged and others not, by design: a GPU without any link that is up is only worth a
look, one with fewer than its sibling has lost some. Copies to a GPU alone are its input, and what
adapters move for it goes over PCIe as well.
"""

from gpuwatch.agent.metric import Labels
from gpuwatch.verdict.causes import pcie
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
    waiting_cap,
)
from gpuwatch.verdict.features.host_links import Nvlink, nvlinks

NAME = Kind("HOST-LINK", "nvlink")
_QUIET_BYTES_S = 10e6
"""What NVLinks carry that are not used for an exchange."""
_PCIE = (0.05, 0.2)
"""Share of what a PCIe link carries, both ways, that an exchange over it takes."""
_NO_LINKS_CAP = 0.4
"""A GPU may be without a bridge by design."""
_BESIDE_CAP = 0.7
"""Peer-to-peer may be off for a reason."""
_NONE = (0.0, "", 0.0)


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    t, wait = context.thresholds, waiting(context)
    opened = gate(wait, t)
    links = _nvlinks(context).get(context.card or ()) if opened else None
    score, text, cap = _worst(context) if links else _NONE
    if links is None or score == 0:
        return NOTHING
    fewer = links.sibling if (links.sibling or 0) > links.up else None
    return assessment(
        context,
        NAME,
        opened * score,
        text=text,
        support=(
            number("nvlink_up", links.up, "", fewer, "NVLinks up"),
            number("nvlink.errors", links.errors_s, "/s", t.nvlink_errors, "broken or sent again"),
            number("nvlink_recoveries", links.recoveries, "", 1.0, "trained anew"),
            percent("wait", wait, t.lost, "GPU waits for others"),
        ),
        against=(percent("gpu.compute", context.gpu.shares.compute, t.compute, "GPU computes"),),
        signals=(
            Signal("nvml.nvlink_crc_errors", links.errors_s is not None, 0.05),
            Signal("nvml.power_w", context.gpu.power_w is not None, 0.3),
        ),
        cap=min(waiting_cap(context), cap),
    )


def severity(context: Context) -> float:
    """Return how bad the NVLinks of the rank's GPU are, 0 to 1."""
    score, _, cap = _worst(context)
    return min(score, cap)


@once
def _worst(context: Context) -> tuple[float, str, float]:
    links = _nvlinks(context).get(context.card or ())
    if links is None:
        return _NONE
    return max(
        _down(links), _broken(links, context.thresholds.nvlink_errors), _beside(context, links)
    )


def _down(links: Nvlink) -> tuple[float, str, float]:
    if links.sibling is None or links.up >= links.sibling:
        return _NONE
    text = f"has {links.up} NVLinks up, its siblings {links.sibling}"
    return (0.9, text, 1.0) if links.up else (0.9, text, _NO_LINKS_CAP)


def _broken(links: Nvlink, limit: float) -> tuple[float, str, float]:
    if links.recoveries:
        return 0.85, f"had NVLinks trained anew, {links.recoveries:.0f} times", 1.0
    text = f"has NVLinks that break: {links.errors_s or 0:.0f} errors a second"
    return 0.85 * ramp(links.errors_s, limit / 2, 5 * limit), text, 1.0


def _beside(context: Context, links: Nvlink) -> tuple[float, str, float]:
    """Judge an exchange that goes over PCIe where NVLinks are up and carry nothing."""
    link = pcie.links(context).get(context.card or ())
    if not links.up or links.bytes_s is None or links.bytes_s >= _QUIET_BYTES_S or link is None:
        return _NONE
    both = min(link.to_s or 0.0, link.from_s or 0.0)
    by_rdma = sum(port.bytes_s or 0.0 for port in context.host.rdma)
    if not link.bytes_s or by_rdma >= 0.2 * both or len(_nvlinks(context)) < 2:
        return _NONE
    text = f"exchanges over PCIe, {both / 1e9:.1f} GB/s each way, while its NVLinks carry nothing"
    return 0.8 * ramp(both / link.bytes_s, *_PCIE), text, _BESIDE_CAP


@once_a_node
def _nvlinks(context: Context) -> dict[Labels, Nvlink]:
    return nvlinks(context.slow)


__all__ = ["NAME", "assess", "severity"]
