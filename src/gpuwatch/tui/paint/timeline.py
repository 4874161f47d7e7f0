"""Lanes below the nodes: one letter each 5 seconds, the job on top, the newest on the right."""

from collections.abc import Iterable, Sequence

from gpuwatch.model.verdict import LETTERS
from gpuwatch.model.view import NodeView
from gpuwatch.tui.history import BUCKET_S, JOB, Key, key_of
from gpuwatch.tui.paint.numbers import duration
from gpuwatch.tui.paint.order import worst_first
from gpuwatch.tui.paint.spans import Line, Span, ends, fit, safe
from gpuwatch.tui.paint.strip import lane
from gpuwatch.tui.scene import Scene

__all__ = ["LABEL", "label", "legend", "ranks", "timeline"]

LABEL = 14
"""Cells of a lane's name."""


def timeline(
    scene: Scene, cells: int, lines: int, nodes: Sequence[NodeView] | None = None
) -> list[Line]:
    """Return at most `lines` lines: the scale, the job's lane, lanes of nodes, the letters.

    A node that is alone has lanes of its ranks.

    Args:
        scene: what is shown.
        cells: width.
        lines: height.
        nodes: whose lanes are drawn, as far as there is room; None: of all.
    """
    if lines < 2:
        return []
    buckets = max(1, cells - LABEL - 2)
    now = scene.view.now_us
    rows = [
        (key, scene.history.letters(key, now, buckets))
        for key in (JOB, *_keys(scene, scene.view.nodes if nodes is None else nodes, lines - 3))
    ]
    scale = f"{duration(buckets * BUCKET_S * 1e6)} ago"
    picture: list[Line] = [
        ends(
            ((" " + fit("timeline", LABEL), "dim"), (scale, "faint")),
            ((f"{BUCKET_S} s a letter · now ", "faint"),),
            cells,
        )
    ]
    picture += [(label(key, " "), *lane(letters)) for key, letters in rows]
    if lines >= len(rows) + 2:
        picture.append(legend(c for _, letters in rows for c in letters))
    return picture[:lines]


def _keys(scene: Scene, nodes: Sequence[NodeView], room: int) -> list[Key]:
    shown = nodes if len(nodes) <= room else worst_first(scene, nodes)[: max(0, room)]
    keys: list[Key] = [(node.name,) for node in shown]
    if len(nodes) == 1:
        keys += ranks(scene, nodes[0].name)[: max(0, room - 1)]
    return keys


def ranks(scene: Scene, node: str) -> list[Key]:
    """Return the lanes of a node's ranks."""
    return [key_of(verdict) for verdict in scene.ranks(node)]


def label(key: Key, mark: str) -> Span:
    """Return a lane's name behind one cell of a mark."""
    if key == JOB:
        return f"{mark}{fit('job', LABEL)}", "strong"
    name = safe(key[0]) if len(key) == 1 else f"  rank {safe(key[2])}"
    return f"{mark}{fit(name, LABEL)}", "dim"


def legend(seen: Iterable[str | None]) -> Line:
    """Return what the letters that are seen mean."""
    letters = set(seen)
    spans: list[Span] = [(" " * (LABEL + 1), "text")]
    for state, letter in LETTERS.items():
        if letter in letters:
            spans += [(letter, state.lower()), (f" {state.lower()}  ", "dim")]
    spans.append(("·", "gap"))
    spans.append((" not seen", "dim"))
    return tuple(spans)
