"""Peaks by hour of day: one that comes back is found, and nothing else is called one."""

import random
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.report.hours import DAYS, peak

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
FLOOR = 5.0


def week(
    seed: int, days: int, spread: float, high: range = range(0), times: float = 1.0
) -> dict[datetime, float]:
    """Return hourly levels about 10, scattered, `times` as high in some hours of each day."""
    chance = random.Random(seed)
    return {
        at: 10 * chance.lognormvariate(0, spread) * (times if at.hour in high else 1)
        for at in (FIRST + timedelta(hours=hour) for hour in range(24 * days))
    }  # fmt: skip


@given(st.integers(0, 2**32), st.integers(DAYS, 7), st.integers(0, 23), st.integers(1, 8))
@settings(max_examples=50)
def test_a_peak_that_comes_back_is_found_wherever_it_lies(
    seed: int, days: int, begin: int, length: int
) -> None:
    levels = week(seed, days, 0.1)
    hours = {(begin + hour) % 24 for hour in range(length)}
    found = peak({at: v * (4 if at.hour in hours else 1) for at, v in levels.items()}, FLOOR)
    assert found is not None
    assert (found.begin, found.end) == (begin, (begin + length) % 24)
    assert found.days == days
    assert found.ratio is not None
    assert 3 < found.ratio < 5


def test_noise_is_no_peak() -> None:
    """Hours that scatter as much as a shared file server's do."""
    assert sum(peak(week(seed, 3, 0.4), FLOOR) is not None for seed in range(300)) <= 3
    assert sum(peak(week(seed, 7, 0.6), FLOOR) is not None for seed in range(300)) <= 3


@given(st.integers(0, 2**32), st.floats(1, 1e6), st.integers(0, 23))
@settings(max_examples=50)
def test_what_happened_on_one_day_is_no_peak(seed: int, times: float, hour: int) -> None:
    levels = week(seed, 5, 0.1)
    at = FIRST + timedelta(days=2, hours=hour)
    assert peak(levels | {at: levels[at] * times}, FLOOR) is None


@given(
    st.dictionaries(
        st.integers(0, 24 * 20).map(lambda hour: FIRST + timedelta(hours=hour)),
        st.floats(0, 1e9), max_size=100,
    ),
    st.floats(0.01, 100),
)  # fmt: skip
def test_whatever_was_seen_a_peak_is_a_part_of_the_day_and_over_the_floor(
    levels: dict[datetime, float], floor: float
) -> None:
    found = peak(levels, floor)
    if found is not None:
        assert 1 <= (found.end - found.begin) % 24 <= 8
        assert found.level >= floor
        assert found.days >= DAYS
        assert len({at.hour for at in levels}) >= 12


def test_two_days_or_a_level_that_nobody_minds_or_most_of_the_day_are_no_peak() -> None:
    evening = range(18, 21)
    assert peak(week(1, 3, 0.1, evening, 4), FLOOR) is not None
    assert peak(week(1, 2, 0.1, evening, 4), FLOOR) is None
    assert peak(week(1, 3, 0.1, evening, 4), 100.0) is None
    assert peak(week(1, 3, 0.1, range(9, 20), 4), FLOOR) is None
