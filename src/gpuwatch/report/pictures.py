"""Pictures over time as SVG, drawn by matplotlib, in colours that the page's style decides.

Matplotlib is given numbers and words of our own only: names of nodes and mounts are put beside its
drawing as text of the page, so no name is ever laid out or parsed by it (`$` begins a formula
there). Inks are drawn in stand-in colours, which become variables of CSS.
"""

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple
from xml.etree.ElementTree import Element, fromstring

from gpuwatch.errors import InputError
from gpuwatch.report.markup import el
from gpuwatch.report.palette import INKS, variable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DASHES", "Band", "Lane", "Line", "Shade", "Span", "lanes", "lines", "needed"]

INSTALL = "uv tool install 'gpuwatch-tui[html]'"
WIDTH, LEFT, RIGHT = 960.0, 112.0, 12.0
"""Of every picture, in points: times stand below each other."""
LANE = 20.0
"""Height of a lane."""
LETTER = 12.0
"""Width from which on a piece of a lane has its letter."""
AXIS = 26.0
PANEL, HEAD = 148.0, 6.0
"""Height of a picture of lines, and of what is free above them."""
TICKS = 9
_STEPS_S = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
)
_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
DASHES = len(_DASHES)
"""Ways to draw a line that stands out; whoever comes later has the last."""
_STAND_IN = {ink: f"#0101{number:02x}" for number, ink in enumerate(INKS, 16)}
_INK_OF = {colour: ink for ink, colour in _STAND_IN.items()}
_COLOUR = re.compile(r"#0101[0-9a-f]{2}")


class Span(NamedTuple):
    """The time of a picture."""

    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end - self.begin).total_seconds()

    def x(self, seconds: float) -> float:
        """Return where an instant is drawn, in points from the left."""
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / self.seconds


class Shade(NamedTuple):
    """A time that is shaded: seconds from the start, and the ink."""

    begin_s: float
    end_s: float
    ink: str


class Lane(NamedTuple):
    """A row of states: pieces of seconds from the start, ink and letter."""

    name: str
    strong: bool
    pieces: tuple[tuple[float, float, str, str], ...]


class Line(NamedTuple):
    """A line: values at seconds from the start, None where nothing was read.

    `dash` is its number among those that stand out; None: it is one of the others.
    """

    points: tuple[tuple[float, float | None], ...]
    ink: str
    dash: int | None


class Band(NamedTuple):
    """The range of many lines: lowest, middle and highest at seconds from the start."""

    points: tuple[tuple[float, tuple[float, float, float] | None], ...]
    ink: str


def needed() -> None:
    """Ask whether what draws is there, before anything is read for it.

    Raises:
        InputError: it is not installed.
    """
    if find_spec("matplotlib") is None:
        raise InputError("--html: pictures need matplotlib", f"run: {INSTALL}")


def lanes(rows: Sequence[Lane], span: Span, title: str) -> Element:
    """Return a picture of lanes.

    Args:
        rows: from top to bottom.
        span: of time.
        title: for those who cannot see it.
    """
    with _plain(title):
        return _lanes(rows, span, title)


def _lanes(rows: Sequence[Lane], span: Span, title: str) -> Element:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    height = LANE * len(rows) + AXIS
    figure, axes = _drawing(height, 0.0, span)
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    boxes: dict[str, list[Path]] = {}
    for number, row in enumerate(rows):
        for begin_s, end_s, ink, _ in row.pieces:
            corners = [(begin_s, number + 0.1), (end_s, number + 0.1), (end_s, number + 0.9),
                       (begin_s, number + 0.9)]  # fmt: skip
            boxes.setdefault(ink, []).append(Path([*corners, corners[0]], closed=True))
    for ink, paths in sorted(boxes.items()):
        axes.add_patch(
            PathPatch(Path.make_compound_path(*paths), facecolor=_STAND_IN[ink], linewidth=0)
        )
    labels = [label for number, row in enumerate(rows) for label in _labels(row, number, span)]
    return _svg(figure, height, title, labels)


def lines(
    drawn: Sequence[Line],
    span: Span,
    title: str,
    *,
    band: Band | None = None,
    shades: Iterable[Shade] = (),
    limit: float | None = None,
    top: float | None = None,
) -> Element:
    """Return a picture of lines.

    Args:
        drawn: the later above the earlier.
        span: of time.
        title: for those who cannot see it.
        band: below all lines.
        shades: times that are shaded.
        limit: a threshold, drawn as a dashed line.
        top: of the scale; None: of the values.
    """
    with _plain(title):
        figure, axes = _drawing(PANEL, HEAD, span)
        _fill_in(axes, drawn, band, shades, limit)
        highest = max(v for v in (0.0, *_values(drawn, band)) if v is not None)
        axes.set_ylim(0, top or max(highest, limit or 0.0) * 1.08 or 1.0)
        axes.locator_params(axis="y", nbins=4)
        axes.grid(axis="y", color=_STAND_IN["rail"], linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        return _svg(figure, PANEL, title, [])


def _fill_in(
    axes: "Axes",
    drawn: Sequence[Line],
    band: Band | None,
    shades: Iterable[Shade],
    limit: float | None,
) -> None:
    """Draw all that a picture of lines shows, from back to front."""
    for shade in shades:
        axes.axvspan(shade.begin_s, shade.end_s, color=_STAND_IN[shade.ink], alpha=0.1, linewidth=0)
    if limit is not None:
        axes.axhline(limit, color=_STAND_IN["dim"], linewidth=1, linestyle=(0, (4, 3)))
    if band is not None:
        _fill(axes, band)
    for line in drawn:
        _draw(axes, line)


def _values(drawn: Sequence[Line], band: Band | None) -> Iterable[float | None]:
    """Yield every value that a picture must have room for."""
    yield from (value for line in drawn for _, value in line.points)
    yield from (range_[2] for _, range_ in (band.points if band else ()) if range_ is not None)


def _fill(axes: "Axes", band: Band) -> None:
    """Draw a range and its middle."""
    times = [at for at, _ in band.points]
    low, middle, high = zip(*(found or (math.nan,) * 3 for _, found in band.points), strict=True)
    colour = _STAND_IN[band.ink]
    axes.fill_between(times, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(times, middle, color=colour, linewidth=1.0)


def _draw(axes: "Axes", line: Line) -> None:
    """Draw a line; a reading that stands alone is a dot."""
    times = [at for at, _ in line.points]
    values = [math.nan if value is None else value for _, value in line.points]
    alone = [
        number
        for number, value in enumerate(values)
        if not math.isnan(value)
        and all(
            map(math.isnan, values[max(0, number - 1) : number] + values[number + 1 : number + 2])
        )
    ]
    axes.plot(
        times,
        values,
        color=_STAND_IN[line.ink],
        linewidth=1.0 if line.dash is None else 1.8,
        linestyle="-" if line.dash is None else _DASHES[line.dash],
        solid_joinstyle="round",
        marker=".",
        markersize=2.5,
        markevery=alone,
    )


@contextmanager
def _plain(title: str) -> Iterator[None]:
    """Draw as nobody's matplotlibrc says, the same each time, with text as text."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {"svg.fonttype": "none", "svg.hashsalt": title, "text.parse_math": False}
        )
        yield


def _drawing(height: float, head: float, span: Span) -> "tuple[Figure, Axes]":
    """Return an empty drawing whose horizontal axis is the time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    figure.patch.set_visible(False)
    axes = figure.add_axes(
        (LEFT / WIDTH, AXIS / height, (WIDTH - LEFT - RIGHT) / WIDTH, 1 - (AXIS + head) / height)
    )
    axes.patch.set_visible(False)
    axes.set_xlim(0, span.seconds)
    at = _ticks(span)
    axes.set_xticks(list(at), list(at.values()))
    axes.tick_params(length=0, pad=6, labelsize=11, colors=_STAND_IN["dim"])
    axes.spines[:].set_color(_STAND_IN["faint"])
    return figure, axes


def _ticks(span: Span) -> Mapping[float, str]:
    """Return round times, as seconds from the start, with their words."""
    step = next((s for s in _STEPS_S if span.seconds / s <= TICKS), None)
    step = step or 86400 * math.ceil(span.seconds / 86400 / TICKS)
    midnight = span.begin.replace(hour=0, minute=0, second=0, microsecond=0)
    first = math.ceil((span.begin - midnight).total_seconds() / step)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86400 else "%b %d"
    found: dict[float, str] = {}
    for number in range(first, first + TICKS + 1):
        at = midnight + timedelta(seconds=number * step)
        if at <= span.end:
            day = "%b %d" if step >= 3600 and at.hour == 0 and at.minute == 0 else form
            found[(at - span.begin).total_seconds()] = f"{at:{day}}"
    return found


def _labels(row: Lane, number: int, span: Span) -> Iterable[Element]:
    """Return a lane's name and the letters in its pieces."""
    y = LANE * number + LANE / 2 + 4
    yield el(
        "text",
        row.name,
        x=LEFT - 10,
        y=y,
        text_anchor="end",
        class_="strong" if row.strong else "name",
    )
    for begin_s, end_s, _, letter in row.pieces:
        if span.x(end_s) - span.x(begin_s) >= LETTER:
            middle = span.x((begin_s + end_s) / 2)
            yield el("text", letter, x=middle, y=y, text_anchor="middle", class_="letter")


def _svg(figure: "Figure", height: float, title: str, labels: Iterable[Element]) -> Element:
    """Return a drawing as part of a page."""
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    drawn = fromstring(out.getvalue())  # noqa: S314 - matplotlib's own, of our own words
    picture = el("svg", viewBox=f"0 0 {WIDTH:g} {height:g}", role="img", aria_label=title)
    used = set(re.findall(r"#([mp][0-9a-f]{10})\b", out.getvalue().decode()))
    picture.extend(part for part in drawn if not part.tag.endswith("metadata"))
    for part in picture.iter():
        _adopt(part, used)
    picture.extend(labels)
    return picture


def _adopt(part: Element, used: set[str]) -> None:
    """Make an element of a drawing one of the page: plain names, inks for stand-ins."""
    part.tag = part.tag.partition("}")[2] or part.tag
    part.text = part.text if part.text and part.text.strip() else None
    part.tail = None
    found = {name.partition("}")[2] or name: value for name, value in part.attrib.items()}
    part.attrib.clear()
    for name, value in found.items():
        if name == "id" and value not in used:
            continue
        if name == "style":
            part.set(name, _style(part.tag, value))
        else:
            part.set(name, value)


def _style(tag: str, drawn: str) -> str:
    """Return a style in the page's inks and, of text, in its font."""
    if tag == "text":
        return f"fill:{variable('dim')};text-anchor:{'end' if 'end' in drawn else 'middle'}"
    return _COLOUR.sub(lambda found: variable(_INK_OF[found[0]]), drawn)
