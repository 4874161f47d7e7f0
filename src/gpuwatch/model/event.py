"""Events: all that the judge, the recorder and the screen ever see of the world.

Every event carries its place in the total order of the recording (`event_no`) and when it came,
on the viewer's monotonic clock (`arrived_us`) and wall clock (`wall_us`), both in microseconds.
Nothing below the feed reads a clock.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Labels, Values

__all__ = ["Event", "Fault", "Hello", "Link", "Marker", "Row", "Sample", "Tick"]


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entity's labels and values, each in catalogue order; None is missing, never zero."""

    labels: Labels
    values: Values


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What all events have."""

    event_no: int
    arrived_us: int
    wall_us: int


class Hello(Event, frozen=True, kw_only=True, tag="hello"):
    """A node's agent has started.

    `facts` are plain words about the node: `hostname`, `kernel`, `python`, `python_mount` (the network
    file system that it is on, if it is on one), `user`, `uid`,
    `cpus` (allowed), `memory_bytes`, `addresses` (its own, separated by spaces), `schema`,
    `interval_s`, `version`.
    """

    node: str
    boot_id: str
    agent_id: str
    facts: dict[str, str | int | float | None]


class Sample(Event, frozen=True, kw_only=True, tag="sample"):
    """One data frame, decoded: absolute values of every entity that the agent read.

    Attributes:
        node: name as in the job file.
        boot_id: of the node's kernel.
        agent_id: 64 random bits an agent start, hexadecimal.
        sequence: of the frame, from 0, since the agent's start.
        generation: of names that the frame was encoded under.
        node_mono_us: the node's monotonic clock when the readings were taken.
        node_wall_us: its wall clock then.
        offset_us: node's wall clock less viewer's, from four timestamps; None before the first.
        offset_error_us: half of the round trip that `offset_us` was taken from.
        tables: one tuple of rows a scope, in the order of `catalogue.SCOPES`.
    """

    node: str
    boot_id: str
    agent_id: str
    sequence: int
    generation: int
    node_mono_us: int
    node_wall_us: int
    offset_us: int | None
    offset_error_us: int | None
    tables: tuple[tuple[Row, ...], ...]

    def rows(self, scope: str) -> tuple[Row, ...]:
        """Return the rows of one scope."""
        return self.tables[_PLACE[scope]]


class Link(Event, frozen=True, kw_only=True, tag="link"):
    """The link to a node changed.

    Attributes:
        node: whose link.
        state: `connecting`, `streaming`, `lost` (will be tried again), `refused` (will not:
            what is wrong does not heal by itself), `ended`.
        step: last step reached: `resolve`, `connect`, `host key`, `login`, `shell`, `python`,
            `hello`, `streaming`.
        reason: why, one line; None when all is well.
        hint: the one thing to do about it, one line; None when nothing.
    """

    node: str
    state: str
    step: str
    reason: str | None = None
    hint: str | None = None


class Fault(Event, frozen=True, kw_only=True, tag="fault"):
    """Something went wrong that is not a link: a damaged frame, an insane value, a full disk."""

    node: str | None
    source: str
    text: str


class Marker(Event, frozen=True, kw_only=True, tag="marker"):
    """A note that a person set at this instant."""

    text: str


class Tick(Event, frozen=True, kw_only=True, tag="tick"):
    """Now. The judge runs on ticks and nowhere else."""


AnyEvent = Hello | Sample | Link | Fault | Marker | Tick

_PLACE: Mapping[str, int] = MappingProxyType({s: i for i, s in enumerate(catalogue.SCOPES)})
