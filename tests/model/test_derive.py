"""Counters become growth over the seconds in which they were read."""

from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent.metric import COUNTER, GAUGE, Metric
from gpuwatch.model.derive import Track

COUNT = Metric("count", "node", COUNTER, "int", "1", "", "A counter.")
LEVEL = Metric("level", "node", GAUGE, "float", "1", "", "A gauge.")


def totals(values: list[float | None], row: Metric = COUNT) -> tuple[float, float]:
    track = Track(1)
    for i, value in enumerate(values):
        track.advance((row,), (value,), 1.0 if i else 0.0)
    total, seconds = track.total()
    return total[0], seconds[0]


def test_a_counter_grows_by_its_differences() -> None:
    assert totals([10, 12, 15]) == (5, 2)


def test_a_gauge_is_integrated_over_time() -> None:
    assert totals([99, 2, 4], LEVEL) == (6, 2)


def test_a_missing_reading_covers_no_time_and_adds_nothing() -> None:
    assert totals([10, None, 15]) == (0, 0)
    assert totals([10, None, 15, 18]) == (3, 1)
    assert totals([99, None, 4], LEVEL) == (4, 1)


def test_a_reset_is_left_out() -> None:
    assert totals([4_287_347_239, 2_345_855, 4_557_891]) == (2_212_036, 1)


def test_a_jitter_of_iowait_counts_as_no_growth() -> None:
    assert totals([548_282, 548_281, 548_290]) == (9, 2)


def test_the_first_reading_after_a_gap_in_an_entity_starts_anew() -> None:
    track = Track(1)
    track.advance((COUNT,), (10,), 0.0)
    track.forget()
    track.advance((COUNT,), (1000,), 1.0)
    assert track.total() == ((0.0,), (0.0,))


def test_a_clock_that_stands_still_adds_nothing() -> None:
    track = Track(1)
    for value, elapsed_s in ((10, 0.0), (20, 0.0), (30, -1.0), (35, 1.0)):
        track.advance((COUNT,), (value,), elapsed_s)
    assert track.total() == ((5.0,), (1.0,))


@given(st.lists(st.none() | st.integers(0, 2**63 - 1), max_size=20))
def test_growth_is_never_negative_and_never_covers_more_time_than_passed(
    values: list[float | None],
) -> None:
    total, seconds = totals(values)
    assert total >= 0
    assert 0 <= seconds <= max(0, len(values) - 1)
