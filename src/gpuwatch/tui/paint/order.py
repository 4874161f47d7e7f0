"""In which order nodes are drawn: as the job names them, or the worst first."""

from collections.abc import Iterable

from gpuwatch.model.view import NodeView
from gpuwatch.tui.paint.pane import trouble
from gpuwatch.tui.scene import Scene

__all__ = ["worst_first"]

GRADES = {"PEER": 4, "STARTUP": 5, "UNKNOWN": 5, "IDLE": 6, "COMPUTE": 7}
"""What comes last, in this order; any other state is a wait of the node's own."""


def worst_first(scene: Scene, nodes: Iterable[NodeView] | None = None) -> tuple[NodeView, ...]:
    """Return nodes: those to blame, those without data, those that wait, then the rest.

    Nodes that are alike stay as the job names them, so that a node moves only when its state does.
    """

    def grade(node: NodeView) -> int:
        if node.name in scene.blamed:
            return 0
        if trouble(node):
            return 1
        verdict = scene.by_node.get(node.name)
        return 5 if verdict is None else GRADES.get(verdict.state, 2)

    return tuple(sorted(scene.view.nodes if nodes is None else nodes, key=grade))
