"""Whether a mount's server is asked for names and attributes, rather than for data."""

from gpuwatch.verdict.evidence import Context, once_a_node, ramp
from gpuwatch.verdict.features.metadata import Metadata, metadata

__all__ = ["ENOUGH_OPS_S", "MOST", "asked_for_names", "names"]

ENOUGH_OPS_S = 200.0
"""Requests a second from which on they count; caches of attributes are asked anew now and then."""
MOST = 0.8
"""Share of the time of all requests that those for metadata take, from which on they are it."""
_UNDER_WAY = (0.3, 0.8)
"""Requests at a time: with less than one, hardly a thread waits for them."""


@once_a_node
def names(context: Context) -> Metadata | None:
    """Return what is asked for beside data, of the mount where that takes most time."""
    return metadata(context.fast)


@once_a_node
def asked_for_names(context: Context) -> float:
    """Return how surely that is what mounts are busy with, 0 to 1."""
    seen = names(context)
    if seen is None:
        return 0.0
    many = ramp(seen.ops_s, ENOUGH_OPS_S / 10, ENOUGH_OPS_S)
    return many * ramp(seen.share, 0.5, MOST) * ramp(seen.under_way, *_UNDER_WAY)
