"""What the pictures show: lanes that tell the verdicts, no more than fit; lines that hide nobody."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree.ElementTree import tostring

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.model.verdict import STATES, Culprit, State
from gpuwatch.report.pictures import Lane, Span, lanes, lines
from gpuwatch.report.series import Bins, Series
from gpuwatch.report.tracks import MOST_LANES, PIECES, blamed, drawn, tracks
from gpuwatch.report.types import Ledger, Report, Stretch

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def stretch(
    begin: float, end: float, state: State, node: str | None = None, rank: str | None = None, group: str | None = None,
    *, seen: bool = True, culprits: tuple[Culprit, ...] = (),
) -> Stretch:  # fmt: skip
    first, last = (BEGIN + timedelta(seconds=s) for s in (begin, end))
    return Stretch(
        scope="rank" if rank else "node" if node else "job", node=node, rank=rank, group=group, begin=first, end=last,
        state=state, cause=None, culprits=culprits, waiting=(), suspected_at=first, confirmed_at=None,
        confidence=0.9 if seen else None, support=(), against=(), missing=(), candidates=(),
    )  # fmt: skip


def report(*rows: Stretch) -> tuple[Report, Span]:
    ledger = Ledger(gpu_hours=0.0, by={}, unseen=0.0, amount=None, currency=None)
    end = max(row.end for row in rows)
    found = Report(
        format=1, job="j", begin=BEGIN, end=end, interval_s=1.0, verdicts=rows, recurring=(), share={}, ledger=ledger,
        slowdown=None, events=(), gaps=(), thresholds={}, changes=None,
    )  # fmt: skip
    return found, Span(BEGIN, end)


@given(st.lists(st.tuples(st.floats(0.1, 100), st.sampled_from(STATES)), min_size=1, max_size=900))
@settings(max_examples=25)
def test_a_lane_tiles_the_time_in_no_more_pieces_than_are_seen(
    steps: list[tuple[float, State]],
) -> None:
    now, rows = 0.0, []
    for length, state in steps:
        rows.append(stretch(now, now + length, state))
        now += length
    found, span = report(*rows)
    (lane,) = tracks(found, span).lanes
    assert len(lane.pieces) <= max(PIECES, 1)
    assert lane.pieces[0][0] == 0
    assert abs(lane.pieces[-1][1] - span.seconds) < 1e-3
    assert all(abs(a[1] - b[0]) < 1e-3 and a[2] != b[2] for a, b in pairwise(lane.pieces))
    assert {piece[2] for piece in lane.pieces} <= {state.lower() for _, state in steps}


def test_a_rank_that_came_to_be_of_another_group_has_one_lane_and_ranks_of_two_jobs_have_two() -> (
    None
):
    job, node = stretch(0, 9, "COMPUTE"), stretch(0, 9, "COMPUTE", "n1")
    later = (
        stretch(0, 3, "UNKNOWN", "n1", "0", "session:1"), stretch(3, 9, "UNKNOWN", "n1", "0", "session:1", seen=False),
        stretch(0, 3, "UNKNOWN", "n1", "0", "rdzv:1", seen=False), stretch(3, 9, "CPU", "n1", "0", "rdzv:1"),
    )  # fmt: skip
    drawn_lanes = tracks(*report(job, node, *later)).lanes
    assert [lane.name for lane in drawn_lanes] == ["job", "n1", "rank 0"]
    assert [piece[1:3] for piece in drawn_lanes[2].pieces] == [(3, "unknown"), (9, "cpu")]
    both = (stretch(0, 9, "CPU", "n1", "0", "slurm:1"), stretch(0, 9, "IDLE", "n1", "0", "slurm:2"))
    assert [lane.pieces[0][2] for lane in tracks(*report(job, node, *both)).lanes[2:]] == [
        "cpu",
        "idle",
    ]


def test_of_many_nodes_those_that_waited_most_have_a_lane() -> None:
    rows = [stretch(0, 9, "COMPUTE")]
    rows += [stretch(0, 9, "COMPUTE" if n != 70 else "STORAGE", f"n{n:02}") for n in range(90)]
    rows += [stretch(0, 9, "COMPUTE", f"n{n:02}", "0") for n in range(90)]
    found = tracks(*report(*rows))
    assert len(found.lanes) == MOST_LANES
    assert {"job", "n70"} <= {lane.name for lane in found.lanes}
    assert found.left_out == 181 - MOST_LANES


def test_many_lines_become_a_range_and_whoever_is_to_blame_stays_a_line() -> None:
    bins = Bins(int(BEGIN.timestamp() * 1e6), 1_000_000, 3)
    span = Span(BEGIN, BEGIN + timedelta(seconds=3))
    many = [Series(f"n{n}", None, (float(n), None, 1.0)) for n in range(9)]
    found = drawn(many, bins, span, {"n8"}, "network")
    assert (list(found.clear), len(found.lines), len(found.others)) == (["n8"], 1, 8)
    assert found.band is not None
    assert [values for _, values in found.band.points] == [(0.0, 3.5, 7.0), None, (1.0, 1.0, 1.0)]
    few = drawn(many[:3], bins, span, set(), "strip")
    assert (len(few.clear), few.others, few.band) == (3, [], None)
    picture = tostring(lines(found.lines, span, "t", band=found.band), encoding="unicode")
    assert picture.count("var(--network)") >= 1
    assert "#0101" not in picture


def test_who_shares_what_is_slow_is_not_to_blame() -> None:
    own = stretch(0, 9, "CPU", culprits=(Culprit("rank", "n1:0", ("n1",)),))
    shared = stretch(0, 9, "STORAGE", culprits=(Culprit("mount", "nas:/", ("n1", "n2")),))
    assert blamed([own]) == {"n1"}
    assert blamed([shared]) == set()


def test_a_gap_in_a_lane_stays_empty() -> None:
    span = Span(BEGIN, BEGIN + timedelta(seconds=100))
    lane = Lane("n1", strong=True, pieces=((0, 10, "cpu", "U"), (90, 100, "cpu", "U")))
    picture = lanes([lane], span, "t")
    (path,) = (p for p in picture.iter("path") if "var(--cpu)" in p.get("style", ""))
    assert (path.get("d") or "").count("M") == 2
    assert [text.text for text in picture.iter("text") if text.get("class") == "letter"] == [
        "U",
        "U",
    ]
