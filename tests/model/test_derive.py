"""Counters become growth over the seconds in which they were read."""

from collections.abc import Iterable
from itertools import chain, repeat

from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent.metric import COUNTER, GAUGE, Labels, Metric, Values
from gpuwatch.model.derive import BRIDGE_S, Shape, Standing, Tracks
from gpuwatch.model.event import Row

COUNT = Metric("count", "node", COUNTER, "int", "1", "", "A counter.")
BYTES = Metric("bytes", "nic", COUNTER, "int", "B", "", "Bytes.", ceiling=("mbps", 125_000.0))
MBPS = Metric("mbps", "nic", GAUGE, "int", "Mb/s", "", "Speed.")
LEVEL = Metric("level", "node", GAUGE, "float", "1", "", "A gauge.")
ME: Labels = ("me",)


def follow(
    rows: Iterable[Metric], readings: Iterable[tuple[Values | None, float]]
) -> list[Standing]:
    """Return where the totals stood after each reading of one entity: None: it was not there."""
    tracks, now_us, found = Tracks(Shape.of(tuple(rows)), 0), 0, []
    for values, elapsed_s in readings:
        now_us += round(elapsed_s * 1e6)
        tracks.advance(() if values is None else (Row(ME, values),), now_us)
        found.append(tracks.standing)
    return found


def totals(values: list[float | None], row: Metric = COUNT) -> tuple[float, float]:
    last = follow([row], [((value,), float(i > 0)) for i, value in enumerate(values)])[-1:]
    return (last[0].totals[0], last[0].covered_us(0) / 1e6) if last else (0.0, 0.0)


def test_a_counter_grows_by_its_differences() -> None:
    assert totals([10, 12, 15]) == (5, 2)


def test_a_gauge_is_integrated_over_time() -> None:
    assert totals([99, 2, 4], LEVEL) == (6, 2)


def test_a_counter_that_was_missing_has_grown_meanwhile() -> None:
    assert totals([10, None]) == (0, 0)
    assert totals([10, None, 15]) == (5, 2)
    assert totals([10, None, 15, None, None, 18]) == (8, 5)


def test_a_gauge_that_was_missing_covers_no_time() -> None:
    assert totals([99, None, 4], LEVEL) == (4, 1)


def test_a_counter_that_was_missing_for_long_starts_anew() -> None:
    long = [None] * (round(BRIDGE_S) + 1)
    assert totals([10, *long, 15, 18]) == (3, 1)
    assert totals([10, *long[2:], 15, 18]) == (8, BRIDGE_S + 1)


def test_a_reset_is_left_out() -> None:
    assert totals([4_287_347_239, 2_345_855, 4_557_891]) == (2_212_036, 1)


def test_k13_k14_k17_a_jitter_of_iowait_or_idle_counts_as_no_growth() -> None:
    assert totals([548_282, 548_281, 548_290]) == (9, 2)
    assert totals([109_446_500, 109_446_080, 109_446_090]) == (10, 2)


def test_k17_a_cpu_that_is_unplugged_and_comes_back_is_one_gap() -> None:
    assert totals([345_000_000, 9_000, 10_000]) == (1_000, 1)


def test_an_entity_that_was_away_for_a_while_has_grown_meanwhile() -> None:
    """And what its gauges were is not known; after a longer time it starts anew."""
    for away, grown, counted_s in ((3, 150, 5), (round(BRIDGE_S) + 1, 50, 1)):
        gone = [(None, 1.0)] * away
        last = follow(
            [COUNT, LEVEL],
            [((0, 7), 0.0), *gone, ((100, 7), 1.0), ((150, 7), 1.0)],
        )[-1]
        assert (last.totals[0], last.covered_us(0) / 1e6) == (grown, counted_s)
        assert (last.totals[1], last.covered_us(1) / 1e6) == (14, 2)


def test_entities_come_and_go_and_each_keeps_its_own_totals() -> None:
    tracks = Tracks(Shape.of((COUNT, LEVEL)), 0)
    there = ("ab", "abc", "ac", "cad", "d", "da", "bd")
    for second, names in enumerate(there):
        rows = [Row((name,), (second * (ord(name) - 96), ord(name) - 96)) for name in names]
        tracks.advance(rows, second * 1_000_000)
    found = tracks.standing
    for number, name in enumerate("abcd", 1):
        seen = [second for second, names in enumerate(there) if name in names]
        place = found.places[name,]
        assert found.totals[place] == number * (seen[-1] - seen[0])
        assert found.covered_us(place) / 1e6 == seen[-1] - seen[0]
        assert found.totals[place + 1] == number * len(set(seen) - {0})
    tracks.forget(5_000_000)
    kept = tracks.standing
    assert [labels for (labels,) in kept.places] == ["a", "b", "d"]
    for labels, place in kept.places.items():
        before = found.places[labels]
        assert kept.totals[place] == found.totals[before]
        assert kept.covered_us(place + 1) == found.covered_us(before + 1)


@given(st.lists(st.none() | st.integers(0, 2**63 - 1), max_size=20))
def test_growth_is_never_negative_and_never_covers_more_time_than_passed(
    values: list[float | None],
) -> None:
    total, seconds = totals(values)
    assert total >= 0
    assert 0 <= seconds <= max(0, len(values) - 1)


def rates(
    readings: list[tuple[int | None, int | None] | None], elapsed: Iterable[float] = repeat(1.0)
) -> list[float]:
    """Return the rate over each interval in which there is one, of bytes beside a speed."""
    found = []
    last = (0.0, 0.0)
    for standing in follow([BYTES, MBPS], zip(readings, chain([0.0], elapsed), strict=False)):
        if not standing.places:
            continue
        total, seconds = standing.totals[0], standing.covered_us(0) / 1e6
        assert total >= last[0]
        if seconds > last[1]:
            found.append((total - last[0]) / (seconds - last[1]))
        last = (total, seconds)
    return found


def test_k10_k11_a_counter_that_wraps_is_a_gap_and_never_negative() -> None:
    counts = [4_287_347_239, 4_288_453_273, 2_345_855, 4_557_891]
    assert rates([(count, None) for count in counts]) == [1_106_034, 2_212_036]


def test_zeros_in_between_are_no_traffic_and_make_none() -> None:
    """A driver that resets shows zeros for a moment; then all of its bytes seem to come at once."""
    counts = [10**12, 10**12 + 5, 0, 0, 10**12 + 30, 10**12 + 40]
    assert rates([(count, None) for count in counts]) == [5, 0, 10]


def test_a_counter_that_begins_anew_goes_on_as_before() -> None:
    counts = [3_000_000, 4_000_000, 500_000, 1_500_000, 2_500_000, 3_500_000, 4_500_000, 5_500_000]
    assert rates([(count, None) for count in counts]) == [1_000_000] * 6


def test_more_than_the_device_can_do_was_misread() -> None:
    counts = [1000, 2000, 2**60, 3000, 4000]
    assert rates([(count, 1000) for count in counts]) == [1000, 1000]
    assert rates([(0, 8), (1_000_000, 8), (2_000_001, 8)]) == [1_000_000]


@given(
    speed=st.integers(100, 800_000),
    moves=st.lists(
        st.tuples(
            st.sampled_from(
                ["grow", "grow", "grow", "reset", "wrap", "zero", "rubbish", "gone", "away"]
            ),
            st.floats(0, 1),
            st.sampled_from([1e-6, 0.2, 1.0, 5.0, 30.0]),
        ),
        max_size=20,
    ),
)
def test_k10_k11_no_rate_is_negative_or_above_what_the_port_can_do(
    speed: int, moves: list[tuple[str, float, float]]
) -> None:
    """Over resets, 32-bit wraps, moments of zeros and rubbish, unplugging and gaps."""
    most = speed * 125_000.0
    count = 2**31
    readings: list[tuple[int | None, int | None] | None] = [(count, speed)]
    for kind, share, elapsed_s in moves:
        count += int(share * most * elapsed_s)
        count = {"reset": int(share * 1e6), "wrap": count % 2**32}.get(kind, count)
        shown = {"zero": 0, "rubbish": int(share * 2**62), "gone": None}.get(kind, count)
        readings.append(None if kind == "away" else (shown, speed))
    found = rates(readings, [elapsed_s for *_, elapsed_s in moves])
    assert all(rate <= most * 1.0001 for rate in found)
