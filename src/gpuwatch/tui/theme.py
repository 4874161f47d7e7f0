"""Themes as files: colours for Textual's widgets, and a style for each role that paint uses.

A theme is data from a file: what is unknown in it or of a wrong form is told, and that theme is
skipped; the screen starts all the same.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from rich.color import Color
from rich.errors import StyleSyntaxError
from rich.style import Style
from textual.color import Color as TextualColor
from textual.color import ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

from gpuwatch.model.verdict import STATES
from gpuwatch.tui.glyphs import in_ascii
from gpuwatch.tui.paint.spans import safe

__all__ = ["ROLES", "Palette", "ThemeError", "bundled", "load", "read"]

COLOURS = (
    "primary", "secondary", "accent", "warning", "error", "success", "foreground", "background",
    "surface", "panel",
)  # fmt: skip
ROLES = (
    "text", "strong", "title", "dim", "faint", "old", "gap", "rail", "strip", "key", "cursor", "good", "warn",
    "bad", *(state.lower() for state in STATES),
)  # fmt: skip
"""What a theme file must give a style for."""
LARGEST = 65_536
"""Bytes of a theme file."""
LEAST = BUILTIN_THEMES["ansi-dark"]
"""What is left when no theme file could be read."""


class ThemeError(ValueError):
    """A theme file that cannot be used, told in one line."""


@dataclass(frozen=True)
class Palette:
    """One theme: Textual's own part, the styles of roles, chips among them, and whether in ASCII."""

    theme: Theme
    styles: Mapping[str, Style]
    ascii: bool = False

    def letters(self, text: str) -> str:
        """Return what a terminal gets of a text: nothing but what it can print."""
        text = text if text.isprintable() else safe(text, len(text))
        return in_ascii(text) if self.ascii else text

    @staticmethod
    def blank_alike(one: Style | None, other: Style) -> bool:
        """Tell whether blanks look the same in two styles."""
        return one is not None and (
            one.bgcolor == other.bgcolor
            and not (one.reverse or other.reverse or one.underline or other.underline)
        )

    @cached_property
    def ground(self) -> Style:
        """Style of cells without text."""
        text = self.styles["text"]
        return Style(color=text.color, bgcolor=text.bgcolor)

    def style(self, role: str) -> Style:
        """Return the style of a role; of one that no theme names, plain text's."""
        return self.styles.get(role) or self.styles["text"]


def bundled() -> Path:
    """Return the folder of the themes that come along: of the package, or of the checkout."""
    package = Path(__file__).parents[1] / "themes"
    return package if package.is_dir() else Path(__file__).parents[3] / "themes"


def load(
    folders: Iterable[Path],
    *,
    ascii: bool = False,  # noqa: A002 - what it is called
) -> tuple[dict[str, Palette], list[str]]:
    """Return the themes of some folders by name, and what was wrong with those left out."""
    themes: dict[str, Palette] = {}
    problems: list[str] = []
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            try:
                palette = read(path)
            except ThemeError as wrong:
                problems.append(str(wrong))
                continue
            themes[palette.theme.name] = replace(palette, ascii=ascii)
    if not themes:
        themes[LEAST.name] = Palette(LEAST, {"text": Style()}, ascii)
    return themes, problems


def read(path: Path) -> Palette:
    """Return the theme of one file.

    Raises:
        ThemeError: the file cannot be read, or is not a theme.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise ThemeError(f"{path.name}: larger than {LARGEST} bytes")
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as wrong:
        raise ThemeError(f"{path.name}: {wrong}") from wrong
    try:
        return _palette(document)
    except (ThemeError, ColorParseError, StyleSyntaxError) as wrong:
        raise ThemeError(f"{path.name}: {wrong}") from wrong


def _palette(document: dict[str, object]) -> Palette:
    name, dark = document.get("name"), document.get("dark", True)
    ansi = document.get("ansi", False)
    if not isinstance(name, str) or not name.isidentifier():
        raise ThemeError("name: one word is wanted")
    if not isinstance(dark, bool) or not isinstance(ansi, bool):
        raise ThemeError("dark, ansi: true or false is wanted")
    unknown = document.keys() - {"name", "dark", "ansi", "colours", "roles"}
    if unknown:
        raise ThemeError(f"unknown: {', '.join(sorted(unknown))}")
    colours = _table(document, "colours", COLOURS)
    roles = _table(document, "roles", ROLES)
    for colour in colours.values():
        TextualColor.parse(colour)
    styles = _styles(colours, roles, ansi=ansi)
    ground = BUILTIN_THEMES["ansi-dark" if dark else "ansi-light"].variables if ansi else {}
    variables = ground | {
        f"verdict-{s.lower()}": _colour(styles[s.lower()], colours) for s in STATES
    }
    theme = Theme(name, colours["primary"], dark=dark, ansi=ansi, variables=variables)
    for key, colour in colours.items():
        setattr(theme, key, colour)
    return Palette(theme, styles)


def _table(document: dict[str, object], key: str, wanted: tuple[str, ...]) -> dict[str, str]:
    table = document.get(key)
    if not isinstance(table, dict):
        raise ThemeError(f"[{key}] is missing")
    if table.keys() != set(wanted):
        wrong = sorted(table.keys() ^ set(wanted))
        raise ThemeError(f"[{key}]: missing or unknown: {', '.join(map(str, wrong))}")
    if not all(isinstance(v, str) for v in table.values()):
        raise ThemeError(f"[{key}]: text is wanted")
    return dict(table)


def _styles(
    colours: Mapping[str, str], roles: Mapping[str, str], *, ansi: bool
) -> dict[str, Style]:
    """Return a style a role, over the theme's background, and a filled chip a state."""
    ground = Style() if ansi else Style(color=colours["foreground"], bgcolor=colours["background"])
    styles = {role: ground + Style.parse(text) for role, text in roles.items()}
    for state in (s.lower() for s in STATES):
        style = styles[state]
        if ansi or style.color is None:
            styles[f"chip-{state}"] = style + Style(bold=True, reverse=True)
        else:
            ink = Color.parse(colours["background"])
            styles[f"chip-{state}"] = Style(color=ink, bgcolor=style.color, bold=True)
    return styles


def _colour(style: Style, colours: Mapping[str, str]) -> str:
    """Return a style's colour as Textual's style sheets write it."""
    if style.color is None:
        return colours["foreground"]
    return style.color.name if style.color.triplet else f"ansi_{style.color.name}"
