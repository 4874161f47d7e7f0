"""The whole job at one instant: what the judge and the screen look at. Immutable.

Quantities are asked for by the names of the catalogue:

    window = node.window(30)
    window.rate("nic", ("eth0",), "rx_bytes")        # bytes a second
    window.rate("gpu", labels, "power_w")            # mean watts
    window.latest("node", (), "memory_dirty_bytes")

Where many of one entity are asked for at each tick they are read together, which is faster:

    COLUMNS = Columns("nic", "rx_bytes", "tx_bytes")
    received, sent = window.rates_of(("eth0",), COLUMNS)

Everything may be None: missing is never zero.
"""

from collections.abc import Iterator, Mapping

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Labels, Value, Values
from gpuwatch.model.derive import Total
from gpuwatch.model.event import Fault, Hello, Link, Sample
from gpuwatch.model.progress import Progress

__all__ = [
    "LATE_TICKS", "STALE_TICKS", "Columns", "NodeView", "Point", "Standing", "View", "Window",
]  # fmt: skip

LATE_TICKS = 2.5
"""A node without a sample for so many ticks is late."""
STALE_TICKS = 5.0
"""A node without a sample for so many ticks is stale: greyed, and not judged."""


class Columns:
    """Several metrics of one scope, to be read together.

    Args:
        scope: as in the catalogue.
        metrics: of that scope.
    """

    __slots__ = ("places", "scope")

    def __init__(self, scope: str, *metrics: str) -> None:
        self.scope = scope
        self.places = tuple(catalogue.INDEX[scope][metric] for metric in metrics)


_UNREAD: dict[str, Total] = {
    scope: ((0.0,) * len(rows), (0.0,) * len(rows)) for scope, rows in catalogue.VALUES.items()
}
"""By scope, the totals of an entity that was not there yet."""


class Standing(msgspec.Struct, frozen=True, gc=False):
    """Where the running totals of one scope stood: `places` says at which place whose are.

    Points share `places` for as long as the same entities are known.
    """

    places: Mapping[Labels, int]
    totals: tuple[Total, ...]

    def of(self, labels: Labels) -> Total | None:
        """Return the totals of one entity; None where it was not known."""
        place = self.places.get(labels)
        return None if place is None else self.totals[place]


class Point(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Where all running totals of a node stood when a sample came."""

    sample: Sample
    totals: Mapping[str, Standing]


class Window(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A stretch of one node's time, between two of its samples.

    `_values` keeps what the last sample has, by scope and entity; all windows of a view share it.
    """

    first: Point
    last: Point
    _values: dict[str, dict[Labels, Values]] = {}

    @property
    def seconds(self) -> float:
        """Length on the node's own monotonic clock."""
        return (self.last.sample.node_mono_us - self.first.sample.node_mono_us) / 1e6

    def entities(self, scope: str) -> tuple[Labels, ...]:
        """Return the labels of the entities that the last sample has."""
        return tuple([row.labels for row in self.last.sample.rows(scope)])

    def seen(self, scope: str) -> tuple[Labels, ...]:
        """Return the labels of all entities known at its end: some are not read in each tick."""
        return tuple(self.last.totals[scope].places)

    def latest(self, scope: str, labels: Labels, metric: str) -> Value:
        """Return the value in the last sample, as it came."""
        values = self._last(scope).get(labels)
        return None if values is None else values[catalogue.INDEX[scope][metric]]

    def latest_of(self, labels: Labels, columns: Columns) -> list[Value]:
        """Return several values of the last sample, as they came."""
        values = self._last(columns.scope).get(labels)
        return [None if values is None else values[i] for i in columns.places]

    def growth(self, scope: str, labels: Labels, metric: str) -> float | None:
        """Return how much a counter grew (a gauge: its integral, in unit times seconds)."""
        total, seconds = self._difference(scope, labels, metric)
        return total if seconds > 0 else None

    def growths(self, scope: str, metric: str) -> Iterator[tuple[Labels, float]]:
        """Yield the growth of one counter for every entity that has one: faster than one by one."""
        for labels, grown, _ in self._each(scope, metric):
            yield labels, grown

    def rates(self, scope: str, metric: str) -> Iterator[tuple[Labels, float]]:
        """Yield the rate of one metric for every entity that has one: faster than one by one."""
        for labels, grown, seconds in self._each(scope, metric):
            yield labels, grown / seconds

    def rate(self, scope: str, labels: Labels, metric: str) -> float | None:
        """Return a counter's growth a second (a gauge: its mean) over the seconds it was seen."""
        total, seconds = self._difference(scope, labels, metric)
        return total / seconds if seconds > 0 else None

    def rates_of(self, labels: Labels, columns: Columns) -> list[float | None]:
        """Return several of an entity's rates, as `rate` would."""
        (end, end_s), (start, start_s) = self._ends(columns.scope, labels)
        return [
            (end[i] - start[i]) / (end_s[i] - start_s[i]) if end_s[i] > start_s[i] else None
            for i in columns.places
        ]

    def growths_of(self, labels: Labels, columns: Columns) -> list[float | None]:
        """Return by how much several of an entity's counters grew, as `growth` would."""
        (end, end_s), (start, start_s) = self._ends(columns.scope, labels)
        return [end[i] - start[i] if end_s[i] > start_s[i] else None for i in columns.places]

    def coverage(self, scope: str, labels: Labels, metric: str) -> float:
        """Return the share of the window, 0 to 1, in which the value was readable."""
        _, seconds = self._difference(scope, labels, metric)
        return min(1.0, seconds / self.seconds) if self.seconds > 0 else 0.0

    def _each(self, scope: str, metric: str) -> Iterator[tuple[Labels, float, float]]:
        """Yield by how much one metric of every entity grew, and in how many seconds."""
        i = catalogue.INDEX[scope][metric]
        last, first = self.last.totals[scope], self.first.totals[scope]
        alike = first.places is last.places
        for row in self.last.sample.rows(scope):
            labels = row.labels
            place = last.places[labels]
            end, end_s = last.totals[place]
            start, start_s = (first.totals[place] if alike else first.of(labels)) or _UNREAD[scope]
            if end_s[i] > start_s[i]:
                yield labels, end[i] - start[i], end_s[i] - start_s[i]

    def _last(self, scope: str) -> dict[Labels, Values]:
        """Return what the last sample has of a scope, by entity."""
        found = self._values.get(scope)
        if found is None:
            found = {row.labels: row.values for row in self.last.sample.rows(scope)}
            self._values[scope] = found
        return found

    def _difference(self, scope: str, labels: Labels, metric: str) -> tuple[float, float]:
        """Return by how much a value grew, and in how many seconds."""
        place = catalogue.INDEX[scope][metric]
        end, start = self._ends(scope, labels)
        return end[0][place] - start[0][place], end[1][place] - start[1][place]

    def _ends(self, scope: str, labels: Labels) -> tuple[Total, Total]:
        """Return where the totals of an entity stand at the end of the window, and at its begin."""
        last, first = self.last.totals[scope], self.first.totals[scope]
        place = last.places.get(labels)
        if place is None:
            return _UNREAD[scope], _UNREAD[scope]
        if first.places is last.places:
            return last.totals[place], first.totals[place]
        return last.totals[place], first.of(labels) or _UNREAD[scope]


class NodeView(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One node at one instant.

    Attributes:
        name: as in the job file.
        link: last change of the link; None before the first.
        hello: what the running agent said of its node; None before it did.
        age_us: since the last sample came; None before the first.
        interval_us: between ticks.
        points: of the last half minute or so, oldest first; only of the current agent.
        faults: the last few, oldest first.
    """

    name: str
    link: Link | None
    hello: Hello | None
    age_us: int | None
    interval_us: int
    points: tuple[Point, ...]
    faults: tuple[Fault, ...]
    _values: dict[str, dict[Labels, Values]] = {}

    @property
    def late(self) -> bool:
        """Whether the last sample is older than LATE_TICKS."""
        return self.age_us is not None and self.age_us > LATE_TICKS * self.interval_us

    @property
    def stale(self) -> bool:
        """Whether there is nothing fresh enough to judge."""
        return self.age_us is None or self.age_us > STALE_TICKS * self.interval_us

    @property
    def sample(self) -> Sample | None:
        """The last sample."""
        return self.points[-1].sample if self.points else None

    def window(self, seconds: float) -> Window | None:
        """Return the last `seconds`, or as much as there is; None with fewer than two samples."""
        if len(self.points) < 2:
            return None
        last = self.points[-1]
        start_us = last.sample.node_mono_us - seconds * 1e6
        first = self.points[0]
        for point in reversed(self.points[:-1]):
            first = point
            if point.sample.node_mono_us <= start_us:
                break
        return Window(first, last, self._values)

    def absences(self) -> Iterator[tuple[str, str]]:
        """Yield what could not be read, and why: (source or source.metric, reason)."""
        if self.points:
            for row in self.points[-1].sample.rows("absence"):
                yield str(row.labels[0]), str(row.labels[1])

    def absence(self, subject: str) -> str | None:
        """Return why a source, or source.metric, could not be read; None when it could."""
        for missing, reason in self.absences():
            if missing == subject or subject.startswith(missing + "."):
                return reason
        return None


class View(msgspec.Struct, frozen=True, gc=False, eq=False):
    """All nodes of the job at one tick, in the order of the job file.

    `progress` is what the job's own log tells; None when the job file names no log.
    """

    event_no: int
    now_us: int
    wall_us: int
    interval_us: int
    nodes: tuple[NodeView, ...]
    progress: Progress | None = None

    def node(self, name: str) -> NodeView | None:
        """Return a node by name."""
        return next((n for n in self.nodes if n.name == name), None)
