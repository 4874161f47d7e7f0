"""Lanes below the nodes: one letter each 5 seconds, the job on top, the newest on the right."""

from gpuwatch.model.verdict import LETTERS
from gpuwatch.tui.history import BUCKET_S, JOB
from gpuwatch.tui.paint.numbers import duration
from gpuwatch.tui.paint.spans import Line, Span, ends, fit, safe
from gpuwatch.tui.paint.strip import lane
from gpuwatch.tui.paint.table import order
from gpuwatch.tui.scene import Scene

__all__ = ["timeline"]

LABEL = 14


def timeline(scene: Scene, cells: int, lines: int) -> list[Line]:
    """Return at most `lines` lines: the scale, the job's lane, lanes of nodes, the letters."""
    if lines < 2:
        return []
    buckets = max(1, cells - LABEL - 2)
    now = scene.view.now_us
    nodes = scene.view.nodes if len(scene.view.nodes) <= lines - 3 else order(scene)
    names = [n.name for n in nodes][: lines - 3]
    rows = [(JOB, scene.history.letters(JOB, now, buckets))]
    rows += [(name, scene.history.letters(name, now, buckets)) for name in names]
    scale = f"{duration(buckets * BUCKET_S * 1e6)} ago"
    picture: list[Line] = [
        ends(
            ((" " + fit("timeline", LABEL), "dim"), (scale, "faint")),
            ((f"{BUCKET_S} s a letter · now ", "faint"),),
            cells,
        )
    ]
    for name, letters in rows:
        label: Span = ("job", "strong") if name == JOB else (safe(name), "dim")
        picture.append(((" " + fit(label[0], LABEL), label[1]), *lane(letters)))
    if lines >= len(rows) + 2:
        picture.append(_legend({c for _, letters in rows for c in letters if c is not None}))
    return picture[:lines]


def _legend(seen: set[str]) -> Line:
    spans: list[Span] = [(" " * (LABEL + 1), "text")]
    for state, letter in LETTERS.items():
        if letter in seen:
            spans += [(letter, state.lower()), (f" {state.lower()}  ", "dim")]
    spans.append(("·", "gap"))
    spans.append((" not seen", "dim"))
    return tuple(spans)
