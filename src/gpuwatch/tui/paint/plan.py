"""How the screen is cut: panes while they fit, else lines, else a map; the rest is what is below."""

from dataclasses import dataclass

from gpuwatch.tui.paint.pane import CARD, SHORT, card_lines

__all__ = ["MIN_HEIGHT", "MIN_WIDTH", "Plan", "plan"]

MIN_WIDTH = 40
MIN_HEIGHT = 10
"""Below this, the screen only says that it is too small."""

FEW = 12
"""More nodes than this are lines, whatever the room."""
MANY = 60
"""More nodes than this are a map."""
PANE_CELLS = 40
"""Narrowest pane that still says everything."""
GOOD_CELLS = 50
"""Width of a pane that reads well."""
EXTRA = 3
"""Lines of the timeline beside the nodes' lanes: scale, the job's lane, letters."""
LANES = 3
"""Fewest lines of the timeline: its scale and two lanes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Heights of the regions, from top to bottom, in lines.

    Attributes:
        answer: of the answer, below the header line.
        columns: of panes; 0: one line a node, or a map.
        pane: height of a pane.
        grid: lines that nodes take.
        explained: of the chosen node's pane below the lines; 0: none.
        lanes: of the timeline; 0: none.
        rest: what is left for the last events.
        card: least cells that each GPU's line in a pane gets; 0: GPUs have no lines.
        map: whether nodes are a map.
    """

    answer: int
    columns: int
    pane: int
    grid: int
    explained: int
    lanes: int
    rest: int
    card: int
    map: bool = False


def plan(nodes: int, gpus: int, cells: int, lines: int, bar: int) -> Plan:
    """Cut the screen.

    Args:
        nodes: how many.
        gpus: of the node that has most.
        cells: width of the screen.
        lines: height of the screen.
        bar: lines of the transport bar.
    """
    answer = 5 if lines >= 32 else 4 if lines >= 20 else 2
    body = lines - answer - 2 - bar
    if nodes <= FEW:
        wanted = _lanes(nodes, nodes + EXTRA)
        for card, room in (
            (cells, body - wanted),
            (CARD, body - wanted),
            (0, body - wanted),
            (0, body),
        ):
            columns, pane = _panes(max(1, nodes), gpus, card, cells, room)
            if columns:
                grid = -(-nodes // columns) * pane
                lanes = _lanes(nodes, body - grid)
                return Plan(answer, columns, pane, grid, 0, lanes, body - grid - lanes, card)
    body -= 1  # the heading
    explained = SHORT if body >= SHORT + 4 else 0
    left = body - explained
    if nodes > MANY:
        lanes = _lanes(FEW, left // 3)
        return Plan(answer, 0, 1, left - lanes, explained, lanes, 0, 0, map=True)
    grid = min(nodes, left)
    lanes = _lanes(min(nodes, FEW), left - grid)
    return Plan(answer, 0, 1, grid, explained, lanes, left - grid - lanes, 0)


def _panes(nodes: int, gpus: int, card: int, cells: int, room: int) -> tuple[int, int]:
    """Return in how many columns panes fit, 0 if in none, and their height; wide ones first."""
    first = max(1, min(nodes, cells // GOOD_CELLS))
    for columns in range(first, max(first, cells // PANE_CELLS) + 1):
        rows = -(-nodes // columns)
        even = -(-nodes // rows)
        pane = SHORT + (card_lines(gpus, cells // even, card) if card else 0)
        if rows * pane <= room:
            return even, pane
    return 0, SHORT


def _lanes(nodes: int, room: int) -> int:
    wanted = min(nodes + EXTRA, room)
    return wanted if wanted >= LANES else 0
