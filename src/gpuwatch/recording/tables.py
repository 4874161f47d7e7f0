"""Records as tables, and back: one polars frame a table, typed from the catalogue.

A sample is one row of `node` (always, so that a sample without any reading stays one), and one
row an entity in its scope's table. Rows keep the order in which they came.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby, repeat
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
import polars as pl

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Labels, Metric, Values
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Marker, Row, Sample, Tick
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.recording.record import JudgeState, Record, Shown

__all__ = ["events", "fit", "frames", "judge_states", "schema", "shown", "tables"]

_LINK = ("node", "state", "step", "reason", "hint")
_NOTE = ("node", "boot_id", "agent_id", "source", "text", "facts")
_STAMP = {"t": pl.Datetime("us", "UTC"), "event_no": pl.Int64}
_EVENT = _STAMP | {"arrived_us": pl.Int64}
_AGENT = {
    "node": pl.String, "boot_id": pl.String, "agent_id": pl.String,
    "sequence": pl.Int64, "mono_us": pl.Int64,
}  # fmt: skip
_SAMPLE = {
    "arrived_us": pl.Int64, "generation": pl.Int64, "node_wall_us": pl.Int64,
    "offset_us": pl.Int64, "offset_error_us": pl.Int64,
    "unread": pl.Boolean,  # true where the sample had no row of its own for the node
}  # fmt: skip
_OWN: dict[str, dict[str, Any]] = {
    "link": _EVENT | dict.fromkeys(_LINK, pl.String),
    "tick": _EVENT,
    "event": _EVENT | dict.fromkeys(("kind", *_NOTE), pl.String),
    "verdict": _STAMP
    | dict.fromkeys(("scope", "node", "rank", "group", "state", "cause"), pl.String)
    | {"culprits": pl.List(pl.String), "waiting": pl.List(pl.String), "confidence": pl.Float64}
    | {"suspected": pl.Boolean, "confirmed": pl.Boolean, "text": pl.String},
    "shown": _STAMP | {"verdict": pl.String},
    "judge_state": _EVENT | {"state": pl.Binary, "standing": pl.String},
}
_REQUIRED = {"t", "event_no", "arrived_us", "generation", "node_wall_us", *_AGENT}
_OPTIONAL = {("event", c) for c in _AGENT} | {("verdict", "node")}
_TYPES = {"int": pl.Int64, "float": pl.Float64, "str": pl.String}

_STANDING = msgspec.json.Decoder(tuple[Hello | Link, ...])
_FACTS = msgspec.json.Decoder(dict[str, str | int | float | None])
_VERDICT = msgspec.json.Decoder(JobVerdict)


def tables() -> tuple[str, ...]:
    """Return the names of all tables: the catalogue's scopes, then the recording's own."""
    return (*catalogue.SCOPES, *_OWN)


@cache
def schema(table: str) -> dict[str, Any]:
    """Return a table's columns in order, with their polars types."""
    if table in _OWN:
        return _OWN[table]
    own = _SAMPLE if table == "node" else {}
    rows = (*catalogue.LABELS[table], *catalogue.VALUES[table])
    return _STAMP | _AGENT | own | {row.name: _TYPES[row.type] for row in rows}


def fit(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """Give a frame from a file all columns of its table, in order and type.

    Raises:
        ValueError: when a column that every row has is missing or has nulls.
        polars.exceptions.PolarsError: when a column is of a type that does not fit.
    """
    wanted = schema(table)
    fitted = frame.select(
        pl.col(name).cast(dtype, strict=False)
        if name in frame.columns
        else pl.lit(None, dtype).alias(name)
        for name, dtype in wanted.items()
    )
    for name in wanted:
        required = name in _REQUIRED and (table, name) not in _OPTIONAL
        if required and fitted[name].null_count():
            raise ValueError(f"column {name} has nulls")
    return fitted


def frames(records: Iterable[Record]) -> dict[str, pl.DataFrame]:
    """Lay records out as tables; only tables that have rows."""
    of: defaultdict[type, list[Any]] = defaultdict(list)
    for record in records:
        of[type(record)].append(record)
    notes = sorted(of[Hello] + of[Fault] + of[Marker], key=attrgetter("event_no"))
    laid = _sample_frames(of[Sample]) | {
        "link": _frame("link", of[Link], (lambda e: (e.node, e.state, e.step, e.reason, e.hint))),
        "tick": _frame("tick", of[Tick], lambda _: ()),
        "event": _frame("event", notes, _note_cells),
        "verdict": _verdict_frame(of[Shown]),
        "shown": _shown_frame(of[Shown]),
        "judge_state": _frame("judge_state", of[JudgeState], _state_cells),
    }
    return {name: frame for name, frame in laid.items() if frame.height}


def events(laid: Mapping[str, pl.DataFrame]) -> list[AnyEvent]:
    """Return the events of fitted tables, in order.

    Raises:
        ValueError: when a cell does not hold what its column says.
    """
    found: list[AnyEvent] = _samples(laid)
    if "link" in laid:
        found += [
            _checked("link", wall, no, arrived, dict(zip(_LINK, told, strict=True)))
            for wall, no, arrived, *told in _cells(laid["link"])
        ]
    if "tick" in laid:
        found += [
            Tick(event_no=no, arrived_us=arrived, wall_us=wall)
            for wall, no, arrived in _cells(laid["tick"])
        ]
    if "event" in laid:
        found += [
            _checked(kind, wall, no, arrived, _told(kind, dict(zip(_NOTE, told, strict=True))))
            for wall, no, arrived, kind, *told in _cells(laid["event"])
        ]
    found.sort(key=attrgetter("event_no"))
    return found


def shown(frame: pl.DataFrame) -> list[Shown]:
    """Return the verdicts of a fitted `shown` table.

    Raises:
        ValueError: when a cell does not hold a verdict.
    """
    found: list[Shown] = []
    for wall, no, text in _cells(frame):
        if text is None and not found:
            raise ValueError("the first verdict is missing")
        verdict = found[-1].verdict if text is None else _VERDICT.decode(text)
        found.append(Shown(event_no=no, wall_us=wall, verdict=verdict))
    return found


def judge_states(frame: pl.DataFrame) -> list[JudgeState]:
    """Return the judge states of a fitted `judge_state` table.

    Raises:
        ValueError: when a cell does not hold one.
    """
    return [
        JudgeState(
            event_no=no,
            arrived_us=arrived,
            wall_us=wall,
            state=state or b"",
            standing=_STANDING.decode(standing or "[]"),
        )
        for wall, no, arrived, state, standing in _cells(frame)
    ]


def _cells(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    return frame.with_columns(pl.col("t").cast(pl.Int64)).rows()


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


def _told(kind: str, cells: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of an `event` row that its kind has."""
    match kind:
        case "hello":
            facts = _FACTS.decode(cells["facts"] or "{}")
            return {name: cells[name] for name in ("node", "boot_id", "agent_id")} | {
                "facts": facts
            }
        case "fault":
            return {name: cells[name] for name in ("node", "source", "text")}
        case _:
            return {"text": cells["text"]}


def _checked(kind: str, wall: int, no: int, arrived: int, told: dict[str, Any]) -> AnyEvent:
    stamps = {"kind": kind, "event_no": no, "arrived_us": arrived, "wall_us": wall}
    event: AnyEvent = msgspec.convert(stamps | told, AnyEvent)
    return event


def _state_cells(state: JudgeState) -> tuple[bytes, str]:
    return state.state, msgspec.json.encode(state.standing).decode()


def _shown_frame(records: Sequence[Shown]) -> pl.DataFrame:
    rows = []
    last: JobVerdict | None = None
    for record in records:
        same = record.verdict == last
        text = None if same else msgspec.json.encode(record.verdict).decode()
        rows.append((record.wall_us, record.event_no, text))
        last = record.verdict
    return pl.DataFrame(_columns(schema("shown"), rows))


def _verdict_frame(records: Sequence[Shown]) -> pl.DataFrame:
    """Lay out who waited on what, for people's queries: a row when it changed, and at first."""
    rows = []
    last: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for record in records:
        for v in (record.verdict.job, *record.verdict.nodes, *record.verdict.ranks):
            who = (v.scope, v.node, v.rank, v.group)
            what = _essence(v)
            if last.get(who) != what:
                last[who] = what
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
    head = pl.DataFrame(_columns(_STAMP | _AGENT, heads))
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
    return list(_columns(_SAMPLE, rows).values())


def _entity_columns(
    declared: Sequence[Metric], rows: Sequence[Labels] | Sequence[Values]
) -> list[pl.Series]:
    return list(_columns({row.name: _TYPES[row.type] for row in declared}, rows).values())


def _samples(laid: Mapping[str, pl.DataFrame]) -> list[AnyEvent]:
    if "node" not in laid:
        return []
    entities = [_entities(laid[s], s) if s in laid else {} for s in catalogue.SCOPES]
    place = catalogue.SCOPES.index("node")
    names = [*_STAMP, *_AGENT, *_SAMPLE]
    found: list[AnyEvent] = []
    heads = _cells(laid["node"].select(names).unique("event_no", keep="first", maintain_order=True))
    for wall, no, node, boot, agent, sequence, mono, arrived, generation, *rest in heads:
        node_wall, offset, error, unread = rest
        tables = tuple(groups.get(no, ()) for groups in entities)
        if unread:
            tables = (*tables[:place], (), *tables[place + 1 :])
        found.append(
            Sample(
                event_no=no,
                arrived_us=arrived,
                wall_us=wall,
                node=node,
                boot_id=boot,
                agent_id=agent,
                sequence=sequence,
                generation=generation,
                node_mono_us=mono,
                node_wall_us=node_wall,
                offset_us=offset,
                offset_error_us=error,
                tables=tables,
            )
        )
    return found


def _entities(frame: pl.DataFrame, scope: str) -> dict[int, tuple[Row, ...]]:
    """Return the rows of each sample, by its event_no."""
    labels = _tuples(frame, catalogue.LABELS[scope])
    values = _tuples(frame, catalogue.VALUES[scope])
    rows = zip(frame["event_no"].to_list(), map(Row, labels, values), strict=True)
    return {no: tuple(row for _, row in group) for no, group in groupby(rows, key=itemgetter(0))}


def _tuples(frame: pl.DataFrame, declared: Sequence[Metric]) -> list[tuple[Any, ...]]:
    if not declared:
        return [()] * frame.height
    return frame.select(row.name for row in declared).rows()
