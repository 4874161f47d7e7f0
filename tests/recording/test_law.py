"""read(seal(events)) == events, for any list of events."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.agent import catalogue
from gpuwatch.model.event import AnyEvent, Sample
from gpuwatch.model.verdict import Candidate, Culprit, Finding, JobVerdict, Shares, Verdict
from gpuwatch.recording import reader, rows, schema, wal
from gpuwatch.recording.frames import frames
from gpuwatch.recording.record import JudgeState, Layout, Shown, decode, encode
from gpuwatch.recording.store import Folder
from recording.kit import FACTS, INT64, NODE, TEXT, Bench, events, facts

SLOW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def exact(records: Sequence[object]) -> list[bytes]:
    """Make the difference between None, 0, 0.0, False and "" visible, which == hides in part."""
    return [msgspec.msgpack.encode(record) for record in records]


@SLOW
@given(events(), st.integers(0, 6))
def test_sealed_and_read_is_the_same(given: list[AnyEvent], cut: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place) / "rec")
        bench.seal(given[:cut])
        bench.seal(given[cut:])
        bench.manifest.close()
        recording = reader.Recording(Folder(bench.directory), facts())
        assert exact(list(recording.events())) == exact(given)
        assert recording.gaps == ()


@SLOW
@given(events(), st.integers(0, 6))
def test_a_log_that_was_not_sealed_reads_the_same(given: list[AnyEvent], cut: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place) / "rec")
        bench.seal(given[:cut])
        bench.log(given[cut:])
        bench.manifest.close()
        recording = reader.Recording(Folder(bench.directory), facts())
        assert exact(list(recording.events())) == exact(given)


@settings(deadline=None)
@given(events())
def test_one_record_decodes_to_itself(given: list[AnyEvent]) -> None:
    assert exact([decode(encode(event)) for event in given]) == exact(given)


@SLOW
@given(events(), events())
def test_what_is_in_both_log_and_segment_comes_once(
    given: list[AnyEvent], more: list[AnyEvent]
) -> None:
    last = given[-1].event_no if given else -1
    later = [msgspec.structs.replace(e, event_no=last + 1 + e.event_no) for e in more]
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place) / "rec")
        bench.seal(given)
        bench.log(given + later)
        bench.manifest.close()
        recording = reader.Recording(Folder(bench.directory), facts())
        assert exact(list(recording.events())) == exact(given + later)


SHARE = st.floats(0, 1)
STATE = st.sampled_from(["NETWORK", "STORAGE", "UNKNOWN"])
NUMBER = st.none() | st.floats(allow_nan=False, allow_infinity=False)


def verdicts(scope: str) -> st.SearchStrategy[Verdict]:
    return st.builds(
        Verdict, scope=st.just(scope), node=st.none() | NODE, rank=st.none() | TEXT, state=STATE,
        cause=st.none() | TEXT, suspected_us=st.none() | INT64, confirmed_us=st.none() | INT64,
        culprits=st.lists(st.builds(Culprit, st.just("node"), TEXT), max_size=1).map(tuple),
        support=st.lists(
            st.builds(Finding, TEXT, NUMBER, TEXT, NUMBER, TEXT), max_size=2
        ).map(tuple),
        candidates=st.lists(
            st.builds(Candidate, STATE, st.none() | TEXT, SHARE), max_size=1
        ).map(tuple),
        shares=st.none() | st.builds(Shares, SHARE, SHARE, SHARE, SHARE, SHARE),
        confidence=SHARE, text=TEXT,
    )  # fmt: skip


JOBS = st.builds(
    JobVerdict, job=verdicts("job"), nodes=st.lists(verdicts("node"), max_size=2).map(tuple),
    ranks=st.lists(verdicts("rank"), max_size=2).map(tuple), slowdown=NUMBER,
)  # fmt: skip


@SLOW
@given(st.lists(JOBS, max_size=3), st.data())
def test_verdicts_come_back_as_they_were_shown(some: list[JobVerdict], data: st.DataObject) -> None:
    ticks = data.draw(st.lists(st.sampled_from(some), max_size=5)) if some else []
    records = [Shown(event_no=no, wall_us=no, verdict=v) for no, v in enumerate(ticks)]
    frame = frames(records).get("shown")
    assert (rows.shown(frame) if frame is not None else []) == records


@SLOW
@given(st.lists(st.tuples(st.binary(max_size=9), NODE, FACTS), max_size=2), events())
def test_judge_states_come_back(some: list[tuple[bytes, str, dict[str, int]]], more) -> None:  # type: ignore[no-untyped-def]
    standing = tuple(e for e in more if type(e).__name__ in {"Hello", "Link"})
    records = [
        JudgeState(event_no=no, arrived_us=no, wall_us=-no, state=state, standing=standing)
        for no, (state, _, _) in enumerate(some)
    ]
    frame = frames(records).get("judge_state")
    assert (rows.judge_states(frame) if frame is not None else []) == records


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200) | st.binary(max_size=40).map(lambda b: wal.MAGIC + b))
def test_no_log_can_crash_the_reader(content: bytes) -> None:
    read = list(wal.read(content, Layout(catalogue.ROWS)))
    assert sum(r.length for r in read if isinstance(r, wal.Damage)) == len(content)


@SLOW
@given(events(), st.data())
def test_one_flipped_bit_costs_one_record(given: list[AnyEvent], data: st.DataObject) -> None:
    framed = [wal.frame(encode(event)) for event in given]
    content = bytearray(b"".join(framed))
    if not content:
        return
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    read = list(wal.read(bytes(content), Layout(catalogue.ROWS)))
    hit = next(i for i in range(len(framed)) if place < sum(map(len, framed[: i + 1])))
    kept = [record for record in read if not isinstance(record, wal.Damage)]
    assert exact(kept) == exact(given[:hit] + given[hit + 1 :])
    assert len(read) == len(kept) + 1


@settings(deadline=None, max_examples=30)
@given(events(), st.data())
def test_a_log_cut_anywhere_keeps_what_came_before(
    given: list[AnyEvent], data: st.DataObject
) -> None:
    framed = [wal.frame(encode(event)) for event in given]
    content = b"".join(framed)
    cut = data.draw(st.integers(0, len(content)))
    read = list(wal.read(content[:cut], Layout(catalogue.ROWS)))
    whole = sum(cut >= sum(map(len, framed[: i + 1])) for i in range(len(framed)))
    kept = [record for record in read if not isinstance(record, wal.Damage)]
    assert exact(kept) == exact(given[:whole])
    assert all(r.torn for r in read if isinstance(r, wal.Damage))


def test_no_column_is_named_twice() -> None:
    assert len(set(schema.tables())) == len(schema.tables())
    for scope in catalogue.SCOPES:
        own = len(schema.STAMP) + len(schema.AGENT) + (len(schema.SAMPLE) * (scope == "node"))
        declared = len(catalogue.LABELS[scope]) + len(catalogue.VALUES[scope])
        assert len(schema.schema(scope)) == own + declared, scope


def test_a_sample_without_any_reading_is_one_row() -> None:
    empty = Sample(
        event_no=0, arrived_us=0, wall_us=0, node="n", boot_id="b", agent_id="a", sequence=0,
        generation=0, node_mono_us=0, node_wall_us=0, offset_us=None, offset_error_us=None,
        tables=((),) * len(catalogue.SCOPES),
    )  # fmt: skip
    laid = frames([empty])
    assert {name: frame.height for name, frame in laid.items()} == {"node": 1}
