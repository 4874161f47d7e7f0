"""The tables of a recording: their columns and types, from the catalogue.

A sample is one row of `node` (always, so that a sample without any reading stays one), and one
row an entity in its scope's table. Rows keep the order in which they came.
"""

from functools import cache
from typing import Any

import polars as pl

from gpuwatch.agent import catalogue

__all__ = ["AGENT", "LINK", "NOTE", "SAMPLE", "STAMP", "TYPES", "fit", "played", "schema", "tables"]

LINK = ("node", "state", "step", "reason", "hint")
NOTE = ("node", "boot_id", "agent_id", "source", "text", "facts")
STAMP = {"t": pl.Datetime("us", "UTC"), "event_no": pl.Int64}
_EVENT = STAMP | {"arrived_us": pl.Int64}
AGENT = {
    "node": pl.String, "boot_id": pl.String, "agent_id": pl.String,
    "sequence": pl.Int64, "mono_us": pl.Int64,
}  # fmt: skip
SAMPLE = {
    "arrived_us": pl.Int64, "generation": pl.Int64, "node_wall_us": pl.Int64,
    "offset_us": pl.Int64, "offset_error_us": pl.Int64,
    "unread": pl.Boolean,  # true where the sample had no row of its own for the node
}  # fmt: skip
_OWN: dict[str, dict[str, Any]] = {
    "link": _EVENT | dict.fromkeys(LINK, pl.String),
    "tick": _EVENT,
    "event": _EVENT | dict.fromkeys(("kind", *NOTE), pl.String),
    "verdict": STAMP
    | dict.fromkeys(("scope", "node", "rank", "group", "state", "cause"), pl.String)
    | {"culprits": pl.List(pl.String), "waiting": pl.List(pl.String), "confidence": pl.Float64}
    | {"suspected": pl.Boolean, "confirmed": pl.Boolean, "text": pl.String},
    "judged": STAMP | {"slowdown": pl.Float64, "recurring": pl.String},
    "stretch": STAMP
    | {"last_event_no": pl.Int64}
    | dict.fromkeys(("scope", "node", "rank", "group", "state", "cause", "culprits"), pl.String)
    | {"suspected_us": pl.Int64, "confirmed_us": pl.Int64, "confidence": pl.Float64}
    | {"evidence": pl.String},
    "activity": STAMP | {"node": pl.String, "compute": pl.Float64, "unknown": pl.Float64},
    "shown": STAMP | {"verdict": pl.String},
    "judge_state": _EVENT | {"state": pl.Binary, "standing": pl.String},
}
_REQUIRED = {"t", "event_no", "last_event_no", "arrived_us", "generation", "node_wall_us", *AGENT}
_OPTIONAL = {("event", c) for c in AGENT} | {("verdict", "node"), ("stretch", "node")}
TYPES = {"int": pl.Int64, "float": pl.Float64, "str": pl.String}


def tables() -> tuple[str, ...]:
    """Return the names of all tables: the catalogue's scopes, then the recording's own."""
    return (*catalogue.SCOPES, *_OWN)


def played() -> tuple[str, ...]:
    """Return the tables that records are made of again: all but what is there for questions."""
    return (*catalogue.SCOPES, "link", "tick", "event", "shown", "judge_state")


@cache
def schema(table: str) -> dict[str, Any]:
    """Return a table's columns in order, with their polars types."""
    if table in _OWN:
        return _OWN[table]
    own = SAMPLE if table == "node" else {}
    rows = (*catalogue.LABELS[table], *catalogue.VALUES[table])
    return STAMP | AGENT | own | {row.name: TYPES[row.type] for row in rows}


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
