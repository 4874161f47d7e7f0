"""Steps from lines of a log: period, standstill, gaps, and what is said when there are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent import catalogue
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Row, Sample, Tick
from gpuwatch.model.progress import Expressions, Progress, expressions_of

SECOND = 1_000_000
EXPRESSIONS = Expressions("a", r"step (\d+)", r"tok/s (\d+)")


def sample(at_s: float, lines: dict[str, str], node: str = "a", **absent: str) -> Sample:
    tables: dict[str, tuple[Row, ...]] = dict.fromkeys(catalogue.SCOPES, ())
    tables["progress"] = tuple(Row(pair, (1,)) for pair in lines.items())
    tables["absence"] = tuple(Row(pair, ()) for pair in absent.items())
    return Sample(
        event_no=0, arrived_us=round(at_s * SECOND), wall_us=0, node=node, boot_id="b",
        agent_id="1", sequence=0, generation=0, node_mono_us=round(at_s * SECOND),
        node_wall_us=0, offset_us=None, offset_error_us=None,
        tables=tuple(tables[s] for s in catalogue.SCOPES),
    )  # fmt: skip


def told(*samples: Sample, now_s: float, expressions: Expressions = EXPRESSIONS) -> Progress:
    cluster = Cluster(["a", "b"], 1.0, expressions)
    for one in samples:
        cluster.apply(one)
    progress = cluster.view(Tick(event_no=9, arrived_us=round(now_s * SECOND), wall_us=5)).progress
    assert progress is not None
    return progress


def steady(period_s: float, until_s: int, every: int = 1, first: int = 0) -> list[Sample]:
    """Return samples of each second of a job whose log tells one in so many steps."""
    newest = [first + int(t / period_s) // every * every for t in range(until_s)]
    return [sample(t + 1, {"step": f"step {step} x"}) for t, step in enumerate(newest)]


@pytest.mark.parametrize(
    ("period_s", "every"), [(0.1, 1), (0.52, 1), (1.4, 1), (4.1, 1), (0.13, 50), (20, 1)]
)
def test_the_period_is_right_though_logs_are_looked_at_once_a_second(
    period_s: float, every: int
) -> None:
    progress = told(*steady(period_s, 120, every), now_s=120)
    assert progress.period_s == pytest.approx(period_s, rel=0.05)
    assert progress.moving
    assert progress.span_s > 15


def test_a_checkpoint_among_the_steps_does_not_move_the_period() -> None:
    before = steady(1.0, 20)
    after = [
        sample(s.arrived_us / 1e6 + 30, {"step": f"step {t + 19}"})
        for t, s in enumerate(steady(1.0, 5))
    ]
    progress = told(*before, *after, now_s=55)
    assert progress.period_s == pytest.approx(1.0, rel=0.2)


def test_a_new_speed_is_seen_within_half_a_minute() -> None:
    fast = steady(0.5, 60)
    slow = [
        sample(61 + t, {"step": f"step {120 + int(t / 2)}"}) for t in range(31)
    ]  # fmt: skip
    assert told(*fast, *slow, now_s=91).period_s == pytest.approx(2.0, rel=0.1)


def test_who_stands_still_is_told_since_when() -> None:
    progress = told(
        *steady(1.0, 20), *(sample(20 + t, {"step": "step 19 x"}) for t in range(60)), now_s=80
    )
    assert progress.step == 19
    assert progress.still_s == 60
    assert progress.period_s == pytest.approx(1.0)
    assert not progress.moving


def test_attached_to_a_job_that_stands_nothing_is_made_up() -> None:
    progress = told(*(sample(t, {"step": "step 19"}) for t in range(1, 60)), now_s=60)
    assert (progress.step, progress.still_s, progress.period_s) == (19, 59, None)
    assert not progress.moving


def test_going_back_to_a_checkpoint_begins_anew() -> None:
    again = [sample(60 + t, {"step": f"step {50 + t}"}) for t in range(10)]
    progress = told(*steady(0.5, 60), *again, now_s=70)
    assert progress.step == 59
    assert progress.period_s == pytest.approx(1.0)


def test_lost_frames_cost_nothing_but_themselves() -> None:
    whole = steady(0.52, 60)
    progress = told(*[s for i, s in enumerate(whole) if i % 3], now_s=60)
    assert progress.period_s == pytest.approx(0.52, rel=0.05)


def test_tokens_are_as_the_log_says() -> None:
    assert told(sample(1, {"tokens": "tok/s 1200"}), now_s=1).tokens_s == 1200


def test_only_the_named_node_is_heard() -> None:
    assert told(sample(1, {"step": "step 9"}, node="b"), now_s=1).step is None


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (sample(1, {}), "no line of the log holds the expression's text yet"),
        (
            sample(1, {"step": "step by step"}),
            "the expression finds no number in the log's newest line",
        ),
        (sample(1, {}, progress="/l: Permission denied"), "/l: Permission denied"),
    ],
)
def test_why_there_is_no_step_is_said(one: Sample, reason: str) -> None:
    assert (told(one, now_s=1).reason or "").startswith(reason)


def test_a_log_that_can_no_longer_be_read_is_said_beside_its_last_step() -> None:
    progress = told(sample(1, {"step": "step 9"}), sample(2, {}, progress="gone"), now_s=2)
    assert (progress.step, progress.reason) == (9, "gone")


def test_an_expression_that_never_ends_is_stopped_and_said() -> None:
    lines = [sample(t, {"step": "a" * 190 + f"!{t}"}) for t in range(1, 20)]
    progress = told(*lines, now_s=20, expressions=Expressions("a", "(a+)+$"))
    assert progress.reason == "the expression takes too long"


def test_a_job_without_a_log_has_no_progress() -> None:
    assert Cluster(["a"], 1.0).view(Tick(event_no=9, arrived_us=1, wall_us=5)).progress is None


def test_a_recording_keeps_the_expressions_whatever_else_it_holds() -> None:
    kept = {"node": "a", "log": "/l", "step": r"step (\d+)", "tokens": None}
    assert expressions_of({"progress": kept}) == Expressions("a", r"step (\d+)")
    for odd in (
        None,
        {},
        {**kept, "step": "("},
        {**kept, "step": "x"},
        {**kept, "node": 1},
        "step",
    ):
        assert expressions_of({"progress": odd}) is None
    assert expressions_of({}) is None


@given(
    st.lists(
        st.tuples(
            st.floats(0, 3),
            st.text(max_size=5) | st.integers(-9, 10**30).map(lambda n: f"step {n}"),
        )
    )
)
def test_any_lines_give_a_period_that_is_none_or_positive(drawn: list[tuple[float, str]]) -> None:
    at_s, samples = 1.0, []
    for gap_s, line in drawn:
        at_s += gap_s
        samples.append(sample(at_s, {"step": line, "tokens": line}))
    progress = told(*samples, now_s=at_s)
    assert progress.period_s is None or progress.period_s >= 0
    assert progress.step is not None or progress.reason is not None
