"""Moments as people type them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.recording.moment import moment

START = datetime(2026, 3, 1, 23, 50, tzinfo=UTC)
END = START + timedelta(hours=2)
ZONE = timezone(timedelta(hours=2))


def us(then: datetime) -> int:
    return round(then.timestamp() * 1e6)


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("+10m", START + timedelta(minutes=10)), ("+90", START + timedelta(seconds=90)),
        ("+1.5h", START + timedelta(hours=1.5)), ("-30s", END - timedelta(seconds=30)),
        (" 01:55 ", START + timedelta(minutes=5)), ("01:50:00", START),
        ("01:49:59", START + timedelta(hours=24, seconds=-1)),
        ("2026-03-02T00:10:00Z", datetime(2026, 3, 2, 0, 10, tzinfo=UTC)),
        ("2026-03-02T02:10:00", datetime(2026, 3, 2, 0, 10, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_moments(text: str, then: datetime) -> None:
    assert moment(text, us(START), us(END), ZONE) == us(then)


@given(st.text(max_size=30))
def test_anything_else_is_none(text: str) -> None:
    found = moment(text, us(START), us(END), ZONE)
    assert found is None or isinstance(found, int)


@pytest.mark.parametrize("text", ["", "25:00", "12:61", "soon", "+", "10m", "9999-99-99"])
def test_what_is_no_moment(text: str) -> None:
    assert moment(text, us(START), us(END), ZONE) is None
