"""The overview: a pane a node while they fit, else a line a node, else a map; then what happened."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from textual import on
from textual.app import ComposeResult
from textual.widgets import Input

from gpuwatch.model.view import NodeView
from gpuwatch.tui.paint import map as picture
from gpuwatch.tui.paint.log import log
from gpuwatch.tui.paint.order import worst_first
from gpuwatch.tui.paint.pane import SHORT, pane
from gpuwatch.tui.paint.plan import Plan, plan
from gpuwatch.tui.paint.spans import Line, columns
from gpuwatch.tui.paint.table import heading, row
from gpuwatch.tui.paint.timeline import timeline
from gpuwatch.tui.paint.why import of_job
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.screens.page import Page, Stage
from gpuwatch.tui.widgets.canvas import Canvas

__all__ = ["Overview"]

LEAST = 4
"""Lines that are worth a heading and the last events."""
ROOMY = 20
"""Lines that are worth the whole reason as well."""
EXAMPLES = "gpu01  state:storage,network  cause:read  gpu:fault  loss>0.1  disk>20  !compute"


class Overview(Page):
    """All nodes of the job."""

    DEFAULT_CSS = """
    Overview > #filter { display: none; height: 1; border: none; padding: 0 1; background: $panel; }
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.typed = Input(id="filter", placeholder=EXAMPLES, max_length=200)
        self._map = picture.Map((), 1, 1)

    def compose(self) -> ComposeResult:
        """Yield the regions, and the line in which a filter is typed."""
        yield from super().compose()
        yield self.typed

    def ask_filter(self) -> None:
        """Let a filter be typed, in place of the keys."""
        self.typed.display = True
        self.typed.focus()
        self.repaint()

    def clear_filter(self) -> bool:
        """Show all nodes again; tell whether there was a filter."""
        was = self.typed.display or bool(self.typed.value)
        self._leave()
        self.typed.value = ""
        return was

    def _leave(self) -> None:
        self.typed.display = False
        self.set_focus(None)
        self.repaint()

    @on(Input.Changed)
    def _typing(self, message: Input.Changed) -> None:
        self.stage.sift(message.value)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self._leave()

    def cut(self, cells: int, lines: int) -> Plan:
        """Return how high each region is, by how many nodes are shown."""
        scene = self.stage.scene
        if scene is None:
            return super().cut(cells, lines)
        nodes = self.stage.nodes()
        cut = plan(len(nodes), scene.most_gpus, cells, lines, self.bar_lines)
        if not cut.map:
            return cut
        shown = [n.name for n in self._ordered(nodes, cut)]
        parts = picture.groups(shown, self.stage.session.group)
        self._map = picture.layout(parts, scene.most_gpus, cells, cut.grid)
        grid = min(cut.grid, len(self._map.rows))
        return replace(cut, grid=grid, rest=cut.rest + cut.grid - grid)

    def _ordered(self, nodes: Sequence[NodeView], cut: Plan) -> Sequence[NodeView]:
        """Return nodes as they are drawn: lines worst first, the rest in place, unless asked."""
        scene = self.stage.scene
        worst = (cut.columns == 0 and not cut.map) != self.stage.reordered
        return worst_first(scene, nodes) if worst and scene is not None else nodes

    def heading(self, cut: Plan, cells: int) -> list[Line]:
        """Return the names of the columns, or what the letters of the map are."""
        scene = self.stage.scene
        if cut.columns or scene is None:
            return []
        if cut.map:
            return [picture.heading(scene, self.stage.nodes(), cells)]
        return [heading(cells)]

    def paint_body(self, scene: Scene, cut: Plan, cells: int) -> None:
        """Paint the nodes, and below them the chosen node and the timeline."""
        self.foot.display = not self.typed.display
        self.body.styles.height = cut.grid
        self._put(self.below, self._below(scene, cut, cells), cut.explained + cut.lanes + cut.rest)
        nodes, chosen = self._ordered(self.stage.nodes(), cut), self.stage.chosen_node()
        if cut.columns:
            rows = _panes(scene, nodes, cut, cells, chosen)
            self.body.show(self.stage.palette, len(rows), lambda y: rows[y])
            return

        @lru_cache(maxsize=256)
        def paint(y: int) -> Line:
            if cut.map:
                return picture.draw(scene, self._map, y, chosen)
            return row(scene, nodes[y], cells - 1, chosen=nodes[y].name == chosen)

        names = self.rows(cut)
        self.body.show(self.stage.palette, len(names), paint)
        self._keep_in_sight(names, chosen)

    def rows(self, cut: Plan) -> Sequence[Sequence[str]]:
        """Return the nodes' names as they are drawn, beside and below each other."""
        if cut.map:
            return [names for _, names in self._map.rows]
        names = [n.name for n in self._ordered(self.stage.nodes(), cut)]
        across = cut.columns or 1
        return [names[start : start + across] for start in range(0, len(names), across)]

    def move(self, down: int, right: int) -> None:
        """Choose the node so many rows and places further."""
        rows = self.rows(self.cut(*self.stage.size))
        chosen = self.stage.chosen_node()
        at = next((y for y, names in enumerate(rows) if chosen in names), None)
        if at is None or chosen is None:
            return
        flat = [name for names in rows for name in names]
        place = max(0, min(len(flat) - 1, flat.index(chosen) + right))
        if down:
            names = rows[max(0, min(len(rows) - 1, at + down))]
            place = flat.index(names[min(rows[at].index(chosen), len(names) - 1)])
        self.stage.choose(flat[place])

    def _keep_in_sight(self, rows: Sequence[Sequence[str]], chosen: str | None) -> None:
        place = next((y for y, names in enumerate(rows) if chosen in names), 0)
        top, height = self.body.scroll_offset.y, self.body.size.height
        if height and not top <= place < top + height:
            self.body.scroll_to(y=place - height // 2, animate=False)

    def _below(self, scene: Scene, cut: Plan, cells: int) -> list[Line]:
        rows: list[Line] = []
        chosen = scene.view.node(self.stage.chosen_node() or "")
        if cut.explained and chosen is not None:
            rows += pane(scene, chosen, cells, SHORT, chosen=True)
        if cut.lanes:
            rows += timeline(scene, cells, cut.lanes, self.stage.nodes())
        room = cut.rest
        if room >= ROOMY and scene.verdict.job.state != "COMPUTE":
            told = of_job(scene, cells - 1)[: room - LEAST - 2]
            rows += [(), *told]
            room -= len(told) + 1
        if room >= LEAST:
            rows += [(), ((" what happened", "dim"),), *log(scene)[: room - 2]]
        return rows

    @on(Canvas.Clicked, "#body")
    async def _clicked(self, message: Canvas.Clicked) -> None:
        """Choose the node that a click points at; the chosen one opens."""
        if self.stage.scene is None:
            return
        cut = self.cut(*self.stage.size)
        rows = self.rows(cut)
        y, x = message.y, 0
        if cut.columns:
            y, x = y // cut.pane, message.x // max(1, self.stage.size.width // cut.columns)
        elif cut.map:
            x = (message.x - picture.LABEL - 1) // self._map.each
        if 0 <= y < len(rows) and x >= 0:
            name = rows[y][min(x, len(rows[y]) - 1)]
            if name == self.stage.chosen_node():
                await self.app.run_action("page('detail')")
            else:
                self.stage.choose(name)


def _panes(
    scene: Scene, nodes: Sequence[NodeView], cut: Plan, cells: int, chosen: str | None
) -> list[Line]:
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
