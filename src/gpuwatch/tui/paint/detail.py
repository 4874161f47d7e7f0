"""One node in full: ranks, their waits, and every metric that the catalogue declares.

Nothing here names a metric of the catalogue but those of thread waits: a row that a source
declares appears by itself, under its own name, in its own unit; of what a node has none, nothing
is said.
"""

import importlib
from collections.abc import Mapping, Sequence

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import COUNTER, Label, Labels, Metric
from gpuwatch.model.verdict import Verdict
from gpuwatch.model.view import NodeView, Window
from gpuwatch.tui.paint.facts import WINDOW_S
from gpuwatch.tui.paint.numbers import MISSING, percent, quantity
from gpuwatch.tui.paint.pane import pane
from gpuwatch.tui.paint.spans import Line, fit, safe, whole, wrap
from gpuwatch.tui.paint.words import WAITS, role_of, state_words
from gpuwatch.tui.scene import Scene

__all__ = ["detail"]

Readings = dict[Labels, dict[str, float | None]]
"""Of each entity, by its labels: values by the names of their rows."""

NAME = 26
VALUE = 22
LEAST = 10
"""Cells of a value, at most and at least, where entities stand side by side."""
SINGLE = 13
RANK = 14
STATE = 20
WIDE = 110
"""Cells that leave room for more than the first wait of each role."""
PANE = 8
SILENT = 7
QUIET_ROWS = 3
APART = frozenset({"node", "thread_wait"})
"""Scopes that are told of last, and with the ranks."""
QUIET_S = 30.0
"""Seconds without any growth after which an interface, a disk or a mount is quiet."""
FLOWS = frozenset({"nic", "rdma", "disk", "mount", "kworker", "connection", "cgroup"})
"""Scopes of which a node may have dozens, most of them quiet."""


def detail(scene: Scene, node: NodeView, cells: int) -> list[Line]:
    """Return all that is known of one node."""
    lines = pane(scene, node, cells, PANE + len(scene.facts(node).gpus), chosen=False)
    lines += _ranks(scene.ranks(node.name), node, cells)
    lines += _facts(node, cells)
    sources = _sources()
    scopes = [s for s in catalogue.SCOPES if catalogue.VALUES[s] and s not in APART]
    for scope in (*scopes, "node"):
        lines += _scope(node, scope, sources, cells)
    lines += _absences(node)
    return lines


def _sources() -> Mapping[tuple[str, str], str]:
    """Return which source declares each row."""
    return {
        (row.scope, row.name): name
        for name in catalogue.SOURCES
        for row in importlib.import_module(f"gpuwatch.agent.sources.{name}").ROWS
    }


def _ranks(verdicts: tuple[Verdict, ...], node: NodeView, cells: int) -> list[Line]:
    """Return a line a rank: its verdict, and where the threads of each role stood."""
    window = node.window(WINDOW_S)
    shares = _wait_shares(window) if window is not None else {}
    told = {v.rank or "?": v for v in verdicts}
    names = sorted(told.keys() | shares.keys(), key=lambda name: (len(name), name))
    if not names:
        return []
    lines: list[Line] = [(), _heading("ranks", f"where their threads stood, last {WINDOW_S:.0f} s")]
    for name in names:
        parts: list[Line] = [((fit(f"  rank {safe(name)}", RANK), "text"),)]
        if name in told:
            parts.append(((fit(state_words(told[name]), STATE), role_of(told[name].state)),))
        for role, families in sorted(shares.get(name, {}).items(), key=_main_first):
            told_of = families[: 3 if cells >= WIDE else 1]
            waits = "".join(f" {WAITS.get(f, safe(f))} {percent(n)}" for f, n in told_of)
            parts.append(((f"  {safe(role)}", "dim"), (waits, "text")))
        lines.append(whole(parts, cells))
    return lines


def _main_first(entry: tuple[str, object]) -> tuple[bool, str]:
    return entry[0] != "main", entry[0]


def _wait_shares(window: Window) -> dict[str, dict[str, list[tuple[str, float]]]]:
    """Return, by rank and role, the families of waits and their shares, largest first."""
    counts: dict[str, dict[str, dict[str, float]]] = {}
    for labels in window.entities("thread_wait"):
        seen = window.growth("thread_wait", labels, "wait_samples")
        if seen:
            rank, role, family = (str(label) for label in labels[1:4])
            families = counts.setdefault(rank, {}).setdefault(role, {})
            families[family] = families.get(family, 0) + seen
    return {
        rank: {role: _shares(families) for role, families in roles.items()}
        for rank, roles in counts.items()
    }


def _shares(families: Mapping[str, float]) -> list[tuple[str, float]]:
    total = sum(families.values())
    return sorted(((f, n / total) for f, n in families.items()), key=lambda pair: -pair[1])


def _facts(node: NodeView, cells: int) -> list[Line]:
    if node.hello is None:
        return []
    told = [f"{safe(k)} {safe(str(v))}" for k, v in node.hello.facts.items() if v is not None]
    rows = wrap(" · ".join(told), cells - len(" about  "), 4)
    return [(), *(_heading("about" if i == 0 else "     ", r) for i, r in enumerate(rows))]


def _scope(
    node: NodeView, scope: str, sources: Mapping[tuple[str, str], str], cells: int
) -> list[Line]:
    rows = catalogue.VALUES[scope]
    readings = _readings(node, scope)
    entities = list(readings)
    if not entities:
        reason = node.absence(sources.get((scope, rows[0].name), ""))
        return [(), _heading(scope, f"{MISSING}  {safe(reason)}")] if reason else []
    told = [row for row in rows if any(r[row.name] is not None for r in readings.values())]
    lines: list[Line] = [(), _heading(scope, "")]
    if len(entities) == 1:
        lines += [_label(row.name, entities[0][i]) for i, row in enumerate(catalogue.LABELS[scope])]
        lines += [_metric(row, readings[entities[0]][row.name], cells) for row in told]
    else:
        lines += _table(node, scope, readings, told, cells)
    silent = [row for row in rows if row not in told]
    return [*lines, *_silent(node, silent, sources, cells)]


def _label(name: str, label: Label) -> Line:
    return ((fit(f"  {name}", NAME + 4), "dim"), (safe(str(label)), "strong"))


def _metric(row: Metric, value: float | None, cells: int) -> Line:
    room = max(0, cells - NAME - 4 - SINGLE - 2)
    return (
        (fit(f"  {row.name}", NAME + 4), "text"),
        (f"{quantity(row, value):>{SINGLE}}", "strong"),
        (f"  {fit(row.meaning, room)}", "dim"),
    )


def _silent(
    node: NodeView, rows: Sequence[Metric], sources: Mapping[tuple[str, str], str], cells: int
) -> list[Line]:
    """Return the rows without a value in a few lines, by the reason that is known for it."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reason = node.absence(f"{sources.get((row.scope, row.name), '')}.{row.name}")
        reasons.setdefault(safe(reason) if reason else "", []).append(row.name)
    lines: list[Line] = []
    for reason, names in reasons.items():
        said = f"{reason}: {' '.join(names)}" if reason else " ".join(names)
        for row_no, words in enumerate(wrap(said, cells - SILENT, len(names))):
            label = f"  {MISSING}" if row_no == 0 else ""
            lines.append(((fit(label, SILENT), "old"), (words, "old")))
    return lines


def _table(
    node: NodeView, scope: str, readings: Readings, rows: Sequence[Metric], cells: int
) -> list[Line]:
    """Return entities side by side; where they are many, the busy ones first, the quiet by name."""
    each = max(1, (cells - NAME) // (LEAST + 1))
    entities, quiet = list(readings), list[Labels]()
    if scope in FLOWS and len(entities) > each:
        entities, quiet = _by_flow(node, scope, entities)
    room = min(VALUE, (cells - NAME) // max(1, min(each, len(entities))) - 1)
    lines: list[Line] = []
    for start in range(0, len(entities), each):
        lines += [()] if start else []
        shown = {labels: readings[labels] for labels in entities[start : start + each]}
        lines += _block(scope, shown, rows, room)
    names = " ".join(safe(str(labels[0])) for labels in quiet)
    for row_no, words in enumerate(wrap(names, cells - NAME - 1, QUIET_ROWS)) if quiet else ():
        label = f"  {len(quiet)} are quiet" if row_no == 0 else ""
        lines.append(((fit(label, NAME + 1), "dim"), (words, "dim")))
    return lines


def _by_flow(
    node: NodeView, scope: str, entities: list[Labels]
) -> tuple[list[Labels], list[Labels]]:
    """Return the entities of which any counter moved, busiest first, and the others."""
    window = node.window(QUIET_S)
    counters = [row for row in catalogue.VALUES[scope] if row.kind == COUNTER]
    moved = {
        labels: sum(
            (window.rate(scope, labels, row.name) or 0.0) if window is not None else 0.0
            for row in counters
            if row.unit == counters[0].unit
        )
        for labels in entities
    }
    busy = sorted((e for e in entities if moved[e]), key=lambda labels: -moved[labels])
    return busy, [e for e in entities if not moved[e]]


def _block(scope: str, readings: Readings, rows: Sequence[Metric], room: int) -> list[Line]:
    """Return a table of entities side by side: their labels, then a line a metric."""
    lines: list[Line] = []
    for i, label in enumerate(catalogue.LABELS[scope]):
        cells = [
            (f" {fit(safe(str(e[i])), room)}", "strong" if i == 0 else "dim") for e in readings
        ]
        lines.append(((fit(f"  {label.name}", NAME), "dim"), *cells))
    for row in rows:
        values = [read[row.name] for read in readings.values()]
        spans = [
            (f" {fit(quantity(row, v), room)}", "old" if v is None else "text") for v in values
        ]
        lines.append(((fit(f"  {row.name}", NAME), "text"), *spans))
    return lines


def _readings(node: NodeView, scope: str) -> Readings:
    """Return what is read of each entity of a scope: gauges as they are, counters as rates."""
    window, rows = node.window(WINDOW_S), catalogue.VALUES[scope]
    found: Readings = {}
    for told in node.sample.rows(scope) if node.sample is not None else ():
        now = dict(zip((row.name for row in rows), told.values, strict=True))
        for row in rows:
            if row.kind == COUNTER:
                rate = None if window is None else window.rate(scope, told.labels, row.name)
                now[row.name] = rate
        found[told.labels] = now
    return found


def _absences(node: NodeView) -> list[Line]:
    missing = list(node.absences())
    if not missing:
        return []
    lines: list[Line] = [(), _heading("not readable", "")]
    lines += [((fit(f"  {safe(s)}", NAME + 4), "old"), (f" {safe(r)}", "text")) for s, r in missing]
    return lines


def _heading(name: str, note: str) -> Line:
    return ((f" {name}  ", "title"), (note, "dim"))
