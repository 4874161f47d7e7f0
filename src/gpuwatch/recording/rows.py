"""Tables back to records."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
import polars as pl

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Metric
from gpuwatch.model.event import AnyEvent, Hello, Link, Row, Sample, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.recording.record import JudgeState, Shown
from gpuwatch.recording.schema import AGENT, LINK, NOTE, SAMPLE, STAMP

__all__ = ["events", "judge_states", "shown"]

_STANDING = msgspec.json.Decoder(tuple[Hello | Link, ...])
_FACTS = msgspec.json.Decoder(dict[str, str | int | float | None])
_VERDICT = msgspec.json.Decoder(JobVerdict)


def events(laid: Mapping[str, pl.DataFrame]) -> list[AnyEvent]:
    """Return the events of fitted tables, in order.

    Raises:
        ValueError: when a cell does not hold what its column says.
    """
    found: list[AnyEvent] = _samples(laid)
    if "link" in laid:
        found += [
            _checked("link", wall, no, arrived, dict(zip(LINK, told, strict=True)))
            for wall, no, arrived, *told in _cells(laid["link"])
        ]
    if "tick" in laid:
        found += [
            Tick(event_no=no, arrived_us=arrived, wall_us=wall)
            for wall, no, arrived in _cells(laid["tick"])
        ]
    if "event" in laid:
        found += [
            _checked(kind, wall, no, arrived, _told(kind, dict(zip(NOTE, told, strict=True))))
            for wall, no, arrived, kind, *told in _cells(laid["event"])
        ]
    found.sort(key=attrgetter("event_no"))
    return found


def shown(frame: pl.DataFrame, begin: int = -(2**63)) -> list[Shown]:
    """Return the verdicts of a fitted `shown` table.

    Args:
        frame: from where one is told in full.
        begin: `event_no` of the first that is wanted.

    Raises:
        ValueError: when a cell does not hold a verdict.
    """
    found: list[Shown] = []
    told: str | None = None
    verdict: JobVerdict | None = None
    for wall, no, text in _cells(frame):
        if text is not None:
            told, verdict = text, None
        if no < begin:
            continue
        if told is None:
            raise ValueError("the first verdict is missing")
        verdict = verdict or _VERDICT.decode(told)
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


def _samples(laid: Mapping[str, pl.DataFrame]) -> list[AnyEvent]:
    if "node" not in laid:
        return []
    entities = [_entities(laid[s], s) if s in laid else {} for s in catalogue.SCOPES]
    place = catalogue.SCOPES.index("node")
    names = [*STAMP, *AGENT, *SAMPLE]
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
