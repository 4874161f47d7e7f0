"""The state that events build up: apply(event) each, view(tick) when the judge asks."""

from collections import deque
from collections.abc import Sequence

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Labels
from gpuwatch.model.derive import Seconds, Shape, Track
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Row, Sample, Tick
from gpuwatch.model.progress import Expressions, Steps
from gpuwatch.model.view import NodeView, Point, Standing, View

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
        self._points: deque[Point] = deque(maxlen=most)
        self._begin()

    def _begin(self) -> None:
        """Know nothing of counters: another agent, or another boot, tells of others."""
        self._points.clear()
        self._scopes = {scope: _Scope(shape) for scope, shape in _SHAPES.items()}

    def sample(self, sample: Sample) -> None:
        last = self._points[-1].sample if self._points else None
        if last is not None and _same_agent(last, sample):
            elapsed_s = (sample.node_mono_us - last.node_mono_us) / 1e6
            if elapsed_s <= 0:
                return
        else:
            elapsed_s = 0.0
            self._begin()
        self._points.append(Point(sample, self._advance(sample, elapsed_s)))
        horizon_us = sample.node_mono_us - WINDOW_S * 1e6
        while self._points[0].sample.node_mono_us < horizon_us:
            self._points.popleft()

    def _advance(self, sample: Sample, elapsed_s: float) -> dict[str, Standing]:
        now_us = sample.node_mono_us
        for scope, rows in zip(self._scopes.values(), sample.tables, strict=True):
            scope.read(rows, now_us, elapsed_s)
        crowded = sum(len(scope.tracks) for scope in self._scopes.values()) > MAX_TRACKS
        kept_us = now_us if crowded else now_us - WINDOW_S * 1e6
        return {
            name: scope.standing(now_us, elapsed_s, kept_us) for name, scope in self._scopes.items()
        }

    def view(self, now_us: int) -> NodeView:
        age_us = now_us - self._points[-1].sample.arrived_us if self._points else None
        return NodeView(
            self.name,
            self.link,
            self.hello,
            age_us,
            self._interval_us,
            tuple(self._points),
            tuple(self.faults),
        )


def _same_agent(before: Sample, now: Sample) -> bool:
    return (before.boot_id, before.agent_id) == (now.boot_id, now.agent_id)


class _Scope:
    """The tracks of one scope's entities."""

    def __init__(self, shape: Shape) -> None:
        self.tracks: dict[Labels, Track] = {}
        self._shape = shape
        self._places: dict[Labels, int] = {}
        self._changed = False

    def read(self, rows: Sequence[Row], now_us: int, elapsed_s: float) -> None:
        """Carry on the totals of what a sample has.

        Args:
            rows: of this scope.
            now_us: when the sample was taken, on the node's clock.
            elapsed_s: since the sample before.
        """
        seconds: Seconds = {}
        for row in rows:
            track = self.tracks.get(row.labels)
            if track is None:
                track = self.tracks[row.labels] = Track(self._shape)
                self._changed = True
            track.advance(row.values, elapsed_s, seconds)
            track.seen_us = now_us

    def standing(self, now_us: int, elapsed_s: float, kept_us: float) -> Standing:
        """Pass over what the sample lacks, and return where all totals stand.

        What was seen last before `kept_us` is forgotten: no window begins there any more.
        """
        gone = [item for item in self.tracks.items() if item[1].seen_us < now_us]
        for labels, track in gone:
            track.miss(elapsed_s)
            if track.seen_us < kept_us:
                del self.tracks[labels]
                self._changed = True
        if self._changed:
            self._places = {labels: place for place, labels in enumerate(self.tracks)}
            self._changed = False
        return Standing(self._places, tuple([track.total for track in self.tracks.values()]))
