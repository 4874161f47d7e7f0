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

import functools
from collections.abc import Iterator, Mapping
from itertools import pairwise

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Labels, Value, Values
from gpuwatch.model.derive import Standing
from gpuwatch.model.event import Fault, Hello, Link, Sample
from gpuwatch.model.progress import Progress

__all__ = [
    "LATE_TICKS", "STALE_TICKS", "Columns", "NodeView", "Point", "View", "Window",
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


@functools.cache
def _column(scope: str, metric: str) -> Columns:
    return Columns(scope, metric)


class Point(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Where all running totals of a node stood, by scope, when a sample was taken.

    Two that share their lags have read alike ever since: of what is present nothing was missing.
    """

    node_mono_us: int
    totals: Mapping[str, Standing]


class Window(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A stretch of one node's time, between two of its samples; `sample` is the later one.

    `_values` keeps what that sample has, by scope and entity; all windows of a view share it.
    """

    sample: Sample
    first: Point
    last: Point
    _values: dict[str, dict[Labels, Values]] = {}

    @property
    def seconds(self) -> float:
        """Length on the node's own monotonic clock."""
        return (self.last.node_mono_us - self.first.node_mono_us) / 1e6

    def entities(self, scope: str) -> tuple[Labels, ...]:
        """Return the labels of the entities that the last sample has."""
        return tuple([row.labels for row in self.sample.rows(scope)])

    def seen(self, scope: str) -> tuple[Labels, ...]:
        """Return the labels of all entities known at its end: some are not read in each tick."""
        return tuple(self.last.totals[scope].places)

    def began_with(self, scope: str) -> set[Labels]:
        """Return the labels of the entities of which something was read at its begin."""
        first, width = self.first.totals[scope], len(catalogue.VALUES[scope])
        return {
            labels for labels, at in first.places.items() if 1 in first.present[at : at + width]
        }

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
        return self.growths_of(labels, _column(scope, metric))[0]

    def growths(self, scope: str, metric: str) -> Iterator[tuple[Labels, float]]:
        """Yield the growth of one counter for every entity that has one: faster than one by one."""
        for labels, grown, _ in self._each(scope, metric):
            yield labels, grown

    def rates(self, scope: str, metric: str) -> Iterator[tuple[Labels, float]]:
        """Yield the rate of one metric for every entity that has one: faster than one by one."""
        for labels, grown, covered_us in self._each(scope, metric):
            yield labels, grown / (covered_us / 1e6)

    def rate(self, scope: str, labels: Labels, metric: str) -> float | None:
        """Return a counter's growth a second (a gauge: its mean) over the seconds it was seen."""
        return self.rates_of(labels, _column(scope, metric))[0]

    def rates_of(self, labels: Labels, columns: Columns) -> list[float | None]:
        """Return several of an entity's rates, as `rate` would."""
        last, first = self.last.totals[columns.scope], self.first.totals[columns.scope]
        if first.lags_us is not last.lags_us or labels not in last.places:
            changes = self._changes(labels, columns)
            return [grown / (us / 1e6) if us > 0 else None for grown, us in changes]
        at, end, start, present = last.places[labels], last.totals, first.totals, last.present
        seconds = (last.clock_us - first.clock_us) / 1e6
        return [
            (end[at + i] - start[at + i]) / seconds if present[at + i] else None
            for i in columns.places
        ]

    def growths_of(self, labels: Labels, columns: Columns) -> list[float | None]:
        """Return by how much several of an entity's counters grew, as `growth` would."""
        return [grown if us > 0 else None for grown, us in self._changes(labels, columns)]

    def coverage(self, scope: str, labels: Labels, metric: str) -> float:
        """Return the share of the window, 0 to 1, in which the value was readable."""
        ((_, covered_us),) = self._changes(labels, _column(scope, metric))
        return min(1.0, covered_us / 1e6 / self.seconds) if self.seconds > 0 else 0.0

    def _each(self, scope: str, metric: str) -> Iterator[tuple[Labels, float, int]]:
        """Yield by how much one metric of every entity grew, and in how much time of being read."""
        column = _column(scope, metric)
        last, first = self.last.totals[scope], self.first.totals[scope]
        alike, i = first.lags_us is last.lags_us, column.places[0]
        passed_us = last.clock_us - first.clock_us
        for row in self.sample.rows(scope):
            if not alike:
                ((grown, us),) = self._changes(row.labels, column)
            elif last.present[at := last.places[row.labels] + i]:
                grown, us = last.totals[at] - first.totals[at], passed_us
            else:
                continue
            if us > 0:
                yield row.labels, grown, us

    def _last(self, scope: str) -> dict[Labels, Values]:
        """Return what the last sample has of a scope, by entity."""
        found = self._values.get(scope)
        if found is None:
            found = {row.labels: row.values for row in self.sample.rows(scope)}
            self._values[scope] = found
        return found

    def _changes(self, labels: Labels, columns: Columns) -> list[tuple[float, int]]:
        """Return by how much an entity's totals grew, and in how much time of being read."""
        last, first = self.last.totals[columns.scope], self.first.totals[columns.scope]
        at = last.places.get(labels)
        if at is None:
            return [(0.0, 0)] * len(columns.places)
        end, start = last.totals, first.totals
        began = first.places.get(labels)
        if began is None:
            return [(end[at + i], last.covered_us(at + i)) for i in columns.places]
        return [
            (end[at + i] - start[began + i], last.covered_us(at + i) - first.covered_us(began + i))
            for i in columns.places
        ]


class NodeView(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One node at one instant.

    Attributes:
        name: as in the job file.
        link: last change of the link; None before the first.
        hello: what the running agent said of its node; None before it did.
        age_us: since the last sample came; None before the first.
        interval_us: between ticks.
        sample: the last one; None before the first.
        points: of the last half minute or so, oldest first; only of the current agent.
        faults: the last few, oldest first.
    """

    name: str
    link: Link | None
    hello: Hello | None
    age_us: int | None
    interval_us: int
    sample: Sample | None
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

    def window(self, seconds: float) -> Window | None:
        """Return the last `seconds`, or as much as there is; None with fewer than two samples."""
        if len(self.points) < 2 or self.sample is None:
            return None
        last = self.points[-1]
        start_us = last.node_mono_us - seconds * 1e6
        first = self.points[0]
        for point in reversed(self.points[:-1]):
            first = point
            if point.node_mono_us <= start_us:
                break
        return Window(self.sample, first, last, self._values)

    def readings(self, scope: str, labels: Labels, metric: str, seconds: float) -> list[float]:
        """Return what a gauge was, sample by sample, over the last `seconds`."""
        since_us = self.points[-1].node_mono_us - seconds * 1e6 if self.points else 0.0
        column, found = _column(scope, metric), []
        for first, last in pairwise(self.points):
            if self.sample is not None and last.node_mono_us > since_us:
                found += Window(self.sample, first, last).rates_of(labels, column)
        return [value for value in found if value is not None]

    def absences(self) -> Iterator[tuple[str, str]]:
        """Yield what could not be read, and why: (source or source.metric, reason)."""
        if self.sample is not None:
            for row in self.sample.rows("absence"):
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
