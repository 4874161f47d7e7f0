import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.model.text import sanitize

ANY = st.text(st.characters(exclude_categories=()))


@given(ANY, st.integers(1, 40))
def test_whatever_comes_is_one_bounded_printable_line(text: str, limit: int) -> None:
    shown = sanitize(text, limit)
    assert len(shown) <= limit
    assert shown.isprintable()
    shown.encode("utf-8")


@given(ANY, st.integers(1, 40))
def test_what_is_safe_stays_as_it_is(text: str, limit: int) -> None:
    once = sanitize(text, limit)
    assert sanitize(once, limit) == once


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("a\nb\r\tc\x00\x7f", "a␊b␍␉c␀␡"),
        ("\x9b31m\x85", "�31m�"),
        ("abc\u202egnp.exe", "abc�gnp.exe"),
        ("\ud800\ufeff\u2028", "���"),
        ("a\u00a0b\u3000c", "a b c"),
        ("[/b] [link=file:]", "[/b] [link=file:]"),
        ("模型 é ☃", "模型 é ☃"),
    ],
)
def test_each_kind_of_hostile_character_is_seen(hostile: str, shown: str) -> None:
    assert sanitize(hostile) == shown


def test_too_long_ends_in_an_ellipsis() -> None:
    assert sanitize("x" * 257) == "x" * 255 + "…"
    assert sanitize("x" * 256) == "x" * 256


def test_no_category_that_steers_a_terminal_passes() -> None:
    everything = "".join(map(chr, range(0x110000)))
    passed = {unicodedata.category(c) for c in sanitize(everything, len(everything))}
    assert not passed & {"Cc", "Cf", "Cs", "Zl", "Zp"}
