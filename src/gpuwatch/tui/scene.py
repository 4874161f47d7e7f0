"""A scene: all that one paint of any screen needs, immutable but for the past behind it."""

from dataclasses import dataclass, field
from functools import cached_property

from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.model.view import NodeView, View
from gpuwatch.tui.history import History
from gpuwatch.tui.paint.facts import Facts, facts
from gpuwatch.tui.past import Past

__all__ = ["Incident", "Scene"]


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happened: a link, a fault, a marker, a verdict that changed."""

    wall_us: int
    node: str | None
    kind: str
    text: str


@dataclass(frozen=True)
class Scene:
    """The job at one tick, as it is drawn.

    Attributes:
        title: name of the job.
        view: of this tick.
        verdict: of this tick.
        past: that is known, of which `history` draws lanes and strips.
        started_us: first tick that was seen.
        incidents: the last ones, newest first.
    """

    title: str
    view: View
    verdict: JobVerdict
    past: Past
    started_us: int
    incidents: tuple[Incident, ...] = ()
    _facts: dict[str, Facts] = field(default_factory=dict)

    @property
    def history(self) -> History:
        """Lanes and strips."""
        return self.past.history

    @cached_property
    def by_node(self) -> dict[str, Verdict]:
        """Verdicts of nodes by name."""
        return {v.node: v for v in self.verdict.nodes if v.node is not None}

    @cached_property
    def blamed(self) -> frozenset[str]:
        """Names of the nodes that the job's verdict blames."""
        return frozenset(n for c in self.verdict.job.culprits for n in c.nodes)

    @cached_property
    def most_gpus(self) -> int:
        """GPUs of the node that has most."""
        counts = (len(n.sample.rows("gpu")) for n in self.view.nodes if n.sample is not None)
        return max(counts, default=0)

    def ranks(self, name: str) -> tuple[Verdict, ...]:
        """Return the verdicts of one node's ranks."""
        return self._by_rank.get(name, ())

    @cached_property
    def _by_rank(self) -> dict[str, tuple[Verdict, ...]]:
        found: dict[str, list[Verdict]] = {}
        for verdict in self.verdict.ranks:
            found.setdefault(verdict.node or "", []).append(verdict)
        return {name: tuple(verdicts) for name, verdicts in found.items()}

    def facts(self, node: NodeView) -> Facts:
        """Return a node's numbers, worked out once."""
        known = self._facts.get(node.name)
        if known is None:
            known = self._facts[node.name] = facts(node, self.ranks(node.name))
        return known
