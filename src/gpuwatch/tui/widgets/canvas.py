"""The one widget: lines of spans drawn by the line API, only those that are seen.

A widget costs far more than a line, so a region of the screen is one canvas, whatever it shows.
The canvas is also the last door before the terminal: no text leaves it that is not printable.
"""

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuwatch.tui.paint.spans import Line, safe
from gpuwatch.tui.theme import Palette

__all__ = ["Canvas"]


class Canvas(ScrollView, can_focus=False):
    """Draws what it was last shown."""

    DEFAULT_CSS = """
    Canvas { background: $background; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0;
             overflow-x: hidden; scrollbar-background: $background;
             scrollbar-background-hover: $background; scrollbar-color: $panel; }
    Canvas.still { overflow-y: hidden; }
    """

    class Clicked(Message):
        """A line was clicked.

        Attributes:
            canvas: which.
            x: cell, from the left.
            y: line of the picture, from its top.
        """

        def __init__(self, canvas: "Canvas", x: int, y: int) -> None:
            super().__init__()
            self.canvas = canvas
            self.x = x
            self.y = y

        @property
        def control(self) -> "Canvas":
            """The canvas, for selectors."""
            return self.canvas

    def __init__(self, *, id: str, classes: str = "") -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id, classes=classes)
        self._paint: Callable[[int], Line] = _nothing
        self._palette: Palette | None = None

    def show(self, palette: Palette, height: int, paint: Callable[[int], Line]) -> None:
        """Draw a picture from now on.

        Args:
            palette: what roles look like.
            height: lines of the picture.
            paint: returns one line; called for those that are seen.
        """
        self._palette = palette
        self._paint = paint
        size = Size(max(1, self.size.width), height)
        if size != self.virtual_size:
            self.virtual_size = size
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of the region."""
        cells = self.size.width
        palette = self._palette
        if palette is None:
            return Strip.blank(cells)
        place = y + self.scroll_offset.y
        ground = palette.style("text")
        if place >= self.virtual_size.height:
            return Strip.blank(cells, ground)
        segments = [
            Segment(_printable(text), palette.style(role)) for text, role in self._paint(place)
        ]
        return Strip(segments).adjust_cell_length(cells, _plain(ground))

    def on_click(self, event: events.Click) -> None:
        """Tell which line was clicked."""
        self.post_message(self.Clicked(self, event.x, event.y + self.scroll_offset.y))


def _printable(text: str) -> str:
    return text if text.isprintable() else safe(text, len(text))


def _plain(style: Style) -> Style:
    return Style(color=style.color, bgcolor=style.bgcolor)


def _nothing(_: int) -> Line:
    return ()
