"""The one widget: lines of spans drawn by the line API, only those that are seen.

A widget costs far more than a line, so a region of the screen is one canvas, whatever it shows.
The canvas is also the last door before the terminal: no text leaves it that is not printable.
"""

from collections.abc import Callable

from rich.segment import Segment
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuwatch.tui.paint.spans import Line, changed
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
        self._drawn: dict[int, Line] = {}

    def show(self, palette: Palette, height: int, paint: Callable[[int], Line]) -> None:
        """Draw a picture from now on; only what changed is sent to the terminal.

        Args:
            palette: what roles look like.
            height: lines of the picture.
            paint: returns one line; called for those that are seen.
        """
        before, self._drawn = self._drawn, {}
        self._paint = paint
        size = Size(max(1, self.size.width), height)
        if size != self.virtual_size or palette is not self._palette:
            self._palette = palette
            self.virtual_size = size
            self.refresh()
            return
        for place, line in before.items():
            cells = changed(line, self._line(place))
            if cells:
                self.refresh(Region(0, place - self.scroll_offset.y, cells, 1))

    def text(self) -> list[str]:
        """Return the lines that are seen, as text."""
        return [self.render_line(y).text.rstrip() for y in range(self.size.height)]

    def render_line(self, y: int) -> Strip:
        """Return one line of the region."""
        cells = self.size.width
        palette = self._palette
        if palette is None:
            return Strip.blank(cells)
        segments = _segments(self._line(y + self.scroll_offset.y), palette)
        return Strip(segments).adjust_cell_length(cells, palette.ground)

    def _line(self, place: int) -> Line:
        """Return a line of the picture, painted once; below the picture it is empty."""
        line = self._drawn.get(place)
        if line is None:
            line = self._paint(place) if place < self.virtual_size.height else ()
            self._drawn[place] = line
        return line

    def on_resize(self) -> None:
        """Draw anew: lines were cut for another width."""
        self._drawn = {}
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Forget lines that went out of sight; those that came are drawn anyway."""
        if round(old_value) != round(new_value):
            self._drawn = {}
        super().watch_scroll_y(old_value, new_value)

    def on_click(self, event: events.Click) -> None:
        """Tell which line was clicked."""
        self.post_message(self.Clicked(self, event.x, event.y + self.scroll_offset.y))


def _segments(line: Line, palette: Palette) -> list[Segment]:
    """Return a line's segments, neighbours that look alike in one: each costs 40 bytes to style."""
    segments: list[Segment] = []
    for text, role in line:
        style = palette.style(role)
        if segments:
            last = segments[-1]
            if last.style == style or (text.isspace() and palette.blank_alike(last.style, style)):
                segments[-1] = Segment(last.text + palette.letters(text), last.style)
                continue
        segments.append(Segment(palette.letters(text), style))
    return segments


def _nothing(_: int) -> Line:
    return ()
