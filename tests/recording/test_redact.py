"""Under other names nothing tells whose a recording is, and the verdicts are the same."""

import asyncio
import zipfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuwatch.recording
from gpuwatch.agent import catalogue
from gpuwatch.cli.commands import parse
from gpuwatch.engine.run import run
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Marker, Sample, Tick
from gpuwatch.model.progress import expressions_of
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.model.view import View
from gpuwatch.recording import create, session
from gpuwatch.recording.pseudonyms import Pseudonyms, address_and_port
from gpuwatch.recording.reader import Recording
from gpuwatch.recording.redact import COLUMNS, FACTS, redact
from gpuwatch.verdict.judge import Judge

ROOT = Path(__file__).parents[2]
PLANTED = (
    "enx00e04c680001", "6.1.0-acmekernel", "bastion7", "logs/topsecret.txt", "ATLAS7",
    "atlas7", "atlas8", "ann.secret", "/home/ann.secret/run", "10.20.30.41", "fd00::17",
    "GPU-5ec2e7aa-1111-2222-3333-444444444444", "nfs.acme.example", "/acme/project", "acme-job-77",
    "S3R1AL0NUMB3R", "/opt/acme/bin/python3", "bastion.acme.example", "a note of ann's", "acme_loss",
)  # fmt: skip
"""Of which nothing may be left."""
RENAMED = {
    "eth0": "enx00e04c680001", "gpu01": "atlas7", "gpu02": "atlas8", "/mnt/shared": "/acme/project",
    "/mnt/data": "/acme/scratch", "10.77.0.3:/": "nfs.acme.example:/acme", "10.77.0.1": "10.20.30.41",
    "10.77.0.2": "10.20.30.42", "10.77.0.3": "fd00::17", "rdzv:10.77.0.1:29500": "slurm:acme-job-77",
    "GPU-00000000-0000-0000-0000-000000000000": "GPU-5ec2e7aa-1111-2222-3333-444444444444",
}  # fmt: skip


def planted(value: object) -> object:
    """Give a real recording names that somebody would want to hide."""
    if isinstance(value, str):
        return " ".join(RENAMED.get(word, word) for word in RENAMED.get(value, value).split(" "))
    if isinstance(value, tuple | list):
        return type(value)(planted(each) for each in value)
    if isinstance(value, dict):
        return {key: planted(each) for key, each in value.items()}
    return value


def renamed(event: AnyEvent) -> AnyEvent:
    plain = msgspec.structs.asdict(event)
    told = {key: planted(each) for key, each in plain.items() if key != "tables"}
    if isinstance(event, Sample):
        rows = [[type(r)(planted(r.labels), r.values) for r in t] for t in event.tables]  # type: ignore[arg-type]
        told["tables"] = tuple(tuple(_lined(row) for row in table) for table in rows)
    if isinstance(event, Hello):
        told["facts"] = dict(told["facts"]) | {  # type: ignore[call-overload]
            "user": "ann.secret", "kernel": "6.1.0-acmekernel", "python": "3.11.2 /opt/acme/bin/python3", "serial": "S3R1AL0NUMB3R",
        }  # fmt: skip
    return type(event)(**told)  # type: ignore[arg-type]


def _lined(row: object) -> object:
    labels, values = row.labels, row.values  # type: ignore[attr-defined]
    mended = tuple(
        f"acme_loss: {c}" if isinstance(c, str) and c.startswith("step ") else c for c in labels
    )
    return type(row)(mended, values)  # type: ignore[call-arg]


class Kept:
    """A sink that keeps verdicts."""

    def __init__(self) -> None:
        self.told: list[JobVerdict] = []

    def event(self, event: AnyEvent) -> None:
        """Take nothing of it."""

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        """Keep it."""
        self.told.append(verdict)


def verdicts(
    events: Sequence[AnyEvent], facts: session.Session, *sinks: object
) -> list[JobVerdict]:
    """Judge anew."""
    kept = Kept()

    async def feed() -> AsyncIterator[AnyEvent]:
        for event in events:
            yield event

    cluster = Cluster(facts.nodes, facts.interval_s, expressions_of(facts.job_file))
    asyncio.run(run(feed(), cluster, Judge(), [kept, *sinks]))  # type: ignore[list-item]
    return kept.told


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a slow NFS server, under names to be hidden, with texts that have them."""
    place = tmp_path_factory.mktemp("secret") / "rec"
    source = gpuwatch.recording.open(ROOT / "recordings/nfs-slow")
    job_file = {
        "job": "acme-job-77", "nodes": [{"name": "atlas7", "host": "10.20.30.41"}],
        "ssh": {"user": "ann.secret", "jump": "bastion.acme.example"},
        "storage": {"paths": ["/acme/project"]},
        "progress": {"node": "atlas7", "log": "/home/ann.secret/run/log", "step": r"step (\d+)"},
    }  # fmt: skip
    facts = msgspec.structs.replace(
        source.session, job="acme-job-77", nodes=planted(source.session.nodes), job_file=job_file
    )
    events = [renamed(event) for event in source.events()]
    last = events[-1]
    stamps = {"arrived_us": last.arrived_us, "wall_us": last.wall_us}
    words = "ann.secret@atlas8: /home/ann.secret/run: S3R1AL0NUMB3R: [fd00::17]:22 refused by bastion.acme.example; Could not resolve hostname bastion7 of ATLAS7; logs/topsecret.txt"
    events += [
        Link(event_no=last.event_no + 1, node="atlas8", state="lost", step="login", reason=words, hint=words, **stamps),
        Fault(event_no=last.event_no + 2, node="atlas7", source="agent", text=words, **stamps),
        Marker(event_no=last.event_no + 3, text="a note of ann's", **stamps),
    ]  # fmt: skip
    recorder = create(place, facts)
    verdicts(events, facts, recorder)
    recorder.close()
    return place


@pytest.fixture(scope="module")
def hidden(secret: Path) -> Path:
    """The same, packed under other names."""
    file = secret.with_name("x.gwz")
    body, asked = parse(["pack", str(secret), str(file), "--redact"])
    assert body(asked) == 0
    return file


def texts(file: Path) -> Iterator[str]:
    """Yield all text that a packed recording has, also in compressed columns, and its raw bytes."""
    yield file.read_bytes().decode("latin-1")
    with zipfile.ZipFile(file) as packed:
        for name in packed.namelist():
            content = packed.read(name)
            if not name.endswith(".parquet"):
                yield content.decode("latin-1")
                continue
            frame = pl.read_parquet(content)
            for column in frame.select(pl.col(pl.String, pl.Binary, pl.List(pl.String))):
                for value in column.unique().to_list():
                    yield value.decode("latin-1") if isinstance(value, bytes) else str(value)


def test_of_what_was_planted_nothing_is_left(secret: Path, hidden: Path) -> None:
    raw = secret.with_name("raw.gwz")
    body, asked = parse(["pack", str(secret), str(raw)])
    body(asked)
    there = "\n".join(texts(raw))
    left = "\n".join(texts(hidden))
    for name in (*PLANTED, *(n for n in RENAMED.values() if n != "slurm:acme-job-77")):
        if name != "S3R1AL0NUMB3R":  # of greetings, a fact that nobody knows is not even recorded
            assert name in there, name
        assert name not in left, name
    assert "acme" not in left
    assert "secret" not in left


def test_verdicts_are_the_same_under_other_names(secret: Path, hidden: Path) -> None:
    before, after = gpuwatch.recording.open(secret), gpuwatch.recording.open(hidden)
    shown = [v for _, v in before.shown()], [v for _, v in after.shown()]
    anew = tuple(verdicts(list(r.events()), r.session) for r in (before, after))
    for old, new in (shown, anew):
        assert [essence(v) for v in old] == [essence(v) for v in new]
        named = {(c.kind, c.id) for v in old for c in v.job.culprits}
        other = {(c.kind, c.id) for v in new for c in v.job.culprits}
        assert len(named) == len(other)
        assert ("mount", "nfs.acme.example:/acme") in named
        assert ("mount", "source-1") in other
    assert [v.job.text for v in anew[1]] == [v.job.text for v in shown[1]]


def essence(verdict: JobVerdict) -> list[object]:
    """Return all of it but names."""
    return [verdict.slowdown, *(_essence(v) for v in (verdict.job, *verdict.nodes, *verdict.ranks))]


def _essence(v: Verdict) -> tuple[object, ...]:
    return (
        v.scope, v.rank, v.state, v.cause, [c.kind for c in v.culprits], len(v.waiting), v.confidence,
        v.episode_us, v.suspected_us, v.confirmed_us, [(f.metric, f.value) for f in v.support],
        [(f.metric, f.value) for f in v.against], v.candidates, v.shares,
    )  # fmt: skip


def test_every_column_and_every_fact_has_a_rule() -> None:
    texts_of_the_catalogue = {(r.scope, r.name) for r in catalogue.ROWS if r.type == "str"}
    assert texts_of_the_catalogue == set(COLUMNS)
    greetings = [e for e in opened().events() if isinstance(e, Hello)]
    assert {name for hello in greetings for name in hello.facts} == set(FACTS)


def opened() -> Recording:
    return gpuwatch.recording.open(ROOT / "recordings/net-loss")


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)


@given(
    st.lists(NAMES, min_size=1, max_size=8, unique=True), st.sampled_from(["node", "path", "user"])
)
def test_names_keep_their_order_and_stay_apart(names: list[str], kind: str) -> None:
    pseudonyms = Pseudonyms()
    pseudonyms.note(kind, names)
    pseudonyms.settle()
    other = [pseudonyms.of(kind, name) for name in sorted(names)]
    changed = [new for name, new in zip(sorted(names), other, strict=True) if name != new]
    assert changed == sorted(set(changed), key=str)
    assert len(set(other)) == len(names)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/dev/shm: it lies below / (overlay)", "/dev/shm: it lies below / (overlay)"),
        ("GPU7_eth0 at gpu7.acme.example", "node-1(redacted) at node-1(redacted)"),
        ("Could not resolve hostname bastion7", "Could not resolve hostname (redacted)"),
        ("logs/topsecret.txt: No such file", "(redacted): No such file"),
        ("acme_train.py SHA256:xfg/tT5+Zz refused", "(redacted) (redacted) refused"),
        ("gpu7 waits for gpu77, 3 nodes wait", "node-1 waits for (redacted), 3 nodes wait"),
        ("cannot read /srv/x/y.log: refused", "cannot read (redacted): refused"),
        ("bob@host.example: refused by 7/8", "(redacted): refused by 7/8"),
        ("ann@gpu7: S3R1AL0NUMB3R", "(redacted)node-1: (redacted)"),
        ("at 10.1.2.3 and fe80::1", "at (redacted) and (redacted)"),
        (
            "lowered to 2 Hz: agent used 1.2 % of a core",
            "lowered to 2 Hz: agent used 1.2 % of a core",
        ),
        ("no /proc/pressure: this kernel has none", "no /proc/pressure: this kernel has none"),
    ],
)
def test_what_looks_like_a_name_is_gone_from_texts(text: str, left: str) -> None:
    pseudonyms = Pseudonyms()
    pseudonyms.note("node", ["gpu7"])
    pseudonyms.settle()
    assert pseudonyms.text(text) == left


@pytest.mark.parametrize(
    ("peer", "parts"),
    [("10.0.0.1", ("10.0.0.1", "")), ("10.0.0.1:9000", ("10.0.0.1", ":9000")),
     ("fd00::1", ("fd00::1", "")), ("[fd00::1]:443", ("fd00::1", ":443")), ("odd", ("odd", ""))],
)  # fmt: skip
def test_an_address_and_its_port(peer: str, parts: tuple[str, str]) -> None:
    assert address_and_port(peer) == parts


def test_it_is_a_recording_of_its_own(secret: Path, tmp_path: Path) -> None:
    before = sorted(path.stat().st_mtime_ns for path in secret.rglob("*"))
    redact(gpuwatch.recording.open(secret), tmp_path / "other")
    assert sorted(path.stat().st_mtime_ns for path in secret.rglob("*")) == before
    found = gpuwatch.recording.open(tmp_path / "other")
    assert len(list(found.events())) == len(list(gpuwatch.recording.open(secret).events()))
    assert found.session.job_file["progress"]["node"] == found.session.nodes[0]
