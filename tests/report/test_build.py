"""Reports: rows tile the time, the ledger adds up, waits are booked on who caused them."""

from collections import defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.errors import InputError
from gpuwatch.job.types import Cost
from gpuwatch.model.event import AnyEvent, Fault, Link, Marker, Tick
from gpuwatch.model.verdict import (
    CAUSES,
    STATES,
    Culprit,
    Finding,
    JobVerdict,
    Recurring,
    State,
    Verdict,
)
from gpuwatch.report.build import Subject, build
from gpuwatch.report.text import text
from gpuwatch.report.timeline import Clock, said_of
from gpuwatch.report.types import Gap, Report, Stretch, schema
from gpuwatch.verdict.thresholds import Thresholds

START_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SECOND = 1_000_000
NODES = ("gpu001", "gpu002")
SUBJECT = Subject(
    job="llama",
    interval_s=1.0,
    clock=Clock(START_US, 0),
    thresholds=Thresholds().as_dict(),
    cost=Cost(gpu_hour=2.0),
)

Judged = list[tuple[Tick, JobVerdict]]


def tick(second: float) -> Tick:
    us = round(second * SECOND)
    return Tick(event_no=us, arrived_us=us, wall_us=START_US + us)


def told(
    node: str, state: State, cause: str | None = None, blames: str | None = None
) -> tuple[Verdict, Verdict]:
    """A node's verdict, and that of its only rank."""
    culprits = (Culprit("node", blames, (blames,)),) if blames else ()
    of_node = Verdict(scope="node", node=node, state=state, cause=cause, culprits=culprits)
    return of_node, msgspec.structs.replace(of_node, scope="rank", rank="0")


def judged(*parts: tuple[Verdict, Verdict], job: Verdict | None = None) -> JobVerdict:
    return JobVerdict(
        job=job or Verdict(scope="job"),
        nodes=tuple(p[0] for p in parts),
        ranks=tuple(p[1] for p in parts),
    )


def at(second: float) -> datetime:
    return datetime.fromtimestamp(START_US / 1e6 + second, UTC)


def rows_by_scope(report: Report) -> dict[tuple[str, str | None, str | None], list[Stretch]]:
    rows: defaultdict[tuple[str, str | None, str | None], list[Stretch]] = defaultdict(list)
    for row in report.verdicts:
        rows[row.scope, row.node, row.rank].append(row)
    return rows


def test_a_victims_wait_is_booked_on_the_culprits_cause() -> None:
    storage = judged(told("gpu001", "STORAGE", "read"), told("gpu002", "PEER", blames="gpu001"))
    report = build(SUBJECT, said_of([(tick(s), storage) for s in range(3600)]), [])
    assert report.ledger.by == {"STORAGE/read": pytest.approx(2.0)}
    assert report.ledger.amount == {"STORAGE/read": 4.0}
    assert report.ledger.currency == "USD"
    assert report.share == {"gpu001": {"STORAGE/read": 1.0}, "gpu002": {"PEER": 1.0}}


@pytest.mark.parametrize(
    ("culprit", "job", "booked"),
    [
        (told("gpu001", "COMPUTE"), None, "COMPUTE/imbalance"),
        (told("gpu001", "PEER", blames="gpu002"), None, "UNKNOWN"),
        (
            told("gpu001", "PEER", blames="gpu002"),
            Verdict(scope="job", state="NETWORK", cause="loss"),
            "NETWORK/loss",
        ),
        (
            told("gpu001", "CPU", "quota"),
            Verdict(scope="job", state="NETWORK", cause="loss"),
            "CPU/quota",
        ),
    ],
)
def test_where_the_trail_leads(
    culprit: tuple[Verdict, Verdict], job: Verdict | None, booked: str
) -> None:
    verdict = judged(culprit, told("gpu002", "PEER", blames="gpu001"), job=job)
    report = build(SUBJECT, said_of([(tick(0), verdict)]), [])
    assert booked in report.ledger.by


def test_a_row_ends_when_state_cause_or_culprits_change() -> None:
    compute: tuple[State, str | None] = ("COMPUTE", None)
    read: tuple[State, str | None] = ("STORAGE", "read")
    metadata: tuple[State, str | None] = ("STORAGE", "metadata")
    states = [*[compute] * 3, *[read] * 2, *[metadata] * 2]
    ticks = [
        (tick(s), judged(told("gpu001", state, cause))) for s, (state, cause) in enumerate(states)
    ]
    report = build(SUBJECT, said_of(ticks), [])
    rows = rows_by_scope(report)["node", "gpu001", None]
    assert [(r.state, r.cause, r.begin, r.end) for r in rows] == [
        ("COMPUTE", None, at(0), at(3)),
        ("STORAGE", "read", at(3), at(5)),
        ("STORAGE", "metadata", at(5), at(7)),
    ]


def test_a_row_has_the_evidence_of_its_surest_tick_and_the_times_of_its_last() -> None:
    def surer(confidence: float, confirmed: int | None) -> JobVerdict:
        fact = Finding("x", confidence, "1", None, f"{confidence}")
        return JobVerdict(
            job=Verdict(
                scope="job",
                confidence=confidence,
                suspected_us=SECOND,
                confirmed_us=confirmed,
                support=(fact,),
            )
        )

    ticks = [
        (tick(1), surer(0.2, None)),
        (tick(2), surer(0.9, None)),
        (tick(3), surer(0.5, 3 * SECOND)),
    ]
    (row,) = build(SUBJECT, said_of(ticks), []).verdicts
    assert (row.confidence, row.support[0].text) == (0.9, "0.9")
    assert (row.suspected_at, row.confirmed_at) == (at(1), at(3))


def test_time_that_no_tick_saw_is_unknown_unseen_and_a_gap() -> None:
    busy = judged(told("gpu001", "COMPUTE"))
    report = build(SUBJECT, said_of([(tick(0), busy), (tick(1), busy), (tick(61), busy)]), [])
    assert report.ledger.by == {"COMPUTE": pytest.approx(5 / 3600)}
    assert report.ledger.unseen == pytest.approx(57 / 3600)
    assert [(g.node, g.begin, g.end) for g in report.gaps] == [(None, at(4), at(61))]
    states = [(r.state, r.confidence) for r in rows_by_scope(report)["job", None, None]]
    assert states == [("UNKNOWN", 0.0), ("UNKNOWN", None), ("UNKNOWN", 0.0)]


def test_links_make_gaps_but_for_a_first_connecting_that_worked_and_the_viewers_own_end() -> None:
    def link(second: int, node: str, state: str, reason: str | None = None) -> Link:
        us = second * SECOND
        return Link(
            event_no=us,
            arrived_us=us,
            wall_us=START_US + us,
            node=node,
            state=state,
            step="connect",
            reason=reason,
        )

    events: list[AnyEvent] = [
        link(0, "gpu001", "connecting"), link(1, "gpu001", "streaming"),
        link(3, "gpu001", "lost", "ssh lost"), link(4, "gpu001", "connecting"), link(6, "gpu001", "streaming"), link(7, "gpu001", "ended"),
        link(0, "gpu002", "connecting"), link(2, "gpu002", "refused", "no python3"),
        Fault(event_no=1, arrived_us=SECOND, wall_us=START_US, node=None, source="disk", text="full"),
        Marker(event_no=2, arrived_us=SECOND, wall_us=START_US, text="here"),
    ]  # fmt: skip
    report = build(SUBJECT, said_of([(tick(s), judged()) for s in range(8)]), events)
    assert [(g.node, g.begin, g.end, g.reason) for g in report.gaps] == [
        ("gpu002", at(0), at(8), "no python3"),
        ("gpu001", at(3), at(6), "ssh lost"),
    ]
    assert [h.kind for h in report.events if h.node != "gpu001"] == [
        "link_connecting",
        "link_refused",
        "fault",
        "marker",
    ]


def test_nothing_judged_is_said() -> None:
    with pytest.raises(InputError, match="nothing was judged"):
        build(SUBJECT, [], [])
    at = SUBJECT.clock.at(0)
    lost = Gap(node=None, begin=at, end=at, reason="segment 1: tick.parquet: missing")
    with pytest.raises(InputError, match="nothing was judged in this time; segment 1: tick"):
        build(SUBJECT, [], [], [lost])


def test_text_tells_the_answer_first_and_shows_hostile_words_as_they_are() -> None:
    job = Verdict(
        scope="job", state="STORAGE", cause="read", culprits=(Culprit("node", "gpu001\x1b[31m"),)
    )
    verdict = judged(told("gpu001", "STORAGE", "read"), job=job)
    shown = text(build(SUBJECT, said_of([(tick(s), verdict) for s in range(90)]), []), UTC)
    assert shown.splitlines()[:5] == [
        "llama: 2026-01-01 00:00:00 to 00:01:30 UTC, 1 m 30 s",
        "No wait was suspected for long enough to be named; it computed 0% of the time.",
        "spent in: STORAGE/read 100%",
        "",
        "00:00:00   1 m 30 s  STORAGE/read           gpu001\N{SYMBOL FOR ESCAPE}[31m           confidence 0.00",
    ]
    assert "0.05 USD" in shown


words = st.sampled_from([(state, cause) for state in STATES for cause in (None, *CAUSES[state])])


@st.composite
def verdicts(draw: st.DrawFn) -> JobVerdict:
    parts = [
        told(node, *draw(words), blames=draw(st.sampled_from((None, *NODES))))
        for node in draw(st.lists(st.sampled_from(NODES), unique=True))
    ]
    again = draw(
        st.lists(
            st.builds(
                Recurring,
                st.just("job"),
                st.none(),
                st.just("CPU"),
                st.none(),
                st.just(3),
                st.just(2.0),
                st.none(),
                st.just(0.1),
            ),
            max_size=1,
        )
    )
    job_state, job_cause = draw(words)
    whole = judged(*parts, job=Verdict(scope="job", state=job_state, cause=job_cause))
    return msgspec.structs.replace(
        whole, recurring=tuple(again), slowdown=draw(st.none() | st.floats(1, 9))
    )


timelines = st.lists(st.tuples(st.integers(1, 12_000_000), verdicts()), min_size=1, max_size=25)


def as_judged(steps: list[tuple[int, JobVerdict]]) -> Judged:
    now, ticks = 0, []
    for step, verdict in steps:
        now += step
        ticks.append((Tick(event_no=now, arrived_us=now, wall_us=START_US + now), verdict))
    return ticks


@given(timelines)
@settings(max_examples=50)
def test_rows_of_one_scope_tile_the_time(steps: list[tuple[int, JobVerdict]]) -> None:
    report = build(SUBJECT, said_of(as_judged(steps)), [])
    for rows in rows_by_scope(report).values():
        assert (rows[0].begin, rows[-1].end) == (report.begin, report.end)
        assert all(a.end == b.begin for a, b in pairwise(rows))
        assert all(row.begin < row.end for row in rows)
        assert all(row.cause is None for row in rows if row.state == "PEER")


@given(timelines)
@settings(max_examples=50)
def test_the_ledger_and_the_shares_add_up(steps: list[tuple[int, JobVerdict]]) -> None:
    report = build(SUBJECT, said_of(as_judged(steps)), [])
    ledger = report.ledger
    assert sum(ledger.by.values()) + ledger.unseen == pytest.approx(ledger.gpu_hours)
    assert (
        ledger.gpu_hours <= len(NODES) * (report.end - report.begin).total_seconds() / 3600 + 1e-9
    )
    assert "PEER" not in ledger.by
    assert ledger.amount is not None
    assert ledger.amount.keys() == ledger.by.keys() - {"COMPUTE"}
    assert ledger.gain.keys() <= ledger.by.keys() - {"COMPUTE", "UNKNOWN"}
    assert all(factor >= 1 for factor in ledger.gain.values())
    assert all(sum(parts.values()) == pytest.approx(1) for parts in report.share.values())


@given(timelines)
@settings(max_examples=50)
def test_every_report_is_valid_by_its_schema_and_comes_back(
    steps: list[tuple[int, JobVerdict]],
) -> None:
    report = build(SUBJECT, said_of(as_judged(steps)), [])
    document = msgspec.json.encode(report)
    jsonschema.Draft202012Validator(schema()).validate(msgspec.json.decode(document))
    assert msgspec.json.decode(document, type=Report) == report
    assert text(report).isascii() or "\x1b" not in text(report)


def test_the_schema_refuses_what_lacks_a_key() -> None:
    document = msgspec.to_builtins(
        build(SUBJECT, said_of([(tick(0), judged(told("gpu001", "COMPUTE")))]), []), str_keys=True
    )
    jsonschema.Draft202012Validator.check_schema(schema())
    del document["verdicts"][0]["candidates"]
    with pytest.raises(jsonschema.ValidationError, match="candidates"):
        jsonschema.Draft202012Validator(schema()).validate(
            msgspec.json.decode(msgspec.json.encode(document))
        )


def test_the_schema_in_the_documents_is_this_one() -> None:
    file = Path(__file__).parents[2] / "docs" / "report.schema.json"
    assert msgspec.json.decode(file.read_bytes()) == msgspec.json.decode(
        msgspec.json.encode(schema())
    )


def test_ranks_of_two_jobs_on_one_node_that_have_one_name_are_two_rows() -> None:
    of_node = Verdict(scope="node", node="gpu001", state="COMPUTE")
    states: tuple[tuple[str, State], ...] = (("slurm:1", "COMPUTE"), ("slurm:2", "IDLE"))
    ranks = tuple(
        Verdict(scope="rank", node="gpu001", rank="0", group=group, state=state)
        for group, state in states
    )
    both = JobVerdict(job=Verdict(scope="job"), nodes=(of_node,), ranks=ranks)
    report = build(SUBJECT, said_of([(tick(s), both) for s in range(3600)]), [])
    rows = [row for row in report.verdicts if row.scope == "rank"]
    assert [(row.group, row.state) for row in rows] == [("slurm:1", "COMPUTE"), ("slurm:2", "IDLE")]
    assert report.ledger.gpu_hours == pytest.approx(2.0)


def test_a_report_of_several_days_tells_the_day_of_each_stretch() -> None:
    day = 86_400
    subject = msgspec.structs.replace(SUBJECT, interval_s=float(day))
    states: tuple[State, ...] = ("COMPUTE", "IDLE", "COMPUTE")
    days = [
        (tick(n * day), judged(job=Verdict(scope="job", state=s))) for n, s in enumerate(states)
    ]
    told_of = text(build(subject, said_of(days), []), UTC)
    assert "2026-01-01 00:00:00 to 2026-01-04 00:00:00 UTC" in told_of
    assert "2026-01-02 00:00:00" in told_of


@pytest.mark.parametrize(("slowdown", "gain"), [(None, 2.0), (4.0, 1.6), (1.0, 1.0)])
def test_what_would_be_gained_is_what_the_slowdown_lost_and_all_of_the_wait_where_it_is_unknown(
    slowdown: float | None, gain: float
) -> None:
    busy = judged(told("gpu001", "COMPUTE"))
    waits = judged(told("gpu001", "STORAGE", "read"))
    waits = msgspec.structs.replace(waits, slowdown=slowdown)
    ticks = [(tick(s), busy if s < 60 else waits) for s in range(120)]
    ledger = build(SUBJECT, said_of(ticks), []).ledger
    assert ledger.gain == {"STORAGE/read": pytest.approx(gain)}
