"""The timeline: what each node and rank waited for, and when; the same live and replayed."""

from collections.abc import Sequence
from functools import lru_cache

from textual import on

from gpuwatch.tui.history import Key
from gpuwatch.tui.paint.lanes import ZOOMS, Sight, closest, facts, nodes_of, row, scale, sight
from gpuwatch.tui.paint.log import log
from gpuwatch.tui.paint.plan import Plan
from gpuwatch.tui.paint.spans import Line
from gpuwatch.tui.paint.timeline import LABEL
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.screens.page import Page, Stage
from gpuwatch.tui.widgets.canvas import Canvas

__all__ = ["Timeline"]

FACTS = 8
"""Lines of what was where the cursor stands, where there is room."""
LEAST = 4
WIDEST = 2
"""Of the zooms, the coarsest that the page begins with."""
FIXED = 3
"""Lines of the scale and the job's lane."""


class Timeline(Page):
    """Lanes of the job, its nodes and ranks, with a cursor through all."""

    NAME = "timeline"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._zoom: int | None = None
        self._cursor_us: int | None = None
        self._shown: Sequence[Key] = ()

    def heading(self, cut: Plan, cells: int) -> list[Line]:
        """Return the scale and the job's lane."""
        del cut
        scene = self.stage.scene
        return [] if scene is None else scale(scene, self._sight(scene, cells))

    def paint_body(self, scene: Scene, cut: Plan, cells: int) -> None:
        """Paint the lanes, and below them what was where the cursor stands."""
        lines = self.stage.size.height - cut.answer - 2 - self.bar_lines - FIXED
        room = lines - (FACTS if lines >= 2 * FACTS else LEAST)
        seen, chosen = self._sight(scene, cells), self.stage.chosen_node()
        keys = self._shown = self._keys(scene, room)

        @lru_cache(maxsize=256)
        def paint(y: int) -> Line:
            return row(scene, seen, keys[y], chosen=keys[y] == (chosen,))

        shown = min(len(keys), room)
        self.body.styles.height = shown
        self.body.show(self.stage.palette, len(keys), paint)
        self._keep_in_sight(keys, chosen)
        top = self.body.scroll_offset.y
        seen_keys = keys[top : top + shown]
        left = lines - shown
        below = facts(scene, seen, seen_keys, chosen, cells, min(left, FACTS))
        if left >= FACTS + LEAST:
            below += [((" what happened", "dim"),), *log(scene)]
        self._put(self.below, below[:left], left)

    def move(self, down: int, right: int) -> None:
        """Choose another lane, or move the cursor through time."""
        scene = self.stage.scene
        if scene is None:
            return
        if down:
            names = [n.name for n in self.stage.nodes()]
            chosen = self.stage.chosen_node()
            if chosen in names:
                self.stage.choose(names[max(0, min(len(names) - 1, names.index(chosen) + down))])
            return
        bucket_us = ZOOMS[self._zoom or 0] * 1_000_000
        now = scene.view.now_us
        was = now if self._cursor_us is None else self._cursor_us
        there = (was // bucket_us + right) * bucket_us + bucket_us // 2
        last = max(now, scene.history.until_us)
        self._cursor_us = None if there >= last else there
        self.repaint()

    @on(Canvas.Clicked, "#body")
    def _clicked(self, message: Canvas.Clicked) -> None:
        """Put the cursor where a click points at: on a node, at a moment."""
        scene = self.stage.scene
        if scene is None or not 0 <= message.y < len(self._shown):
            return
        seen = self._sight(scene, self.stage.size.width)
        if message.x > LABEL:
            there = seen.moment(message.x - LABEL - 1)
            self._cursor_us = None if there >= scene.history.until_us else there
        self.stage.choose(self._shown[message.y][0])

    def action_zoom(self, step: int) -> None:
        """Look at a longer or a shorter time."""
        self._zoom = max(0, min(len(ZOOMS) - 1, (self._zoom or 0) + step))
        self.repaint()

    def action_go_there(self) -> None:
        """Play from where the cursor stands."""
        scene = self.stage.scene
        if scene is not None and self._cursor_us is not None:
            there, self._cursor_us = self._cursor_us, None
            self.stage.seek(scene.view.wall_us + there - scene.view.now_us)

    def _sight(self, scene: Scene, cells: int) -> Sight:
        if self._zoom is None:
            self._zoom = closest(scene, WIDEST, cells)
        return sight(scene, ZOOMS[self._zoom], self._cursor_us, cells)

    def _keys(self, scene: Scene, room: int) -> Sequence[Key]:
        names = [n.name for n in self.stage.nodes()]
        return nodes_of(scene, names, self.stage.chosen_node(), room)

    def _keep_in_sight(self, keys: Sequence[Key], chosen: str | None) -> None:
        place = next((i for i, key in enumerate(keys) if key == (chosen,)), 0)
        top, height = self.body.scroll_offset.y, self.body.size.height
        if height and not top <= place < top + height:
            self.body.scroll_to(y=place - height // 2, animate=False)
