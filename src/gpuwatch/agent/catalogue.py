"""All rows of all sources, in order, and the id of that order.

A new source is one file in `sources/`, and one word here.
"""

import importlib
import zlib
from typing import Dict, List, Tuple

from gpuwatch.agent.metric import LABEL, Metric

SOURCES = (
    "clock", "cpu", "memory", "pressure", "tcp", "own", "nvml", "nic", "rdma", "ethtool", "disk", "mounts",
    "kworkers", "threads", "sockets", "progress", "softnet", "cgroup", "placement", "guests",
)  # fmt: skip

ABSENCE = (
    Metric("subject", "absence", LABEL, "str", "", "", "The source, or source.metric, that could not be read."),
    Metric("reason", "absence", LABEL, "str", "", "", "Why, in words."),
)  # fmt: skip


def _rows() -> Tuple[Metric, ...]:
    rows: List[Metric] = []
    for name in SOURCES:
        module = importlib.import_module("%s.sources.%s" % (__package__, name))
        rows.extend(module.ROWS)
    return tuple(rows) + ABSENCE


def _scopes(rows: Tuple[Metric, ...]) -> Tuple[str, ...]:
    scopes = ["node"]
    for row in rows:
        if row.scope not in scopes:
            scopes.append(row.scope)
    return tuple(scopes)


ROWS = _rows()
SCOPES = _scopes(ROWS)
LABELS: Dict[str, Tuple[Metric, ...]] = {
    s: tuple(r for r in ROWS if r.scope == s and r.kind == LABEL) for s in SCOPES
}
VALUES: Dict[str, Tuple[Metric, ...]] = {
    s: tuple(r for r in ROWS if r.scope == s and r.kind != LABEL) for s in SCOPES
}
INDEX: Dict[str, Dict[str, int]] = {s: {r.name: i for i, r in enumerate(VALUES[s])} for s in SCOPES}


def schema_id() -> str:
    """Return eight hexadecimal digits that change when a row, its type or its place changes."""
    text = ";".join("%s.%s:%s:%s" % (r.scope, r.name, r.kind, r.type) for r in ROWS)
    return "%08x" % (zlib.crc32(text.encode("ascii")) & 0xFFFFFFFF)


SCHEMA = schema_id()
