"""The pages that are read: one node, why, ledger, events, help."""

from collections.abc import Sequence

from gpuwatch.tui.paint.detail import detail
from gpuwatch.tui.paint.guide import guide
from gpuwatch.tui.paint.ledger import ledger
from gpuwatch.tui.paint.log import log
from gpuwatch.tui.paint.spans import Line
from gpuwatch.tui.paint.why import why
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.screens.page import Page
from gpuwatch.tui.screens.timeline import Timeline

__all__ = ["PAGES", "Books", "Detail", "Events", "Help", "Why"]


class Detail(Page):
    """All that is known of the chosen node."""

    NAME = "detail"

    def lines(self, scene: Scene, cells: int) -> Sequence[Line]:
        """Return the chosen node in full."""
        node = scene.view.node(self.stage.chosen_node() or "")
        return [] if node is None else detail(scene, node, cells)


class Why(Page):
    """The facts for and against each verdict."""

    NAME = "why"

    def lines(self, scene: Scene, cells: int) -> Sequence[Line]:
        """Return every verdict explained."""
        return why(scene, cells)


class Books(Page):
    """What the GPU time went into."""

    NAME = "ledger"

    def lines(self, scene: Scene, cells: int) -> Sequence[Line]:
        """Return the ledger so far."""
        past = scene.past
        booked, hours = past.ledger()
        return ledger(booked, hours, past.gpu_hour, cells, whole=past.whole)


class Events(Page):
    """What happened."""

    NAME = "events"

    def lines(self, scene: Scene, cells: int) -> Sequence[Line]:
        """Return the incidents, newest first."""
        del cells
        return log(scene)


class Help(Page):
    """Keys, letters, words."""

    NAME = "help"

    def lines(self, scene: Scene, cells: int) -> Sequence[Line]:
        """Return the help text."""
        del scene
        return self.before(cells)

    def before(self, cells: int) -> Sequence[Line]:
        """Return the help text."""
        return guide(self.stage.commands, cells)


PAGES: dict[str, type[Page]] = {
    page.NAME: page for page in (Detail, Why, Timeline, Books, Events, Help)
}
