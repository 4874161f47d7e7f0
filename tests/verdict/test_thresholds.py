"""Thresholds: names, units, bounds."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.verdict.thresholds import ROWS, Thresholds, parse, table


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retransmit", "0.1%", 0.001),
        ("retransmit", "0.1 %", 0.001),
        ("gpu_busy", "80", 0.8),
        ("confirm_after", "30s", 30),
        ("confirm_after", "2 min", 120),
        ("recurring_count", "4", 4),
        ("write_rate", "1GB/s", 1000),
        ("write_rate", "4.5", 4.5),
    ],
)
def test_a_value_is_read_in_its_unit(name: str, text: str, value: float) -> None:
    assert parse(name, text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("gpu_busy", "130%", "0 to 100 %"),
        ("gpu_busy", "30s", "0 to 100 %"),
        ("confirm_after", "5%", "1 to 3,600 s"),
        ("confirm_after", "-5", "1 to 3,600 s"),
        ("recurring_count", "3 %", "2 to 20"),
        ("retransmit", "", "0 to 100 %"),
        ("retransmit", "nan", "0 to 100 %"),
        ("retransmit", "1e3", "0 to 100 %"),
        ("gpu_bussy", "80%", "gpu_busy"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(name: str, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(name, text)


def test_every_default_is_inside_its_own_bounds_and_is_documented() -> None:
    for name, value in Thresholds().as_dict().items():
        assert ROWS[name].low <= value <= ROWS[name].high
    rows = {row.name: row for row in table()}
    assert list(rows) == list(Thresholds().as_dict())
    assert all(row.meaning.endswith(".") and row.source for row in rows.values())
    assert rows["retransmit"].default == "0.1 %"


def test_every_default_as_documented_is_read_back() -> None:
    for row in table():
        assert parse(row.name, row.default) == pytest.approx(Thresholds().as_dict()[row.name])


def test_they_survive_a_recording() -> None:
    kept = msgspec.structs.replace(Thresholds(), retransmit=0.5)
    assert msgspec.convert(kept.as_dict(), Thresholds) == kept


@given(st.sampled_from(sorted(ROWS)), st.text(max_size=50))
def test_any_text_is_a_value_inside_the_bounds_or_refused(name: str, text: str) -> None:
    try:
        value = parse(name, text)
    except ValueError:
        return
    assert ROWS[name].low <= value <= ROWS[name].high
