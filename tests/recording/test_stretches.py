"""What was said, from columns: the same report as from the whole verdicts, however it was cut and merged."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import Culprit, Finding, JobVerdict, State, Verdict
from gpuwatch.recording.chunk import SCOPES
from gpuwatch.recording.frames import frames
from gpuwatch.recording.record import Shown
from gpuwatch.recording.stretches import joined
from gpuwatch.recording.told import part
from gpuwatch.report.build import Subject, build
from gpuwatch.report.timeline import Clock, Said, said_of
from gpuwatch.report.told import Told
from gpuwatch.report.types import Report

SECOND = 1_000_000
SUBJECT = Subject(job="j", interval_s=1.0, clock=Clock(0, 0), thresholds={})
RANKS = (("a", "0"), ("a", "1"), ("b", "2"))
Judged = list[tuple[Tick, JobVerdict]]


@st.composite
def verdicts(draw: st.DrawFn, scope: str, node: str | None, rank: str | None) -> Verdict:
    """Draw a verdict out of few, so that some go on and some come back."""
    state: State = draw(st.sampled_from(["COMPUTE", "STORAGE", "PEER"]))
    certain = draw(st.sampled_from([0.0, 0.5, 0.9]))
    return Verdict(
        scope=scope,  # type: ignore[arg-type]
        node=node,
        rank=rank,
        group=None if rank is None else "g",
        state=state,
        cause="read" if state == "STORAGE" else None,
        culprits=(Culprit("node", "a", ("a",)),) if state == "PEER" else (),
        confidence=certain,
        support=(Finding("m", draw(st.integers(0, 9)) / 1.0, "%", 1.0, "t"),),
    )


@st.composite
def judged(draw: st.DrawFn) -> Judged:
    """Draw ticks, some of them missing, of a job whose ranks come and go."""
    found: Judged = []
    for no in sorted(draw(st.sets(st.integers(0, 20), min_size=1, max_size=12))):
        there = draw(st.sets(st.sampled_from(RANKS)))
        nodes = draw(st.sets(st.sampled_from(["a", "b"])))
        verdict = JobVerdict(
            job=draw(verdicts("job", None, None)),
            nodes=tuple(draw(verdicts("node", node, None)) for node in sorted(nodes)),
            ranks=tuple(draw(verdicts("rank", *rank)) for rank in sorted(there)),
            slowdown=draw(st.sampled_from([None, 1.5])),
        )
        at_us = no * SECOND
        found.append((Tick(event_no=no, arrived_us=at_us, wall_us=at_us), verdict))
    return found


def sealed(ticks: Judged) -> dict[str, pl.DataFrame]:
    """Return the tables of a log."""
    records: list[Tick | Shown] = []
    for tick, verdict in ticks:
        shown = Shown(event_no=tick.event_no, wall_us=tick.wall_us, verdict=verdict)
        records += [tick, shown]
    return frames(records)


def merged(logs: Sequence[dict[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    laid = {n: pl.concat([log[n] for log in logs]) for n in ("tick", "judged", "stretch")}
    return laid | {"stretch": joined(laid["stretch"], laid["judged"]["event_no"])}


def report(said: Iterable[Said], ticks: Judged) -> Report:
    """Return the report; after a pause a stretch goes on, and its evidence is from before or after it."""
    found = build(SUBJECT, said, [])
    times = [tick.arrived_us for tick, _ in ticks]
    if all(after - before <= 3 * SECOND for before, after in pairwise(times)):
        return found
    replace = msgspec.structs.replace
    rows = (replace(row, confidence=None, support=()) for row in found.verdicts)
    return replace(found, verdicts=tuple(rows))


@settings(max_examples=40, deadline=None)
@given(judged(), st.lists(st.integers(1, 11), max_size=3))
def test_columns_tell_what_whole_verdicts_tell(ticks: Judged, cuts: list[int]) -> None:
    ends = sorted({0, *(cut for cut in cuts if cut < len(ticks)), len(ticks)})
    logs = [sealed(ticks[begin:end]) for begin, end in pairwise(ends)]
    whole = merged(logs)
    assert merged([merged(logs[:2]), *logs[2:]])["stretch"].equals(whole["stretch"])
    whole["stretch"] = whole["stretch"].sort("event_no")  # as a reader has it
    expected = report(said_of(ticks), ticks)
    for parts in ([part(log, SCOPES) for log in logs], [part(whole, SCOPES)]):
        assert report(Told(parts, range(60 * SECOND)).said(), ticks) == expected


def test_a_recording_of_before_they_were_there_is_told_from_what_was_shown() -> None:
    from gpuwatch.recording import open as opened

    recording = opened(Path(__file__).parent / "golden" / "format-2")
    assert all("stretch" not in entry.tables for entry in recording.entries)
    shown = dict(recording.shown())
    ticks = [(e, shown[e.event_no]) for e in recording.events() if isinstance(e, Tick)]
    span = range(2**62)
    whole = build(SUBJECT, said_of(ticks), [])
    assert build(SUBJECT, Told(recording.told(), span).said(), []) == whole
    told = recording.table("judged").select("event_no").collect()
    assert told["event_no"].to_list() == [tick.event_no for tick, _ in ticks]
