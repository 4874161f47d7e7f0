"""Themes are files: what comes along is whole, what is broken is told and skipped."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.model.verdict import STATES
from gpuwatch.tui.theme import ROLES, ThemeError, bundled, load, read
from tui.contrast import contrast


def test_all_that_come_along_are_whole() -> None:
    themes, problems = load([bundled()])
    assert not problems
    assert {"contrast", "dark", "light", "mono", "sixteen"} <= themes.keys()
    for palette in themes.values():
        chips = {f"chip-{s.lower()}" for s in STATES}
        assert palette.styles.keys() == set(ROLES) | chips
        for state in STATES:
            assert f"verdict-{state.lower()}" in palette.theme.variables


def test_states_of_the_coloured_themes_stand_out_from_the_ground() -> None:
    themes, _ = load([bundled()])
    for name, least in (("contrast", 7.0), ("dark", 4.5), ("light", 4.5)):
        for role in (*(state.lower() for state in STATES), "text", "strong", "bad", "warn"):
            style = themes[name].style(role)
            assert style.color is not None
            assert style.bgcolor is not None
            assert contrast(style.color.get_truecolor(), style.bgcolor.get_truecolor()) >= least


def test_without_colour_nothing_has_any() -> None:
    mono = load([bundled()])[0]["mono"]
    assert all(s.color is None and s.bgcolor is None for s in mono.styles.values())


def broken(change: Callable[[str], str]) -> str:
    """Return a bundled theme with something wrong."""
    return change((bundled() / "dark.toml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("name = [", "bad.toml: "),
        ('name = "x"', "[colours] is missing"),
        (broken(lambda t: t.replace('name = "dark"', 'name = "../x y"')), "name: one word"),
        (broken(lambda t: t.replace("dark = true", 'dark = "yes"')), "true or false"),
        (broken(lambda t: t.replace("peer =", "pear =")), "missing or unknown: pear, peer"),
        (broken(lambda t: t.replace('peer = "#8d9bb0"', "peer = 7")), "text is wanted"),
        (broken(lambda t: t.replace('peer = "#8d9bb0"', 'peer = "no such style"')), "unable to parse 'no'"),
        (broken(lambda t: t.replace('primary = "#6ca6e8"', 'primary = "#zz"')), "#zz"),
        (broken(lambda t: "extra = 1\n" + t), "unknown: extra"),
        ("#" * 70_000, "larger than"),
    ],
)  # fmt: skip
def test_a_broken_theme_is_told_in_one_line_and_skipped(
    tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "bad.toml").write_text(content, "utf-8")
    themes, problems = load([bundled(), tmp_path])
    assert len(themes) >= 4
    assert len(problems) == 1
    assert said in problems[0]


def test_without_any_theme_file_there_is_still_a_screen(tmp_path: Path) -> None:
    themes, problems = load([tmp_path])
    assert len(themes) == 1
    assert not problems


@given(st.binary(max_size=200))
def test_any_bytes_are_a_theme_or_an_error(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.toml"
        path.write_bytes(content)
        with pytest.raises(ThemeError):
            read(path)
