"""The state that events build up: apply(event) each, view(tick) when the judge asks."""

from collections import deque
from collections.abc import Sequence

from gpuwatch.agent import catalogue
from gpuwatch.model.derive import Shape, Tracks
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Sample, Tick
from gpuwatch.model.progress import Expressions, Steps
from gpuwatch.model.view import NodeView, Point, View

__all__ = ["WINDOW_S", "Cluster"]

WINDOW_S = 35.0
"""Seconds of points that are kept: the judge's slow window and some."""
FAULTS = 8
"""Faults of a node that are kept."""
SPARE_POINTS = 16
"""Points that are kept beside one an interval: a node's clock may creep, or its frames crowd."""
MAX_TRACKS = 8192
"""Entities of one node, from which on those that are absent are forgotten at once."""

_SHAPES = {scope: Shape.of(catalogue.VALUES[scope]) for scope in catalogue.SCOPES}


class Cluster:
    """All nodes of a job, as the events so far tell them.

    Args:
        nodes: names, in the order of the job file.
        interval_s: between ticks.
        expressions: what finds steps in the job's log; None: it names none.
    """

    def __init__(
        self, nodes: Sequence[str], interval_s: float, expressions: Expressions | None = None
    ) -> None:
        self._steps = None if expressions is None else Steps(expressions)
        self._interval_us = round(interval_s * 1e6)
        self._nodes = {name: _Node(name, self._interval_us) for name in nodes}

    def apply(self, event: AnyEvent) -> None:
        """Take one event in. A node that is not listed yet joins; one whose link ends leaves."""
        name = getattr(event, "node", None)
        if name is None:
            return
        if isinstance(event, Link) and event.state == "ended":
            self._nodes.pop(name, None)
            return
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node(name, self._interval_us)
        match event:
            case Sample():
                node.sample(event)
                if self._steps is not None:
                    self._steps.sample(event)
            case Link():
                node.link = event
            case Hello():
                node.hello = event
            case Fault():
                node.faults.append(event)

    def view(self, tick: Tick) -> View:
        """Return the whole job at this tick."""
        return View(
            tick.event_no,
            tick.arrived_us,
            tick.wall_us,
            self._interval_us,
            tuple(node.view(tick.arrived_us) for node in self._nodes.values()),
            None if self._steps is None else self._steps.view(tick.arrived_us),
        )


class _Node:
    """One node's running totals and last points."""

    def __init__(self, name: str, interval_us: int) -> None:
        self.name = name
        self.link: Link | None = None
        self.hello: Hello | None = None
        self.faults: deque[Fault] = deque(maxlen=FAULTS)
        self._interval_us = interval_us
        most = round(WINDOW_S * 1e6 / interval_us) + SPARE_POINTS
        self._last: Sample | None = None
        self._points: deque[Point] = deque(maxlen=most)
        self._scopes: dict[str, Tracks] = {}

    def sample(self, sample: Sample) -> None:
        """Carry on by a sample, unless the node's clock says that no time has passed."""
        now_us = sample.node_mono_us
        if self._last is None or not _same_agent(self._last, sample):
            # Another agent, or another boot, tells of other counters.
            self._points.clear()
            self._scopes = {scope: Tracks(shape, now_us) for scope, shape in _SHAPES.items()}
        elif now_us <= self._last.node_mono_us:
            return
        self._last = sample
        self._points.append(self._point(sample))
        while self._points[0].node_mono_us < now_us - WINDOW_S * 1e6:
            self._points.popleft()

    def _point(self, sample: Sample) -> Point:
        now_us = sample.node_mono_us
        for tracks, rows in zip(self._scopes.values(), sample.tables, strict=True):
            tracks.advance(rows, now_us)
        crowded = sum(map(len, self._scopes.values())) > MAX_TRACKS
        for tracks in self._scopes.values():
            tracks.forget(now_us if crowded else now_us - WINDOW_S * 1e6)
        return Point(now_us, {scope: tracks.standing for scope, tracks in self._scopes.items()})

    def view(self, now_us: int) -> NodeView:
        age_us = None if self._last is None else now_us - self._last.arrived_us
        return NodeView(
            self.name,
            self.link,
            self.hello,
            age_us,
            self._interval_us,
            self._last,
            tuple(self._points),
            tuple(self.faults),
        )


def _same_agent(before: Sample, now: Sample) -> bool:
    return (before.boot_id, before.agent_id) == (now.boot_id, now.agent_id)
