"""Verdicts as columns, so that days are told without reading what was shown at each tick.

`judged` has a row for each tick that was judged, `activity` one for each node and tick, and `stretch`
one for as long as a verdict's state, cause and culprits stayed the same, with the evidence of the
tick at which it was surest.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import polars as pl

from gpuwatch.model.verdict import Candidate, Finding, JobVerdict, Missing, Recurring, Verdict
from gpuwatch.recording.record import Shown

__all__ = ["TOLD", "Evidence", "Stretches", "joined"]

TOLD = ("judged", "stretch", "activity")
"""The tables that are laid out here. Recordings of before they were there are read by `shown`."""
_Key = tuple[str, str | None, str | None, str | None]
_ENCODER = msgspec.json.Encoder()


class Evidence(msgspec.Struct, frozen=True):
    """What a verdict rests on, as the column `evidence` has it."""

    waiting: tuple[str, ...] = ()
    support: tuple[Finding, ...] = ()
    against: tuple[Finding, ...] = ()
    missing: tuple[Missing, ...] = ()
    candidates: tuple[Candidate, ...] = ()


class _Open:
    """A stretch that may still grow."""

    __slots__ = ("begin", "last", "last_event_no", "surest")

    def __init__(self, shown: Shown, verdict: Verdict) -> None:
        self.begin = shown.wall_us, shown.event_no
        self.last_event_no = shown.event_no
        self.last = self.surest = verdict

    def grow(self, shown: Shown, verdict: Verdict) -> None:
        self.last_event_no = shown.event_no
        self.last = verdict
        if verdict.confidence >= self.surest.confidence:
            self.surest = verdict


class Laid(NamedTuple):
    """Rows of each table, as `schema` orders their cells."""

    judged: list[tuple[Any, ...]]
    stretch: list[tuple[Any, ...]]
    activity: list[tuple[Any, ...]]


class Stretches:
    """Lays out what was shown, tick by tick."""

    def __init__(self) -> None:
        self._open: dict[_Key, _Open] = {}
        self._recurring: tuple[Recurring, ...] | None = None
        self._laid = Laid([], [], [])

    def take(self, records: Iterable[Shown]) -> None:
        """Take the next ticks."""
        for shown in records:
            self._judged(shown)
            self._told(shown, shown.verdict)

    def close(self) -> Laid:
        """Return all rows, in order."""
        for key, stretch in self._open.items():
            self._laid.stretch.append(_row(key, stretch))
        self._open.clear()
        self._laid.stretch.sort(key=lambda row: row[1])
        return self._laid

    def _judged(self, shown: Shown) -> None:
        said = shown.verdict
        same = said.recurring == self._recurring
        recurring = None if same else _ENCODER.encode(said.recurring).decode()
        self._recurring = said.recurring
        self._laid.judged.append((shown.wall_us, shown.event_no, said.slowdown, recurring))
        for node in said.nodes:
            if node.node is not None and node.shares is not None:
                shares = node.shares.compute, node.shares.unknown
                self._laid.activity.append((shown.wall_us, shown.event_no, node.node, *shares))

    def _told(self, shown: Shown, said: JobVerdict) -> None:
        verdicts = {_key(verdict): verdict for verdict in (said.job, *said.nodes, *said.ranks)}
        for key in self._open.keys() - verdicts.keys():
            self._laid.stretch.append(_row(key, self._open.pop(key)))
        for key, verdict in verdicts.items():
            stretch = self._open.get(key)
            if stretch is not None and _essence(stretch.last) == _essence(verdict):
                stretch.grow(shown, verdict)
                continue
            if stretch is not None:
                self._laid.stretch.append(_row(key, stretch))
            self._open[key] = _Open(shown, verdict)


def _key(verdict: Verdict) -> _Key:
    # The group of a node is that of its ranks, and may become known while it goes on.
    group = verdict.group if verdict.scope == "rank" else None
    return verdict.scope, verdict.node, verdict.rank, group


def _cause(verdict: Verdict) -> str | None:
    return None if verdict.state == "PEER" else verdict.cause


def _essence(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.state, _cause(verdict), verdict.culprits


def _row(key: _Key, stretch: _Open) -> tuple[Any, ...]:
    last, best = stretch.last, stretch.surest
    evidence = Evidence(best.waiting, best.support, best.against, best.missing, best.candidates)
    return (
        *stretch.begin, stretch.last_event_no, *key[:3], best.group, best.state, _cause(best),
        _ENCODER.encode(best.culprits).decode(), last.suspected_us, last.confirmed_us, best.confidence,
        _ENCODER.encode(evidence).decode(),
    )  # fmt: skip


def joined(rows: pl.DataFrame, ticks: pl.Series) -> pl.DataFrame:
    """Return stretches with those that go on as one, those of the same job, node or rank together.

    Args:
        rows: of a `stretch` table, in order.
        ticks: `event_no` of all that were judged, in order.
    """
    what = ["state", "cause", "culprits"]
    who = ["scope", "node", "rank", "of"]
    before = ticks.search_sorted(rows["last_event_no"]).alias("before")
    follows = pl.col("place") == pl.col("before").shift(1) + 1
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in what)
    surest = pl.col("confidence") == pl.col("confidence").max()
    return (
        rows.with_columns(before, ticks.search_sorted(rows["event_no"]).alias("place"))
        .with_columns(of=pl.when(pl.col("scope") == "rank").then("group"))
        .with_columns(run=(~(follows & same)).fill_null(value=True).cum_sum().over(who))
        .group_by(*who, "run", maintain_order=True)
        .agg(
            pl.col("t", "event_no", *what).first(),
            pl.col("last_event_no", "suspected_us", "confirmed_us").last(),
            pl.col("group", "confidence", "evidence").filter(surest).last(),
        )
        .select(rows.columns)
        .sort("scope", "node", "rank", "event_no", maintain_order=True)
    )
