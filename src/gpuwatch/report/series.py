"""What was measured, over time: rates of a recording's counters, in equal bins.

A counter's growth between two readings of one agent counts for the bin of the latter; one that
fell was reset, and a pause is no reading: neither counts. A bin without a reading is None.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuwatch.errors import RecordingError

if TYPE_CHECKING:
    import polars as pl

    from gpuwatch.recording.reader import Recording

__all__ = [
    "NETWORK", "QUANTITIES", "RETRANSMITS", "RTT", "STORAGE_BYTES", "STORAGE_LATENCY",
    "Bins", "Quantity", "Series", "collected", "measured",
]  # fmt: skip

PAUSE_S = 10.0
"""Readings further apart do not follow each other, as in `model.derive`."""
BRIDGED = 10
"""Readings that may lack a counter before it is back: what is dear is read seldom, and counts on."""
PORTION_US = 4 * 3_600_000_000

READINGS = 60
"""Readings that a bin's rate is taken from, where there are more:"""
LEAST_STRIDE_US, LONGEST_STRIDE_US = 3_000_000, 8_000_000
"""one each so many microseconds, if that spares two of three at an interval of a second."""
MOST = 50
"""Entities of all nodes together: those that were read most."""


class Source(NamedTuple):
    """Where a quantity is read.

    Attributes:
        table: of the recording.
        entity: column that names what was measured; None: the node itself.
        grown: counters whose growth is summed; of one that begins with `-` it is taken off.
        per: counters that it is divided by; none: seconds. A gauge is its mean.
        scale: from the counters' unit to the quantity's.
        least: of the divisor, below which a bin tells nothing.
        only: a column and the value that its rows must have.
    """

    table: str
    entity: str | None
    grown: tuple[str, ...]
    per: tuple[str, ...] = ()
    scale: float = 1.0
    least: float = 0.0
    only: tuple[str, str] | None = None
    gauge: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The values that are read."""
        return (*(name.lstrip("-") for name in self.grown), *self.per)


class Quantity(NamedTuple):
    """What is told of over time.

    Attributes:
        name: as in JSON.
        title: for a person.
        unit: of its values.
        sources: where it is read; entities of all of them are told.
        floor: a level below which it is nobody's trouble.
        busiest: whether a node's busiest entity stands for it: interfaces stand on each other.
        adds: whether nodes add up; else they are pooled.
    """

    name: str
    title: str
    unit: str
    sources: tuple[Source, ...]
    floor: float
    busiest: bool = False
    adds: bool = False


_DISKS = ("layer", "disk")
NETWORK = Quantity(
    "network", "Network", "MB/s",
    (Source("nic", "nic", ("rx_bytes", "tx_bytes"), scale=1e-6),
     Source("rdma", "port", ("rx_bytes", "tx_bytes"), scale=1e-6)),
    1.0, busiest=True, adds=True,
)  # fmt: skip
RETRANSMITS = Quantity(
    "retransmits", "TCP segments sent again", "%",
    (Source("node", None, ("tcp_retrans_segs", "-tcp_loss_probes"), ("tcp_out_segs",), 100.0, least=100.0),),
    0.1,
)  # fmt: skip
RTT = Quantity(
    "peer_rtt", "Round trip to peers", "ms",
    (Source("connection", None, ("rtt_us",), scale=1e-3, only=("role", "main"), gauge=True),),
    0.3,
)  # fmt: skip
STORAGE_LATENCY = Quantity(
    "storage_latency", "Storage latency", "ms",
    (Source("mount", "mount", ("read_exe_ms", "write_exe_ms", "commit_exe_ms", "meta_exe_ms"),
            ("read_ops", "write_ops", "commit_ops", "meta_ops"), least=1.0),
     Source("disk", "disk", ("read_ms", "write_ms"), ("reads", "writes"), least=1.0, only=_DISKS)),
    5.0,
)  # fmt: skip
STORAGE_BYTES = Quantity(
    "storage_bytes", "Storage read and written", "MB/s",
    (Source("mount", "mount", ("read_bytes", "write_bytes"), scale=1e-6),
     Source("disk", "disk", ("read_bytes", "write_bytes"), scale=1e-6, only=_DISKS)),
    1.0, adds=True,
)  # fmt: skip
QUANTITIES = (NETWORK, RETRANSMITS, RTT, STORAGE_LATENCY, STORAGE_BYTES)


class Bins(NamedTuple):
    """Equal stretches of wall-clock time, in microseconds."""

    begin_us: int
    width_us: int
    number: int


class Series(NamedTuple):
    """One entity's values, one a bin; `node` is None where nodes are taken together."""

    node: str | None
    entity: str | None
    values: tuple[float | None, ...]


def measured(
    recording: "Recording", quantity: Quantity, bins: Bins, *, by_node: bool = True
) -> list[Series]:
    """Return a quantity over time, for every entity that has a value.

    Args:
        recording: to read.
        quantity: what.
        bins: of which time.
        by_node: whether nodes are told apart.

    Raises:
        RecordingError: the recording cannot be read.
    """
    found: _Found = {}
    for source in quantity.sources:
        for key, sums in _sums(recording.table(source.table), source, bins).items():
            found[key] = _Kept(source, sums)
    if quantity.busiest:
        found = _busiest(found)
    if by_node:
        return [Series(*key, found[key].values(bins)) for key in sorted(found, key=repr)]
    return _together(found, quantity, bins)


def collected(rows: "pl.LazyFrame") -> "pl.DataFrame":
    """Return rows of a recording, in pieces that memory bears.

    Raises:
        RecordingError: what they are read from is not what the recording says.
    """
    from gpuwatch.recording.segment import READ_ERRORS

    try:
        return rows.collect(engine="streaming")
    except READ_ERRORS as error:
        reason = str(error).partition("\n")[0]
        raise RecordingError(f"a table of the recording cannot be read: {reason}") from None


Key = tuple[str | None, str | None]
Sums = dict[int, tuple[float, float]]
"""What grew and what it is divided by, by the number of the bin."""


class _Kept(NamedTuple):
    source: Source
    sums: Sums

    def values(self, bins: Bins) -> tuple[float | None, ...]:
        return tuple(self._value(self.sums.get(number)) for number in range(bins.number))

    def _value(self, found: tuple[float, float] | None) -> float | None:
        if found is None or found[1] <= 0 or found[1] < self.source.least:
            return None
        value = max(0.0, found[0]) / found[1] * self.source.scale
        return value if math.isfinite(value) else None


_Found = dict[Key, _Kept]


def _sums(table: "pl.LazyFrame", source: Source, bins: Bins) -> dict[Key, Sums]:
    """Return the sums of each entity in each bin, some hours after the others: memory is bounded."""
    found: dict[Key, Sums] = {}
    step = max(1, PORTION_US // bins.width_us)
    for first in range(0, bins.number, step):
        portion = Bins(
            bins.begin_us + first * bins.width_us, bins.width_us, min(step, bins.number - first)
        )
        for key, number, grown, over in _portion(table, source, portion):
            found.setdefault(key, {})[first + number] = grown, over
    return found


def _portion(
    table: "pl.LazyFrame", source: Source, bins: Bins
) -> Iterator[tuple[Key, int, float, float]]:
    """Yield the sums of each entity in each bin."""
    import polars as pl

    keys = ["node"] if source.entity is None else ["node", source.entity]
    end_us = bins.begin_us + bins.width_us * bins.number
    at_us = pl.col("t").dt.epoch("us")
    rows = table.filter(at_us.is_between(bins.begin_us, end_us, closed="left"))
    if source.only is not None:
        rows = rows.filter(pl.col(source.only[0]) == source.only[1])
    binned = collected(
        _parts(rows, source, keys, _stride_us(bins))
        .filter(pl.col("grown").is_not_null() & pl.col("over").is_not_null())
        .group_by(*keys, ((at_us - bins.begin_us) // bins.width_us).alias("bin"))
        .agg(pl.col("grown").sum(), pl.col("over").sum())
    )
    for *key, number, grown, over in binned.select(*keys, "bin", "grown", "over").iter_rows():
        node, entity = (*key, None)[:2]
        yield (node, entity), number, grown, over


def _stride_us(bins: Bins) -> int:
    """Return how far apart readings may be taken: counters count on, and a wide bin needs but some."""
    return min(LONGEST_STRIDE_US, bins.width_us // READINGS)


def _parts(rows: "pl.LazyFrame", source: Source, keys: list[str], stride_us: int) -> "pl.LazyFrame":
    """Return, for each reading taken, what grew since the one before and what it is divided by."""
    import polars as pl

    if source.gauge:
        (name,) = source.grown
        return rows.select("t", *keys, grown=pl.col(name).cast(pl.Float64), over=pl.lit(1.0))
    whose = [*keys, "agent_id"]
    if stride_us >= LEAST_STRIDE_US:
        turn = (pl.col("mono_us") // stride_us).alias("turn")
        # Counters only grow: the least is the first that was read.
        rows = rows.group_by(*whose, turn).agg(
            pl.col("t", "event_no", "mono_us", *source.columns).min()
        )
    longest_s = PAUSE_S + stride_us / 1e6
    seconds = (pl.col("mono_us").diff() / 1e6).over(whose)
    follows = (seconds > 0) & (seconds <= longest_s)

    def growth(name: str) -> pl.Expr:
        step = pl.col(name).cast(pl.Float64).forward_fill(BRIDGED).diff().over(whose)
        return pl.when(follows & (step >= 0)).then(step)

    def total(names: Sequence[str]) -> pl.Expr:
        steps = [-growth(n[1:]) if n.startswith("-") else growth(n) for n in names]
        known = pl.any_horizontal(step.is_not_null() for step in steps)
        return pl.when(known).then(pl.sum_horizontal(steps))

    over = total(source.per) if source.per else pl.when(follows).then(seconds)
    return rows.sort("event_no", maintain_order=True).select(
        "t", *keys, grown=total(source.grown), over=over
    )


def _busiest(found: _Found) -> _Found:
    """Return of each node the entity that grew most."""
    best: dict[str | None, Key] = {}
    for key, kept in found.items():
        before = best.get(key[0])
        if before is None or _grown(kept) > _grown(found[before]):
            best[key[0]] = key
    return {key: found[key] for key in best.values()}


def _grown(kept: _Kept) -> float:
    return sum(grown for grown, _ in kept.sums.values())


def _together(found: _Found, quantity: Quantity, bins: Bins) -> list[Series]:
    """Return what nodes have in common as one: a path that all mount, a disk of one name."""
    groups: dict[str | None, list[_Kept]] = {}
    for (_, entity), kept in found.items():
        groups.setdefault(None if quantity.busiest else entity, []).append(kept)
    made = [
        Series(None, entity, _added(group, bins) if quantity.adds else _pooled(group, bins))
        for entity, group in sorted(groups.items(), key=repr)
    ]
    return sorted(made, key=lambda series: series.values.count(None))[:MOST]


def _added(group: list[_Kept], bins: Bins) -> tuple[float | None, ...]:
    """Return the sum over nodes; a bin that one of them lacks has none: it would read too low."""
    return tuple(
        None if None in column else sum(value for value in column if value is not None)
        for column in zip(*(kept.values(bins) for kept in group), strict=True)
    )


def _pooled(group: list[_Kept], bins: Bins) -> tuple[float | None, ...]:
    """Return the mean over all that was counted on any node."""
    sums: Sums = {}
    for kept in group:
        for number, (grown, over) in kept.sums.items():
            before = sums.get(number, (0.0, 0.0))
            sums[number] = before[0] + grown, before[1] + over
    return _Kept(group[0].source, sums).values(bins)
