"""Events of jobs of any size and length, drawn from a short recording of real kernels.

Each node is eight ranks; each rank, its GPU, port, threads and connections go their own way through
the seconds of a recorded node: mostly on to the next second, now and then to any other; or all go
through the same ones. Counters
grow by what they grew in that second, times a little noise, so that nothing comes twice.
"""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gpuwatch.recording
from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import COUNTER, Label, Labels, Values
from gpuwatch.model.event import AnyEvent, Hello, Row, Sample, Tick

__all__ = ["Job", "recorded"]

RANKS = 8
ON = 0.9
"""How likely a rank goes on to the next second."""
NOISE = 0.05
EXACT = 64
"""Growth up to here stays as it was recorded: these are counts of rare things."""
JITTER_US = 400
OF_NODE = frozenset({"node", "disk", "mount", "kworker", "progress", "absence"})
"""Scopes that a node has once; the others are there once a rank."""
RENAMED = {"gpu": 1, "rank": 1, "pid": 1000, "core": 1, "uuid": 1, "nic": 1, "port": 1, "cgroup": 1}
"""Labels that tell ranks apart, and by how much two of them differ."""
Second = list[dict[Labels, Values]]
"""What a node told in one second, by scope."""


def recorded(place: Path) -> list[tuple[Hello, list[Second]]]:
    """Return each node's hello, and its seconds, of a recording."""
    hellos: dict[str, Hello] = {}
    seconds: defaultdict[str, list[Second]] = defaultdict(list)
    for event in gpuwatch.recording.open(place).events():
        if isinstance(event, Hello):
            hellos[event.node] = event
        elif isinstance(event, Sample):
            rows = [{row.labels: row.values for row in table} for table in event.tables]
            seconds[event.node].append(rows)
    return [(hellos[node], seconds[node]) for node in seconds]


class _Walk:
    """One rank's way through the seconds of a node: which rows it has, and their values."""

    def __init__(
        self,
        seconds: Sequence[Second],
        scopes: Sequence[int],
        rank: int,
        seed: str,
        order: Sequence[int],
    ) -> None:
        self._seconds = seconds
        self._scopes = scopes
        self._rank = rank
        self._random = random.Random(seed)
        self._order = itertools.cycle(order) if order else None
        self._at = self._random.randrange(len(seconds))
        self._totals: dict[tuple[int, Labels], list[Any]] = {}

    def step(self) -> dict[int, list[Row]]:
        """Go on by a second."""
        if self._order is not None:
            self._at = next(self._order)
        elif self._at + 1 == len(self._seconds) or self._random.random() > ON:
            self._at = self._random.randrange(1, len(self._seconds))
        else:
            self._at += 1
        before = self._at - 1
        return {
            scope: list(self._rows(scope, self._seconds[before][scope])) for scope in self._scopes
        }

    def _rows(self, scope: int, before: dict[Labels, Values]) -> Iterator[Row]:
        for labels, values in self._seconds[self._at][scope].items():
            yield Row(
                _renamed(scope, labels, self._rank),
                self._grown(scope, labels, before.get(labels, values), values),
            )

    def _grown(self, scope: int, labels: Labels, before: Values, now: Values) -> Values:
        metrics = catalogue.VALUES[catalogue.SCOPES[scope]]
        totals = self._totals.setdefault((scope, labels), list(before))
        for place, metric in enumerate(metrics):
            old, new = before[place], now[place]
            if metric.kind != COUNTER or old is None or new is None or totals[place] is None:
                totals[place] = new
                continue
            growth: int | float = max(new - old, 0)
            if growth > EXACT:
                growth *= self._random.gauss(1, NOISE)
            totals[place] += round(growth) if metric.type == "int" else growth
        return tuple(totals)


def _renamed(scope: int, labels: Labels, rank: int) -> Labels:
    if not rank:
        return labels
    names = [row.name for row in catalogue.LABELS[catalogue.SCOPES[scope]]]
    return tuple(
        _other(label, rank * RENAMED[name]) if name in RENAMED else label
        for name, label in zip(names, labels, strict=True)
    )


def _other(label: Label, by: int) -> Label:
    if isinstance(label, int):
        return label + by
    if label is None:
        return None
    return str(int(label) + by) if label.isdigit() else f"{label}-{by}"


class _Node:
    """A node of eight ranks."""

    def __init__(
        self, name: str, hello: Hello, seconds: Sequence[Second], order: Sequence[int]
    ) -> None:
        self.name = name
        self.hello = hello
        places = range(len(catalogue.SCOPES))
        own = [p for p in places if catalogue.SCOPES[p] in OF_NODE]
        each = [p for p in places if catalogue.SCOPES[p] not in OF_NODE]
        self._walks = [_Walk(seconds, own, 0, name, order)]
        self._walks += [
            _Walk(seconds, each, rank, f"{name} {rank}", order) for rank in range(RANKS)
        ]
        self.random = random.Random(name)

    def tables(self) -> tuple[tuple[Row, ...], ...]:
        found: defaultdict[int, list[Row]] = defaultdict(list)
        for walk in self._walks:
            for scope, rows in walk.step().items():
                found[scope] += rows
        return tuple(tuple(found[place]) for place in range(len(catalogue.SCOPES)))


class Job:
    """A job of so many nodes of eight ranks: `seconds()` is what a feed would bring.

    Args:
        source: a recording.
        nodes: how many.
        start_us: wall clock.
        order: the seconds that all ranks go through together, over and over; none: each goes its own way.
    """

    def __init__(
        self,
        source: Path,
        nodes: int,
        start_us: int = 1_790_000_000_000_000,
        order: Sequence[int] = (),
    ) -> None:
        self._kinds = recorded(source)
        self.names = [f"gpu{number:03}" for number in range(1, nodes + 1)]
        self._nodes = [
            _Node(name, *self._kinds[place % len(self._kinds)], order)
            for place, name in enumerate(self.names)
        ]
        self._start_us = start_us
        self._event_no = -1

    def seconds(self, count: int) -> Iterator[list[AnyEvent]]:
        """Yield the events of each second: a sample of every node, and a tick."""
        yield [
            Hello(**self._stamps(0), node=n.name, boot_id="b", agent_id="a", facts=n.hello.facts)
            for n in self._nodes
        ]
        for second in range(count):
            yield [
                *(self._sample(node, second) for node in self._nodes),
                Tick(**self._stamps((second + 1) * 1_000_000)),
            ]

    def _sample(self, node: _Node, second: int) -> Sample:
        read_us = second * 1_000_000 + abs(round(node.random.gauss(0, JITTER_US)))
        took_us = 1500 + abs(round(node.random.gauss(0, JITTER_US)))
        return Sample(
            **self._stamps(read_us + took_us), node=node.name, boot_id="b", agent_id="a",
            sequence=second, generation=1, node_mono_us=read_us,
            node_wall_us=self._start_us + read_us, offset_us=round(node.random.gauss(-200, 40)),
            offset_error_us=300, tables=node.tables(),
        )  # fmt: skip

    def _stamps(self, us: int) -> dict[str, int]:
        self._event_no += 1
        return {"event_no": self._event_no, "arrived_us": us, "wall_us": self._start_us + us}
