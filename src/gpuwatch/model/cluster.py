"""The state that events build up: apply(event) each, view(tick) when the judge asks."""

from collections import deque
from collections.abc import Sequence

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Labels
from gpuwatch.model.derive import Total, Track
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
        """Take one event in. A node that the job file does not list joins at the end."""
        name = getattr(event, "node", None)
        if name is None:
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
        self._tracks: dict[str, dict[Labels, Track]] = {s: {} for s in catalogue.SCOPES}
        self._seen_us: dict[str, dict[Labels, int]] = {s: {} for s in catalogue.SCOPES}

    def sample(self, sample: Sample) -> None:
        last = self._points[-1].sample if self._points else None
        if last is not None and _same_agent(last, sample):
            elapsed_s = (sample.node_mono_us - last.node_mono_us) / 1e6
            if elapsed_s <= 0:
                return
        else:
            elapsed_s = 0.0
            self._points.clear()
            self._tracks = {s: {} for s in catalogue.SCOPES}
            self._seen_us = {s: {} for s in catalogue.SCOPES}
        self._points.append(Point(sample, self._advance(sample, elapsed_s)))
        horizon_us = sample.node_mono_us - WINDOW_S * 1e6
        while self._points[0].sample.node_mono_us < horizon_us:
            self._points.popleft()

    def _advance(self, sample: Sample, elapsed_s: float) -> dict[str, dict[Labels, Total]]:
        totals: dict[str, dict[Labels, Total]] = {}
        for scope, rows in zip(catalogue.SCOPES, sample.tables, strict=True):
            metrics = catalogue.VALUES[scope]
            tracks, seen_us = self._tracks[scope], self._seen_us[scope]
            for row in rows:
                track = tracks.get(row.labels)
                if track is None:
                    track = tracks[row.labels] = Track(len(metrics))
                track.advance(metrics, row.values, elapsed_s)
                seen_us[row.labels] = sample.node_mono_us
            self._leave(scope, sample.node_mono_us, elapsed_s)
            totals[scope] = {labels: track.total() for labels, track in tracks.items()}
        return totals

    def _leave(self, scope: str, now_us: int, elapsed_s: float) -> None:
        """Pass over what this sample lacks; its totals stay for as long as a window may begin there."""
        tracks, seen_us = self._tracks[scope], self._seen_us[scope]
        crowded = sum(map(len, self._tracks.values())) > MAX_TRACKS
        horizon_us = now_us if crowded else now_us - WINDOW_S * 1e6
        for labels in [name for name, seen in seen_us.items() if seen < now_us]:
            tracks[labels].miss(elapsed_s)
            if seen_us[labels] < horizon_us:
                del tracks[labels], seen_us[labels]

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
