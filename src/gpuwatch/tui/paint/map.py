"""A map of many nodes: a letter a GPU while all fit, else a letter a node, in groups."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuwatch.model.verdict import LETTERS, STATES, State
from gpuwatch.model.view import NodeView
from gpuwatch.tui.paint.pane import trouble
from gpuwatch.tui.paint.spans import GAP, Line, Span, fit, safe, whole
from gpuwatch.tui.paint.strip import ROLES, lane
from gpuwatch.tui.scene import Scene

__all__ = ["LABEL", "Map", "draw", "groups", "heading", "layout"]

LABEL = 16
"""Cells of a row's name."""
LOST = "!"
"""Stands for a node without data."""
_NUMBER = re.compile(r"\d+(?=\D*$)")


@dataclass(frozen=True, slots=True)
class Map:
    """How nodes are laid out.

    Attributes:
        rows: a label, and the names of the nodes beside it.
        each: cells of one node, its gap included.
        gpus: letters of one node; 1: the node's own.
    """

    rows: tuple[tuple[str, tuple[str, ...]], ...]
    each: int
    gpus: int


def groups(
    names: Sequence[str], group: Callable[[str], str | None] | None
) -> list[tuple[str, list[str]]]:
    """Return names by group, in the order in which groups first appear.

    Args:
        names: of the nodes.
        group: says which group a node is in; without it, nodes are alike whose names differ in
            their last number only. Where that tells nothing apart, there is one group of no name.
    """
    found: dict[str, list[str]] = {}
    for name in names:
        key = _prefix(name) if group is None else group(name) or "no group"
        found.setdefault(key, []).append(name)
    if group is None and not 1 < len(found) <= len(names) // 2:
        return [("", list(names))]
    return list(found.items())


def _prefix(name: str) -> str:
    return _NUMBER.split(name.partition(".")[0], maxsplit=1)[0].rstrip("-_.") or name


def layout(parts: list[tuple[str, list[str]]], gpus: int, cells: int, lines: int) -> Map:
    """Return the map with the most to see that fits; the smallest where none does.

    Args:
        parts: names by group.
        gpus: of the node that has most.
        cells: width of the map.
        lines: its height.
    """
    smallest = Map((), 1, 1)
    for letters, gap in ((gpus, 1), (1, 1), (1, 0)):
        each = max(1, letters) + gap
        across = max(1, (cells - LABEL - 1) // each)
        if across >= 10:
            across -= across % 10
        smallest = Map(tuple(_rows(parts, across)), each, max(1, letters))
        if len(smallest.rows) <= lines and letters:
            break
    return smallest


def _rows(parts: list[tuple[str, list[str]]], across: int) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (label if label and not start else "" if label else names[start], tuple(names[start : start + across]))
        for label, names in parts
        for start in range(0, len(names), across)
    ]  # fmt: skip


def draw(scene: Scene, drawn: Map, y: int, chosen: str | None) -> Line:
    """Return one row of a map."""
    label, names = drawn.rows[y]
    spans: list[Span] = [(f" {fit(safe(label), LABEL - 1)} ", "dim")]
    gap = " " * (drawn.each - drawn.gpus)
    for name in names:
        letters = _letters(scene, name, drawn.gpus)
        if name == chosen:
            spans += [(c, f"chip-{role}" if role in _STATES else "cursor") for c, role in letters]
            spans.append((gap, "text"))
        else:
            spans += [*letters, (gap, "text")]
    return tuple(spans)


_STATES = {state.lower() for state in STATES}


def _letters(scene: Scene, name: str, gpus: int) -> Line:
    """Return the letters of a node: of its ranks where all are drawn, in `gpus` cells."""
    node = scene.view.node(name)
    if node is None or trouble(node):
        return ((LOST * gpus, "bad"),)
    ranks = scene.ranks(name) if gpus > 1 else ()
    if ranks:
        said = [LETTERS[v.state] for v in ranks[:gpus]]
        return lane([*said, *[None] * (gpus - len(said))])
    verdict = scene.by_node.get(name)
    letter = LETTERS[verdict.state] if verdict is not None else "?"
    return ((letter + GAP * (gpus - 1), ROLES[letter]),)


def heading(scene: Scene, nodes: Sequence[NodeView], cells: int) -> Line:
    """Return how many nodes are in which state: the map's letters in words."""
    counts: dict[State, int] = {}
    lost = 0
    for node in nodes:
        verdict = scene.by_node.get(node.name)
        if trouble(node):
            lost += 1
        else:
            state: State = "UNKNOWN" if verdict is None else verdict.state
            counts[state] = counts.get(state, 0) + 1
    parts: list[Line] = [((" nodes  ", "dim"),)]
    if lost:
        parts.append(((f"{LOST} ", "bad"), (f"{lost} no data   ", "text")))
    parts += [
        ((f"{LETTERS[state]} ", state.lower()), (f"{counts[state]} {state.lower()}   ", "text"))
        for state in sorted(counts, key=lambda s: (s == "COMPUTE", STATES.index(s)))
    ]
    return whole(parts, cells)
