"""Arbitrary events, plain ones, and recordings put together by hand."""

import functools
from collections.abc import Iterable
from pathlib import Path

import msgspec
from hypothesis import strategies as st

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import INT64_MAX, Metric
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Marker, Row, Sample, Tick
from gpuwatch.model.verdict import Culprit, Finding, JobVerdict, Verdict
from gpuwatch.recording import manifest, segment, session, wal
from gpuwatch.recording.record import Layout, Record, encode

INT64 = st.integers(-(2**63), INT64_MAX)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CELLS = {
    "int": st.none() | INT64,
    "float": st.none() | st.floats(allow_nan=False),
    "str": st.none() | TEXT,
}
BASES = {"int": (None, 0, INT64_MAX), "float": (None, 0.0, 1e300), "str": (None, "", "\0é[/b]")}


ROWS = {scope: catalogue.LABELS[scope] + catalogue.VALUES[scope] for scope in catalogue.SCOPES}


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[Row, ...], ...]:
    """Draw rows for a few scopes: one filling for all, and a few cells of their own."""
    filled: dict[str, list[Row]] = {}
    for scope in draw(st.lists(st.sampled_from(catalogue.SCOPES), max_size=4)):
        base = draw(st.integers(0, 2))
        row = [BASES[metric.type][base] for metric in ROWS[scope]]
        for place in draw(st.sets(st.integers(0, len(row) - 1), max_size=2)):
            row[place] = draw(CELLS[ROWS[scope][place].type])
        labels = len(catalogue.LABELS[scope])
        filled.setdefault(scope, []).append(Row(tuple(row[:labels]), tuple(row[labels:])))  # type: ignore[arg-type]
    return tuple(tuple(filled.get(scope, ())) for scope in catalogue.SCOPES)


NODE = st.sampled_from(["gpu001", "ann@10.0.0.1:22", "ノード", "", "[/b]\x1b"])
FACTS = st.dictionaries(
    TEXT, st.none() | INT64 | TEXT | st.floats(allow_nan=False, allow_infinity=False), max_size=3
)


@functools.cache
def events() -> st.SearchStrategy[list[AnyEvent]]:
    """Any events, numbered upwards as a feed does."""
    stamps = {"event_no": st.just(0), "arrived_us": INT64, "wall_us": INT64}
    agent = {"node": NODE, "boot_id": TEXT, "agent_id": TEXT}
    one = st.one_of(
        st.builds(Tick, **stamps),
        st.builds(Marker, **stamps, text=TEXT),
        st.builds(Fault, **stamps, node=st.none() | NODE, source=TEXT, text=TEXT),
        st.builds(
            Link, **stamps, node=NODE, state=TEXT, step=TEXT,
            reason=st.none() | TEXT, hint=st.none() | TEXT,
        ),
        st.builds(Hello, **stamps, **agent, facts=FACTS),
        st.builds(
            Sample, **stamps, **agent, sequence=INT64, generation=INT64, node_mono_us=INT64,
            node_wall_us=INT64, offset_us=st.none() | INT64, offset_error_us=st.none() | INT64,
            tables=tables(),
        ),
    )  # fmt: skip
    steps = st.integers(1, 1000)
    return st.lists(st.tuples(one, steps), max_size=6).map(_numbered)


def _numbered(drawn: list[tuple[AnyEvent, int]]) -> list[AnyEvent]:
    found, no = [], -1
    for event, step in drawn:
        no += step
        found.append(msgspec.structs.replace(event, event_no=no))
    return found


def facts(**changes: object) -> session.Session:
    told = {
        "job": "llama", "nodes": ("gpu001", "gpu002"), "interval_s": 1.0, "version": "0.1.0",
        "started_wall_us": 1_790_000_000_000_000, "started_mono_us": 0,
    }  # fmt: skip
    return session.Session(**(told | changes))  # type: ignore[arg-type]


def sample(no: int, node: str = "gpu001", sequence: int | None = None, **told: object) -> Sample:
    """A sample with one GPU, one NIC and a node row, whose numbers grow with `no`."""
    filled = {"node": 1, "gpu": 1, "nic": 1}
    shape = [(s, catalogue.LABELS[s], catalogue.VALUES[s]) for s in catalogue.SCOPES]
    rows = tuple(
        tuple(
            Row(
                tuple(0 if r.type == "int" else "" for r in labels),
                tuple(None if i % 5 == 4 else _number(r, no) for i, r in enumerate(values)),
            )
            for _ in range(filled.get(scope, 0))
        )
        for scope, labels, values in shape
    )
    given: dict[str, object] = {
        "event_no": no, "arrived_us": no * 500_000, "wall_us": wall(no), "node": node,
        "boot_id": "b", "agent_id": "a", "sequence": no if sequence is None else sequence,
        "generation": 1, "node_mono_us": no * 500_000, "node_wall_us": wall(no),
        "offset_us": None, "offset_error_us": None, "tables": rows,
    }  # fmt: skip
    return Sample(**(given | told))  # type: ignore[arg-type]


def _number(row: Metric, no: int) -> int | float:
    return no * 1000 if row.type == "int" else no / 7


def wall(no: int) -> int:
    return 1_790_000_000_000_000 + no * 500_000


def tick(no: int) -> Tick:
    return Tick(event_no=no, arrived_us=no * 500_000, wall_us=wall(no))


def verdict(confidence: float = 0.5) -> JobVerdict:
    finding = Finding("tcp_retrans_segs", confidence, "1", 0.001, "retransmits")
    culprit = Culprit("node", "gpu001", ("gpu001",))
    job = Verdict(scope="job", state="NETWORK", cause="loss", culprits=(culprit,))
    node = Verdict(scope="node", node="gpu001", confidence=confidence, support=(finding,))
    return JobVerdict(job=job, nodes=(node,))


def stream(first: int, count: int) -> list[AnyEvent]:
    """Samples and ticks by turns."""
    return [sample(no) if no % 2 else tick(no) for no in range(first, first + count)]


class Bench:
    """A recording that is put together by hand, part by part."""

    def __init__(self, directory: Path, given: session.Session | None = None) -> None:
        self.directory = directory
        for room in ("wal", "seg"):
            (directory / room).mkdir(parents=True)
        session.store(directory, given or facts())
        self.manifest = manifest.Manifest(directory)
        self.parts = 0

    def log(self, records: Iterable[Record]) -> Path:
        """Write a log."""
        self.parts += 1
        file = wal.path(self.directory, self.parts)
        log = wal.Log(file)
        log.append(b"".join(wal.frame(encode(record)) for record in records))
        log.close()
        return file

    def seal(self, records: Iterable[Record]) -> manifest.Entry:
        """Write a log and seal it."""
        self.log(records)
        return segment.seal(self.directory, self.parts, Layout(catalogue.ROWS), self.manifest)


def three_parts(bench: Bench) -> None:
    bench.seal(stream(0, 10))
    bench.seal(stream(10, 10))
    bench.log(stream(20, 10))
