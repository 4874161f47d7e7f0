"""One line a node, for many nodes or little room: columns leave from the right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuwatch.model.view import NodeView
from gpuwatch.tui.paint.facts import Facts
from gpuwatch.tui.paint.numbers import MISSING, milliseconds, percent, scaled
from gpuwatch.tui.paint.pane import age, gpu_letters, status, trouble, waits
from gpuwatch.tui.paint.spans import Line, columns, pad, safe
from gpuwatch.tui.paint.strip import activity
from gpuwatch.tui.paint.words import computing
from gpuwatch.tui.scene import Scene

__all__ = ["heading", "row"]


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cells: int
    paint: Callable[[Scene, NodeView, Facts], Line]


def _text(text: str) -> Line:
    return ((text, "old" if text == MISSING else "text"),)


def _state(scene: Scene, node: NodeView, _: Facts) -> Line:
    words, role = status(scene, node)
    return ((words, role),)


def _strip(scene: Scene, node: NodeView, _: Facts) -> Line:
    return activity(scene.history, node.name, scene.view.now_us, 15)


def _net(_: Scene, __: NodeView, found: Facts) -> Line:
    if found.nic is None:
        return _text(MISSING)
    return _text(f"{scaled(found.nic.down, ''):>6} {scaled(found.nic.up, ''):>6}")


def _loss(_: Scene, __: NodeView, found: Facts) -> Line:
    lost = found.loss is not None and found.loss >= 0.001
    return ((f"{percent(found.loss, 2)}", "warn" if lost else "text"),)


def _disk(_: Scene, __: NodeView, found: Facts) -> Line:
    if found.disk is None:
        return _text(MISSING)
    return _text("quiet" if found.disk.await_ms is None else milliseconds(found.disk.await_ms))


WAITS = 26
"""Cells for what threads wait in."""

COLUMNS = (
    _Column("node", 14, lambda _, node, __: ((safe(node.name), "strong"),)),
    _Column("state", 18, _state),
    _Column(
        "compute",
        7,
        lambda scene, node, _: _text(f"{percent(computing(scene.by_node.get(node.name))):>7}"),
    ),
    _Column("last 5 min", 15, _strip),
    _Column("GPUs", 8, lambda _, __, found: gpu_letters(found.gpus, "")),
    _Column("threads wait in", WAITS, lambda _, __, found: waits(found, WAITS)),
    _Column("disk", 7, _disk),
    _Column("loss", 7, _loss),
    _Column("net ↓    ↑ B/s", 14, _net),
    _Column("iowait", 6, lambda _, __, found: _text(f"{percent(found.iowait):>6}")),
    _Column("kwork", 6, lambda _, __, found: _text(f"{percent(found.kworker):>6}")),
    _Column("age", 5, lambda _, node, __: (age(node),)),
)


def heading(cells: int) -> Line:
    """Return the line above the rows."""
    return columns(
        [(((" ", "dim"),), 1), *((((c.title, "dim"),), c.cells) for c in _fitting(cells))]
    )


def row(scene: Scene, node: NodeView, cells: int, *, chosen: bool) -> Line:
    """Return one node's line; of a node without data, the reason instead of numbers."""
    mark: Line = (("▸", "cursor"),) if chosen else ((" ", "text"),)
    found = scene.facts(node)
    shown = _fitting(cells)
    parts: list[tuple[Line, int]] = [(mark, 1)]
    if trouble(node):
        parts += [(c.paint(scene, node, found), c.cells) for c in shown[:2]]
        return pad((*columns(parts), (" ", "text"), *_reason(node)), cells)
    parts += [(c.paint(scene, node, found), c.cells) for c in shown]
    return pad(columns(parts), cells)


def _reason(node: NodeView) -> Line:
    link = node.link
    if link is None:
        return (("waits for its turn to connect", "dim"),)
    reason = safe(link.reason or "no samples")
    return ((f"after {safe(link.step)}: {reason}", "text"),)


def _fitting(cells: int) -> Sequence[_Column]:
    """Return the columns that fit; the first two always stay."""
    used = 1
    for i, column in enumerate(COLUMNS):
        used += 1 + column.cells
        if used > cells and i >= 2:
            return COLUMNS[:i]
    return COLUMNS
