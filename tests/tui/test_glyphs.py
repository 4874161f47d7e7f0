"""The screen where a terminal draws ASCII alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpuwatch.tui.glyphs import _SIGNS, in_ascii

SOURCE = Path(__file__).parents[2] / "src/gpuwatch/tui"


def test_every_sign_that_is_drawn_has_a_likeness() -> None:
    drawn = {c for file in SOURCE.rglob("*.py") for c in file.read_text("utf-8") if not c.isascii()}
    assert drawn <= set(_SIGNS)
    assert all(sign.isascii() and len(sign) == 1 for sign in _SIGNS.values())


@given(st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=20))
def test_a_text_keeps_its_cells(told: str) -> None:
    plain = in_ascii(told)
    assert plain.isascii()
    assert cell_len(plain) == sum(cell_len(sign) for sign in told)


@pytest.mark.parametrize(
    ("words", "speaks"),
    [
        ({"LC_CTYPE": "C.UTF-8"}, True),
        ({"LC_ALL": "C.UTF-8", "LC_CTYPE": "POSIX"}, True),
        ({}, True),  # Python takes a locale of Unicode where nothing is said
        ({"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"}, False),
    ],
)
def test_t07_what_the_locale_says(words: dict[str, str], speaks: bool) -> None:
    """T07: also where LC_CTYPE alone says it."""
    code = "from gpuwatch.tui.glyphs import speaks_unicode; print(speaks_unicode())"
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    path = {"PYTHONPATH": str(SOURCE.parents[1])}
    told = subprocess.run(
        [sys.executable, "-c", code], env=kept | words | path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert told.stdout == f"{speaks}\n"
