"""The overview: a pane a node while they fit, else a line a node, and what happened lately."""

from collections.abc import Sequence
from functools import lru_cache

from textual import on

from gpuwatch.model.view import NodeView
from gpuwatch.tui.paint.log import log
from gpuwatch.tui.paint.pane import SHORT, pane
from gpuwatch.tui.paint.plan import Plan
from gpuwatch.tui.paint.spans import Line, columns
from gpuwatch.tui.paint.table import heading, order, row
from gpuwatch.tui.paint.timeline import timeline
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.screens.page import Page
from gpuwatch.tui.widgets.canvas import Canvas

__all__ = ["Overview"]

LEAST = 4
"""Lines that are worth a heading and the last events."""


class Overview(Page):
    """All nodes of the job."""

    def heading(self, cut: Plan, cells: int) -> list[Line]:
        """Return the names of the columns, when nodes are lines."""
        return [heading(cells)] if cut.columns == 0 and self.stage.scene is not None else []

    def paint_body(self, scene: Scene, cut: Plan, cells: int) -> None:
        """Paint the nodes, and below them the chosen node and the timeline."""
        self.body.styles.height = cut.grid
        self._put(self.below, self._below(scene, cut, cells), cut.explained + cut.lanes + cut.rest)
        if cut.columns:
            rows = _panes(scene, cut, cells, self.stage.chosen_node())
            self.body.show(self.stage.palette, len(rows), lambda y: rows[y])
        else:
            self._lines(scene, cells)

    def names(self) -> list[str]:
        """Return the nodes' names in the order that they are drawn in."""
        scene = self.stage.scene
        if scene is None:
            return []
        cut = self.cut(*self.stage.size)
        return [n.name for n in (scene.view.nodes if cut.columns else order(scene))]

    def _lines(self, scene: Scene, cells: int) -> None:
        nodes, chosen = order(scene), self.stage.chosen_node()

        @lru_cache(maxsize=256)
        def paint(y: int) -> Line:
            return row(scene, nodes[y], cells - 1, chosen=nodes[y].name == chosen)

        self.body.show(self.stage.palette, len(nodes), paint)
        self._keep_in_sight(nodes, chosen)

    def _keep_in_sight(self, nodes: Sequence[NodeView], chosen: str | None) -> None:
        place = next((i for i, n in enumerate(nodes) if n.name == chosen), 0)
        top, height = self.body.scroll_offset.y, self.body.size.height
        if height and not top <= place < top + height:
            self.body.scroll_to(y=place - height // 2, animate=False)

    def _below(self, scene: Scene, cut: Plan, cells: int) -> list[Line]:
        rows: list[Line] = []
        chosen = scene.view.node(self.stage.chosen_node() or "")
        if cut.explained and chosen is not None:
            rows += pane(scene, chosen, cells, SHORT, chosen=True)
        if cut.lanes:
            rows += timeline(scene, cells, cut.lanes)
        if cut.rest >= LEAST:
            rows += [(), ((" what happened", "dim"),), *log(scene)[: cut.rest - 2]]
        return rows

    @on(Canvas.Clicked, "#body")
    def _clicked(self, message: Canvas.Clicked) -> None:
        scene = self.stage.scene
        if scene is None:
            return
        cut = self.cut(*self.stage.size)
        names = self.names()
        place = message.y
        if cut.columns:
            wide = max(1, self.stage.size.width // cut.columns)
            place = message.y // cut.pane * cut.columns + min(message.x // wide, cut.columns - 1)
        if place < len(names):
            self.stage.choose(names[place])


def _panes(scene: Scene, cut: Plan, cells: int, chosen: str | None) -> list[Line]:
    nodes = scene.view.nodes
    rows: list[Line] = []
    wide = cells // cut.columns
    for start in range(0, len(nodes), cut.columns):
        across = nodes[start : start + cut.columns]
        widths = [wide] * len(across)
        if len(across) == cut.columns:
            widths[-1] = cells - wide * (cut.columns - 1)
        painted = [
            pane(scene, node, w, cut.pane, chosen=node.name == chosen)
            for node, w in zip(across, widths, strict=True)
        ]
        rows += [
            columns(list(zip(beside, widths, strict=True)), 0)
            for beside in zip(*painted, strict=True)
        ]
    return rows
