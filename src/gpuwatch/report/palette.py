"""The page's colours: those of the screen's light and dark themes, as variables of CSS."""

import re
import tomllib
from pathlib import Path

from gpuwatch.model.verdict import STATES

__all__ = ["INKS", "stylesheet", "variable"]

INKS = (*(state.lower() for state in STATES), "text", "strip", "dim", "faint", "rail")
"""What pictures are drawn in."""
_GROUNDS = ("background", "surface", "panel", "accent")
_HEX = re.compile(r"#[0-9a-f]{6}")
_HERE = Path(__file__)


def variable(ink: str) -> str:
    """Return an ink as a value of CSS."""
    return f"var(--{ink})"


def stylesheet() -> str:
    """Return the whole style of the page: dark where the reader's system is, light on paper."""
    light, dark = _variables("light"), _variables("dark")
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n"
        + _HERE.with_name("page.css").read_text("utf-8")
    )


def _variables(theme: str) -> str:
    package = _HERE.parents[1] / "themes"
    folder = package if package.is_dir() else _HERE.parents[3] / "themes"
    document = tomllib.loads((folder / f"{theme}.toml").read_text("utf-8"))
    roles, colours = document["roles"], document["colours"]
    inks = {ink: roles[ink] for ink in INKS} | {name: colours[name] for name in _GROUNDS}
    return "".join(f"--{name}:{_HEX.findall(text)[0]};" for name, text in inks.items())
