"""Redaction: a recording in which hosts, users, paths, addresses, commands and serials have other names.

The names are the same everywhere, so that verdicts are: who is to blame for what stays told. Every
column of text has a rule here; one that has none is a mistake that a test finds. Texts are made of
typed facts and of what kernels say: in them each known name is replaced, and what looks like one is
left out. What the job's owner wrote by hand is left out whole.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Marker, Row, Sample
from gpuwatch.model.expression import Expression
from gpuwatch.model.progress import Expressions, expressions_of
from gpuwatch.model.verdict import Culprit, Finding, JobVerdict, Missing, Verdict
from gpuwatch.recording import segment, session
from gpuwatch.recording.chunk import Chunk
from gpuwatch.recording.manifest import Gap, Manifest
from gpuwatch.recording.pseudonyms import GONE, Pseudonyms, address_and_port
from gpuwatch.recording.reader import Recording
from gpuwatch.recording.record import Record

__all__ = ["COLUMNS", "FACTS", "redact"]

KEEP, WORDS, PEER, GROUP, LINE, PORT, VERSION, DROP = (
    "keep", "words", "peer", "group", "line", "port", "version", "drop",
)  # fmt: skip
COLUMNS: Mapping[tuple[str, str], str] = {
    ("gpu", "uuid"): "uuid", ("gpu", "model"): KEEP, ("nic", "nic"): "device", ("rdma", "port"): PORT,
    ("rdma", "netdev"): "device", ("rdma", "link_layer"): KEEP, ("disk", "disk"): "device",
    ("disk", "layer"): KEEP, ("mount", "mount"): "path", ("mount", "type"): KEEP,
    ("mount", "source"): "source", ("kworker", "queue"): KEEP, ("thread_group", "group"): GROUP,
    ("thread_group", "rank"): KEEP, ("thread_group", "role"): KEEP, ("thread_wait", "group"): GROUP,
    ("thread_wait", "rank"): KEEP, ("thread_wait", "role"): KEEP, ("thread_wait", "wait"): KEEP,
    ("thread_wait", "while_gpu"): KEEP, ("connection", "group"): GROUP, ("connection", "rank"): KEEP,
    ("connection", "role"): KEEP, ("connection", "peer"): PEER, ("progress", "expression"): KEEP,
    ("progress", "line"): LINE, ("cgroup", "cgroup"): "cgroup", ("cgroup", "group"): GROUP,
    ("cgroup", "rank"): KEEP, ("placement", "group"): GROUP, ("placement", "rank"): KEEP,
    ("placement", "role"): KEEP, ("guest", "user"): "user",
    ("absence", "subject"): KEEP, ("absence", "reason"): WORDS,
}  # fmt: skip
"""What becomes of each label and value that is text: kept, or another name of this kind."""
FACTS: Mapping[str, str] = {
    "hostname": "node", "kernel": VERSION, "machine": KEEP, "python": WORDS, "user": "user",
    "uid": DROP, "cpus": KEEP, "memory_bytes": KEEP, "addresses": "addresses", "schema": KEEP,
    "interval_s": KEEP, "nice": KEEP, "version": KEEP,
}  # fmt: skip
"""What becomes of each fact of a greeting; others are dropped."""
NUMBER = r"(-?[0-9.]+(?:e[+-]?[0-9]+)?)"
"""Finds what is left of a line of the job's log."""
Place = tuple[int, str, int]
"""Of a text: the scope, whether of `labels` or `values`, the column."""


def redact(recording: Recording, directory: Path) -> None:
    """Write a recording anew, under other names.

    Args:
        recording: to be read, twice.
        directory: empty, or not there yet.

    Raises:
        OSError: when the disk does not take it.
    """
    expressions = expressions_of(recording.session.job_file)
    names = _names(recording)
    redactor = _Redactor(names, expressions)
    for room in ("wal", "seg"):
        (directory / room).mkdir(mode=0o700, parents=True)
    session.store(directory, redactor.session(recording.session))
    lines = Manifest(directory)
    try:
        for number, chunk in enumerate(recording.chunks(), 1):
            entry = segment.write(directory, number, redactor.records(chunk), lines)
            if number == 1 and recording.gaps:
                gaps = tuple(redactor.gap(gap) for gap in recording.gaps)
                lines.commit(msgspec.structs.replace(entry, gaps=gaps))
    finally:
        lines.close()


def _names(recording: Recording) -> Pseudonyms:
    """Read all names of a recording."""
    names = Pseudonyms()
    names.note("node", recording.session.nodes)
    for kind, text in _of_job_file(recording.session.job_file):
        names.note(kind, [text])
    seen: set[tuple[str, str]] = set()
    for event in recording.events():
        if isinstance(event, Sample):
            names.note("node", [event.node])
            for place, rule in _RULES:
                scope, part, column = place
                cells = (getattr(row, part)[column] for row in event.tables[scope])
                seen.update((rule, cell) for cell in cells if isinstance(cell, str))
        elif isinstance(event, Hello):
            seen.update(_of_hello(event))
        elif isinstance(event, Link):
            names.note("node", [event.node])
    for rule, text in seen:
        if rule == PEER:
            names.note("address", [address_and_port(text)[0]])
        elif rule == GROUP:
            names.note("group", [text.partition(":")[2]])
        elif rule == PORT:
            names.note("device", [text.partition("/")[0]])
        elif rule not in (WORDS, LINE):
            names.note(rule, [text])
    names.settle()
    return names


def _of_hello(hello: Hello) -> Iterator[tuple[str, str]]:
    yield "node", hello.node
    yield "boot", hello.boot_id
    for fact, kind in (("hostname", "node"), ("user", "user")):
        if isinstance(told := hello.facts.get(fact), str):
            yield kind, told
    for address in str(hello.facts.get("addresses") or "").split():
        yield "address", address


def _of_job_file(told: Any, kind: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names of hosts, users and paths that a job file has, wherever they stand."""
    kinds = {"nodes": "node", "host": "node", "name": "node", "jump": "node", "user": "user",
             "paths": "path", "log": "path", "python": "path", "node": "node"}  # fmt: skip
    if isinstance(told, Mapping):
        for key, value in told.items():
            yield from _of_job_file(value, kinds.get(key, kind if key in kinds else ""))
    elif isinstance(told, list):
        for value in told:
            yield from _of_job_file(value, kind)
    elif kind and isinstance(told, str):
        yield kind, told


def _rules() -> Iterator[tuple[Place, str]]:
    for scope, table in enumerate(catalogue.SCOPES):
        for part, rows in (
            ("labels", catalogue.LABELS[table]),
            ("values", catalogue.VALUES[table]),
        ):
            for column, row in enumerate(rows):
                rule = COLUMNS.get((table, row.name), DROP) if row.type == "str" else KEEP
                if rule != KEEP:
                    yield (scope, part, column), rule


_RULES = tuple(_rules())
_EXPRESSION = [row.name for row in catalogue.LABELS["progress"]].index("expression")


class _Redactor:
    """Gives records other names."""

    def __init__(self, names: Pseudonyms, expressions: Expressions | None) -> None:
        self._names = names
        self._expressions = expressions
        self._compiled = {
            name: Expression(text)
            for name in ("step", "tokens")
            if (text := getattr(expressions, name, None))
        }
        self._rows: dict[int, list[tuple[str, int, str]]] = {}
        for (scope, part, column), rule in _RULES:
            self._rows.setdefault(scope, []).append((part, column, rule))

    def session(self, told: session.Session) -> session.Session:
        """Return what is told of the session: of the job file no more than replays need."""
        kept: dict[str, Any] = {}
        if cost := told.job_file.get("cost"):
            kept["cost"] = cost
        if self._expressions:
            kept["progress"] = {"node": self._node(self._expressions.node), "step": NUMBER}
            if self._expressions.tokens:
                kept["progress"]["tokens"] = NUMBER
        return msgspec.structs.replace(
            told, job="job", nodes=tuple(self._node(n) for n in told.nodes), job_file=kept
        )

    def records(self, chunk: Chunk) -> Iterator[Record]:
        """Yield a chunk's records."""
        yield from map(self.event, chunk.events)
        for shown in chunk.shown:
            yield msgspec.structs.replace(shown, verdict=self.verdict(shown.verdict))
        for state in chunk.judge_states:
            standing = tuple(self.event(event) for event in state.standing)
            # What a judge has learned is kept under names; who judges anew learns it anew.
            yield msgspec.structs.replace(state, state=b"", standing=standing)

    def gap(self, gap: Gap) -> Gap:
        """Return a gap."""
        return msgspec.structs.replace(gap, reason=self._names.text(gap.reason))

    def event(self, event: AnyEvent) -> Any:
        """Return an event."""
        match event:
            case Sample():
                told = (self._table(place, table) for place, table in enumerate(event.tables))
                return msgspec.structs.replace(
                    event, node=self._node(event.node), boot_id=self._boot(event.boot_id),
                    tables=tuple(told),
                )  # fmt: skip
            case Hello():
                return msgspec.structs.replace(
                    event, node=self._node(event.node), boot_id=self._boot(event.boot_id),
                    facts=self._facts(event.facts),
                )  # fmt: skip
            case Link():
                return msgspec.structs.replace(
                    event, node=self._node(event.node), reason=self._text(event.reason), hint=None
                )  # fmt: skip
            case Fault():
                node = None if event.node is None else self._node(event.node)
                return msgspec.structs.replace(event, node=node, text=self._names.text(event.text))
            case Marker():
                return msgspec.structs.replace(event, text=GONE)
        return event

    def verdict(self, told: JobVerdict) -> JobVerdict:
        """Return the verdicts of a tick."""
        recurring = tuple(
            msgspec.structs.replace(r, node=self._names.of("node", r.node)) for r in told.recurring
        )
        return msgspec.structs.replace(
            told,
            job=self._one(told.job),
            nodes=tuple(map(self._one, told.nodes)),
            ranks=tuple(map(self._one, told.ranks)),
            recurring=recurring,
        )

    def _one(self, told: Verdict) -> Verdict:
        return msgspec.structs.replace(
            told,
            node=self._names.of("node", told.node),
            group=self._group(told.group),
            culprits=tuple(map(self._culprit, told.culprits)),
            waiting=tuple(map(self._names.text, told.waiting)),
            support=tuple(map(self._finding, told.support)),
            against=tuple(map(self._finding, told.against)),
            missing=tuple(Missing(m.signal, self._names.text(m.reason)) for m in told.missing),
            text=self._names.text(told.text),
        )

    def _culprit(self, told: Culprit) -> Culprit:
        nodes = tuple(self._node(node) for node in told.nodes)
        return Culprit(told.kind, self._names.text(told.id), nodes)

    def _finding(self, told: Finding) -> Finding:
        return msgspec.structs.replace(told, text=self._names.text(told.text))

    def _table(self, place: int, table: tuple[Row, ...]) -> tuple[Row, ...]:
        rules = self._rows.get(place)
        return table if rules is None else tuple(self._row(row, rules) for row in table)

    def _row(self, row: Row, rules: list[tuple[str, int, str]]) -> Row:
        cells: dict[str, list[Any]] = {"labels": list(row.labels), "values": list(row.values)}
        for part, column, rule in rules:
            told = cells[part][column]
            if isinstance(told, str):
                cells[part][column] = self._cell(rule, told, row)
        return Row(tuple(cells["labels"]), tuple(cells["values"]))

    def _cell(self, rule: str, told: str, row: Row) -> str | None:
        """Return what becomes of a text under a rule."""
        match rule:
            case "words":
                return self._names.text(told)
            case "group":
                return self._group(told)
            case "peer":
                return self._peer(told)
            case "port":
                adapter, slash, port = told.partition("/")
                return (self._names.of("device", adapter) or "") + slash + port
            case "line":
                return self._line(str(row.labels[_EXPRESSION]), told)
            case "drop":
                return GONE
        return self._names.of(rule, told)

    def _node(self, name: str) -> str:
        return self._names.of("node", name) or ""

    def _boot(self, boot_id: str) -> str:
        return self._names.of("boot", boot_id) or ""

    def _text(self, told: str | None) -> str | None:
        return None if told is None else self._names.text(told)

    def _group(self, group: str | None) -> str | None:
        if group is None:
            return None
        kind, colon, rest = group.partition(":")
        return kind + colon + (self._names.of("group", rest) or "")

    def _peer(self, peer: str) -> str:
        address, port = address_and_port(peer)
        return (self._names.of("address", address) or "") + port

    def _line(self, expression: str, line: str) -> str:
        """Return the number alone that is looked for in a line of the job's log."""
        found = self._compiled.get(expression)
        number = found.number(line) if found else None
        if number is None:
            return ""
        return str(int(number)) if number.is_integer() else repr(number)

    def _facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, told in facts.items():
            rule = FACTS.get(name, DROP)
            if rule == KEEP:
                kept[name] = told
            elif rule == "addresses":
                each = (self._names.of("address", one) or "" for one in str(told or "").split())
                kept[name] = " ".join(each)
            elif rule == WORDS:
                kept[name] = self._text(told)
            elif rule == VERSION:
                kept[name] = "".join(re.findall(r"\A[0-9.]+", str(told or "")))
            elif rule != DROP:
                kept[name] = self._names.of(rule, told)
        return kept
