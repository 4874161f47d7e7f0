from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.feed.offset import Offset

US = st.integers(0, 10_000_000)


@given(
    st.integers(-(10**15), 10**15),
    st.integers(-(10**15), 10**15),
    st.lists(st.tuples(US, US, US), min_size=1, max_size=30),
)
def test_the_true_offset_lies_within_the_error(
    ahead_us: int, between_us: int, delays: list[tuple[int, int, int]]
) -> None:
    """Whatever the two ways take, and however long the agent waits between them."""
    offset = Offset()
    shortest = min(out + back for out, _, back in delays[-16:])
    now = 10**10
    for beat, (out, held, back) in enumerate(delays):
        offset.sent(beat, now)
        heard, taken = now + out + between_us, now + out + held + between_us
        came = now + out + held + back
        found = offset.heard(beat, (heard, taken, came - back + ahead_us), (came, came))
        now = came + 1000
    assert found is not None
    assert found[1] == shortest // 2
    assert abs(found[0] - ahead_us) <= found[1] + 1


def test_nothing_is_known_before_a_heartbeat_is_answered() -> None:
    offset = Offset()
    assert offset.heard(0, (0, 5, 5), (9, 9)) is None
    offset.sent(1, 100)
    assert offset.heard(7, (0, 5, 5), (200, 200)) is None
    assert offset.heard(1, (1110, 1120, 1120), (130, 130)) == (1000, 10)


def test_a_frame_is_at_most_as_old_as_it_was_under_way() -> None:
    offset = Offset()
    offset.sent(1, 100)
    assert offset.trip_us(1, (10_000, 10_500), 5_700) == 5_100
    assert offset.trip_us(2, (10_000, 10_500), 5_700) is None
    assert offset.trip_us(1, (10_000, 9_000), 5_700) is None
    assert offset.trip_us(1, (10_000, 90_000), 5_700) is None


def test_k34_a_clock_that_is_set_counts_at_once() -> None:
    offset = Offset()
    offset.sent(1, 100)
    assert offset.heard(1, (110, 120, 120), (130, 130)) == (0, 10)
    assert offset.heard(1, (110, 220, 5220), (230, 230)) == (5000, 10)


def test_stamps_that_cannot_be_are_left_out() -> None:
    offset = Offset()
    offset.sent(1, 100)
    assert offset.heard(1, (500, 110, 110), (130, 130)) is None
    assert offset.heard(1, (0, 10**9, 110), (130, 130)) is None


def test_clocks_at_their_ends_give_no_offset_that_no_table_can_hold() -> None:
    most = 2**63 - 1
    offset = Offset()
    offset.sent(1, 100)
    assert offset.heard(1, (most - 10, most, most), (130, 130)) is not None
    assert offset.heard(1, (0, 0, most), (140, 140)) is None
