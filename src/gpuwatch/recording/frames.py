"""Records to tables: one polars frame a table."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat
from operator import attrgetter
from typing import Any

import msgspec
import polars as pl

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Labels, Metric, Values
from gpuwatch.model.event import Fault, Hello, Link, Marker, Row, Sample, Tick
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.recording.record import JudgeState, Record, Shown
from gpuwatch.recording.schema import AGENT, SAMPLE, STAMP, TYPES, schema
from gpuwatch.recording.stretches import Stretches

__all__ = ["frames"]

BATCH = 128
"""Records that are Python objects at once, of 0.2 MB each: one second of 128 nodes of 8 GPUs."""


def frames(records: Iterable[Record]) -> dict[str, pl.DataFrame]:
    """Lay records out as tables; only tables that have rows."""
    parts: defaultdict[str, list[pl.DataFrame]] = defaultdict(list)
    verdicts, stretches = _Verdicts(), Stretches()
    rest = iter(records)
    while batch := list(islice(rest, BATCH)):
        stretches.take(record for record in batch if isinstance(record, Shown))
        for name, frame in _batch(batch, verdicts).items():
            if frame.height:
                parts[name].append(frame)
    for name, rows in stretches.close()._asdict().items():
        if rows:
            parts[name].append(pl.DataFrame(_columns(schema(name), rows)))
    return {name: pl.concat(found) for name, found in parts.items()}


def _batch(records: Iterable[Record], verdicts: "_Verdicts") -> dict[str, pl.DataFrame]:
    of: defaultdict[type, list[Any]] = defaultdict(list)
    for record in records:
        of[type(record)].append(record)
    notes = sorted(of[Hello] + of[Fault] + of[Marker], key=attrgetter("event_no"))
    return _sample_frames(of[Sample]) | {
        "link": _frame("link", of[Link], (lambda e: (e.node, e.state, e.step, e.reason, e.hint))),
        "tick": _frame("tick", of[Tick], lambda _: ()),
        "event": _frame("event", notes, _note_cells),
        "verdict": verdicts.changes(of[Shown]),
        "shown": verdicts.shown(of[Shown]),
        "judge_state": _frame("judge_state", of[JudgeState], _state_cells),
    }


def _columns(wanted: Mapping[str, Any], rows: Sequence[tuple[Any, ...]]) -> dict[str, pl.Series]:
    cells = zip(*rows, strict=True) if rows else repeat((), len(wanted))
    return {
        name: _series(name, column, dtype)
        for (name, dtype), column in zip(wanted.items(), cells, strict=True)
    }


def _series(name: str, column: Iterable[Any], dtype: Any) -> pl.Series:
    # polars reads microseconds as a plain integer and would convert a Python datetime slowly.
    raw = pl.Int64 if name == "t" else dtype
    return pl.Series(name, column, dtype=raw, strict=False).cast(dtype)


def _frame(table: str, records: Sequence[Any], cells: Any) -> pl.DataFrame:
    rows = [(r.wall_us, r.event_no, r.arrived_us, *cells(r)) for r in records]
    return pl.DataFrame(_columns(schema(table), rows))


def _note_cells(note: Hello | Fault | Marker) -> tuple[str | None, ...]:
    match note:
        case Hello():
            facts = msgspec.json.encode(note.facts).decode()
            return ("hello", note.node, note.boot_id, note.agent_id, None, None, facts)
        case Fault():
            return ("fault", note.node, None, None, note.source, note.text, None)
        case Marker():
            return ("marker", None, None, None, None, note.text, None)


def _state_cells(state: JudgeState) -> tuple[bytes, str]:
    return state.state, msgspec.json.encode(state.standing).decode()


class _Verdicts:
    """Lays out verdicts, and knows the last ones of the batch before."""

    def __init__(self) -> None:
        self._last: JobVerdict | None = None
        self._essence: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def shown(self, records: Iterable[Shown]) -> pl.DataFrame:
        """Lay them out whole, null where one equals the one before."""
        rows = []
        for record in records:
            same = record.verdict == self._last
            text = None if same else msgspec.json.encode(record.verdict).decode()
            rows.append((record.wall_us, record.event_no, text))
            self._last = record.verdict
        return pl.DataFrame(_columns(schema("shown"), rows))

    def changes(self, records: Iterable[Shown]) -> pl.DataFrame:
        """Lay out who waits on what, for people's queries: at first, and when it changed."""
        rows = []
        for record in records:
            for v in (record.verdict.job, *record.verdict.nodes, *record.verdict.ranks):
                who = (v.scope, v.node, v.rank, v.group)
                what = _essence(v)
                if self._essence.get(who) != what:
                    self._essence[who] = what
                    rows.append((record.wall_us, record.event_no, *who, *_verdict_cells(v)))
        return pl.DataFrame(_columns(schema("verdict"), rows))


def _essence(v: Verdict) -> tuple[Any, ...]:
    return v.state, v.cause, v.culprits, v.suspected_us is None, v.confirmed_us is None


def _verdict_cells(v: Verdict) -> tuple[Any, ...]:
    culprits = [culprit.id for culprit in v.culprits]
    suspected, confirmed = v.suspected_us is not None, v.confirmed_us is not None
    waiting = list(v.waiting)
    return (v.state, v.cause, culprits, waiting, v.confidence, suspected, confirmed, v.text)


def _sample_frames(samples: Sequence[Sample]) -> dict[str, pl.DataFrame]:
    heads = [
        (s.wall_us, s.event_no, s.node, s.boot_id, s.agent_id, s.sequence, s.node_mono_us)
        for s in samples
    ]
    head = pl.DataFrame(_columns(STAMP | AGENT, heads))
    laid = {}
    for place, scope in enumerate(catalogue.SCOPES):
        if scope == "node":
            rows = [(i, row) for i, s in enumerate(samples) for row in s.tables[place] or (_BLANK,)]
        else:
            rows = [(i, row) for i, s in enumerate(samples) for row in s.tables[place]]
        part = head.select(pl.all().gather([i for i, _ in rows]))
        if scope == "node":
            part = part.hstack(_own_columns([samples[i] for i, _ in rows], place))
        part = part.hstack(_entity_columns(catalogue.LABELS[scope], [r.labels for _, r in rows]))
        laid[scope] = part.hstack(
            _entity_columns(catalogue.VALUES[scope], [r.values for _, r in rows])
        )
    return laid


_BLANK = Row((None,) * len(catalogue.LABELS["node"]), (None,) * len(catalogue.VALUES["node"]))


def _own_columns(samples: Sequence[Sample], place: int) -> list[pl.Series]:
    rows = [
        (
            s.arrived_us,
            s.generation,
            s.node_wall_us,
            s.offset_us,
            s.offset_error_us,
            None if s.tables[place] else True,
        )
        for s in samples
    ]
    return list(_columns(SAMPLE, rows).values())


def _entity_columns(
    declared: Sequence[Metric], rows: Sequence[Labels] | Sequence[Values]
) -> list[pl.Series]:
    return list(_columns({row.name: TYPES[row.type] for row in declared}, rows).values())
