"""The pages that are read: one node, why, events, help."""

from collections.abc import Sequence

from gpuwatch.tui.paint.detail import detail
from gpuwatch.tui.paint.guide import guide
from gpuwatch.tui.paint.log import log
from gpuwatch.tui.paint.spans import Line
from gpuwatch.tui.paint.why import why
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.screens.page import Page

__all__ = ["PAGES", "Detail", "Events", "Help", "Why"]


class Detail(Page):
    """All that is known of the chosen node."""

    def lines(self, scene: Scene, cells: int) -> Sequence[Line]:
        """Return the chosen node in full."""
        node = scene.view.node(self.stage.chosen_node() or "")
        return [] if node is None else detail(scene, node, cells)


class Why(Page):
    """The facts for and against each verdict."""

    def lines(self, scene: Scene, cells: int) -> Sequence[Line]:
        """Return every verdict explained."""
        return why(scene, cells)


class Events(Page):
    """What happened."""

    def lines(self, scene: Scene, cells: int) -> Sequence[Line]:
        """Return the incidents, newest first."""
        del cells
        return log(scene)


class Help(Page):
    """Keys, letters, words."""

    def lines(self, scene: Scene, cells: int) -> Sequence[Line]:
        """Return the help text."""
        del scene
        return self.before(cells)

    def before(self, cells: int) -> Sequence[Line]:
        """Return the help text."""
        return guide(self.stage.commands, cells)


PAGES: dict[str, type[Page]] = {"detail": Detail, "why": Why, "events": Events, "help": Help}
