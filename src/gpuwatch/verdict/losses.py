"""How much TCP loses on a node, and how much of that is only reordering."""

from gpuwatch.verdict.evidence import Context, ramp

__all__ = ["lossy", "reordering"]

_REORDERED = (0.5, 0.9)
"""Share of retransmits that the peer had already: from here on it is reordering, not loss."""


def lossy(context: Context) -> float:
    """Return how far TCP's losses are beyond what is clean, 0 to 1."""
    loss, limit = context.host.loss, context.thresholds.retransmit
    return ramp(loss.low, limit / 2, 2 * limit) if loss else 0.0


def reordering(context: Context) -> float:
    """Return how surely retransmits come from reordering, 0 to 1."""
    loss = context.host.loss
    return ramp(loss.reordered, *_REORDERED) if loss else 0.0
