"""What may be said of the job, and whom it blames."""

from collections.abc import Sequence

import msgspec

from gpuwatch.model.verdict import Candidate, Culprit
from gpuwatch.verdict.evidence import Assessment
from gpuwatch.verdict.hysteresis import Claim
from gpuwatch.verdict.rank import Opinion, name_of
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Charge", "Unseen", "culprits_of", "of_state", "waiting_for"]


class Unseen(msgspec.Struct, frozen=True):
    """Nodes of the job without fresh samples, and how many of its ranks are on no node seen.

    `empty` are nodes that are seen and have nothing of the job.
    """

    nodes: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    ranks: int = 0
    share: float = 0.0


class Charge(msgspec.Struct, frozen=True):
    """One thing that may be said of the job: evidence, who is to blame, who waits."""

    found: Assessment
    culprits: tuple[Culprit, ...] = ()
    waiting: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()

    @property
    def claim(self) -> Claim:
        """Return what is followed over time."""
        return Claim(self.found.state, self.found.cause, self.culprits)


def culprits_of(node: Opinion) -> tuple[Culprit, ...]:
    """Name the node, or the ranks on it that stand out, or the one slow GPU or the one on a bad link."""
    if node.gpu is not None and node.ranking[0].state in ("GPU", "HOST-LINK"):
        return (Culprit("gpu", f"GPU {node.gpu} of {node.node}", (node.node,)),)
    if node.low:
        return tuple(Culprit("rank", name_of(node.node, r), (node.node,)) for r in node.low)
    return (Culprit("node", node.node, (node.node,)),)


def of_state(node: Opinion, state: str) -> Assessment | None:
    """Return the likeliest that a node says of a state; None where it says nothing of it."""
    return next((a for a in node.ranking if a.state == state), None)


def waiting_for(nodes: Sequence[Opinion], without: set[str], t: Thresholds) -> tuple[str, ...]:
    """Return the nodes that wait, but for some."""
    return tuple(n.node for n in nodes if n.node not in without and (n.wait or 0.0) >= t.lost)
