"""What all pages share: the answer on top, a body that scrolls, the keys at the bottom."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.geometry import Size
from textual.screen import Screen

from gpuwatch.model.view import NodeView
from gpuwatch.tui.commands import Command
from gpuwatch.tui.paint.answer import answer, header
from gpuwatch.tui.paint.bar import footer, pointed_at, too_small, transport
from gpuwatch.tui.paint.plan import MIN_HEIGHT, MIN_WIDTH, Plan, plan
from gpuwatch.tui.paint.spans import Line
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.session import Session
from gpuwatch.tui.theme import Palette
from gpuwatch.tui.widgets.canvas import Canvas

__all__ = ["Page", "Stage"]


ANSWER = 3
"""Lines of the answer on pages that are about something else: what and who, since when."""


class Stage(Protocol):
    """What a page asks of the app."""

    session: Session
    scene: Scene | None
    reordered: bool

    @property
    def palette(self) -> Palette:
        """What roles look like now."""

    @property
    def commands(self) -> list[Command]:
        """The commands that there are."""

    @property
    def size(self) -> Size:
        """Size of the terminal."""

    def mode(self) -> Line:
        """Return what the screen itself does."""

    def nodes(self) -> Sequence[NodeView]:
        """Return the nodes that the filter shows, as the job names them."""

    def sift(self, text: str) -> None:
        """Show only the nodes that a filter shows."""

    def seek(self, wall_us: int) -> None:
        """Go to a moment, where a recording is played."""

    def choose(self, node: str) -> None:
        """Put the cursor on a node."""

    def chosen_node(self) -> str | None:
        """Return the name of the node that the cursor is on."""


class Page(Screen[None]):
    """A page whose body is lines; subclasses say which.

    Attributes:
        NAME: of the page, for commands that only it has.
    """

    NAME: ClassVar[str] = ""
    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    Page { layout: vertical; background: $background; }
    Page > #body { height: 1fr; }
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.top = Canvas(id="top", classes="still")
        self.body = Canvas(id="body")
        self.below = Canvas(id="below", classes="still")
        self.bar = Canvas(id="bar", classes="still")
        self.foot = Canvas(id="foot", classes="still")

    def compose(self) -> ComposeResult:
        """Yield the regions, from top to bottom."""
        yield from (self.top, self.body, self.below, self.bar, self.foot)

    def on_screen_resume(self) -> None:
        """Paint what changed while another page was on top; a new page is painted once it has a size."""
        if self.top.size:
            self.repaint()

    def on_resize(self) -> None:
        """Cut the screen anew; at first, what is known may be only the job's name."""
        self.repaint()

    def lines(self, scene: Scene, cells: int) -> Sequence[Line]:
        """Return the body."""
        raise NotImplementedError

    def before(self, cells: int) -> Sequence[Line]:
        """Return the body while there is no scene yet."""
        del cells
        return [((" waits for the first samples", "dim"),)]

    def repaint(self) -> None:
        """Paint every region from the scene that the app shows now."""
        cells, lines = self.stage.size
        small = cells < MIN_WIDTH or lines < MIN_HEIGHT
        for canvas in (self.body, self.foot):
            canvas.display = not small
        self.bar.display = not small and self.bar_lines > 0
        if small:
            self.below.display = False
            self._put(self.top, [too_small(cells, lines, (MIN_WIDTH, MIN_HEIGHT))], lines)
            return
        cut = self.cut(cells, lines)
        self._put(self.top, self._top(cut, cells), None)
        self._put(self.foot, [footer(self._keys_shown(), cells)], None)
        scene = self.stage.scene
        if scene is None:
            self.below.display = False
            self._fill(self.before(cells - 1))
            return
        self._put_bar(scene, cells)
        self.paint_body(scene, cut, cells)

    @property
    def bar_lines(self) -> int:
        """Lines of the transport's bar."""
        return 0 if self.stage.session.transport is None else 1

    def _keys_shown(self) -> list[Command]:
        """Return the commands of the footer, the page's own first."""
        own = [c for c in self.stage.commands if c.foot and c.page in ("", self.NAME)]
        return sorted(own, key=lambda c: c.page == "")

    def cut(self, cells: int, lines: int) -> Plan:
        """Return how high each region is."""
        scene = self.stage.scene
        nodes = self.stage.session.nodes if scene is None else scene.view.nodes
        cut = plan(
            len(nodes), 0 if scene is None else scene.most_gpus, cells, lines, self.bar_lines
        )
        return replace(cut, answer=min(ANSWER, cut.answer))

    def paint_body(self, scene: Scene, cut: Plan, cells: int) -> None:
        """Paint the regions between the answer and the keys."""
        del cut
        self.below.display = False
        self._fill(self.lines(scene, cells - 1))

    def heading(self, cut: Plan, cells: int) -> list[Line]:
        """Return lines between the answer and the body, which do not scroll."""
        del cut, cells
        return []

    def move(self, down: int, right: int) -> None:
        """Scroll by so many lines."""
        del right
        self.body.scroll_to(y=self.body.scroll_offset.y + down, animate=False)

    @on(Canvas.Clicked, "#foot")
    async def _key_clicked(self, message: Canvas.Clicked) -> None:
        """Do what a click in the footer points at."""
        command = pointed_at(self._keys_shown(), self.stage.size.width, message.x)
        if command is not None:
            await self.app.run_action(command.action)

    def text(self) -> str:
        """Return what is on the page as text."""
        shown = [canvas for canvas in self.query(Canvas) if canvas.display]
        return "\n".join(line for canvas in shown for line in canvas.text()) + "\n"

    def _top(self, cut: Plan, cells: int) -> list[Line]:
        stage, scene = self.stage, self.stage.scene
        rows = [header(scene, stage.session.title, stage.mode(), cells)]
        if scene is not None:
            rows += answer(scene, cells, cut.answer)
        return [*rows, *self.heading(cut, cells)]

    def _put_bar(self, scene: Scene, cells: int) -> None:
        deck = self.stage.session.transport
        if deck is not None:
            line = transport(scene, deck.span, deck.speed, paused=deck.paused, cells=cells)
            self._put(self.bar, [line], None)

    def _fill(self, rows: Sequence[Line]) -> None:
        self.body.show(self.stage.palette, len(rows), lambda y: rows[y])

    def _put(self, canvas: Canvas, rows: Sequence[Line], height: int | None) -> None:
        tall = len(rows) if height is None else height
        canvas.display = tall > 0
        canvas.styles.height = tall
        canvas.show(self.stage.palette, len(rows), lambda y: rows[y])
