"""What a terminal is sent: in the colours that it has, and never in colour alone."""

import base64
import re
from dataclasses import replace
from itertools import combinations

import pytest
from rich.color import Color, ColorSystem
from rich.style import Style
from textual.pilot import Pilot
from textual.strip import Strip

from gpuwatch.model.verdict import LETTERS, STATES
from gpuwatch.tui import Session, Watch
from gpuwatch.tui.paint.words import GPU_LETTERS
from gpuwatch.tui.theme import bundled, load
from tui import scenarios
from tui.contrast import contrast
from tui.scripted import Feed
from tui.tape import taped
from tui.wait import press, until_second

SCENARIO = replace(scenarios.storage(), seconds=20)
STYLES = re.compile(r"\x1b\[([0-9;]*)m")


async def styles(monkeypatch: pytest.MonkeyPatch, words: dict[str, str]) -> tuple[str, set[str]]:
    """Return what a screen wrote, and the styles in it, in an environment that says so much."""
    for name, word in words.items():
        monkeypatch.setenv(name, word)
    _forget(monkeypatch)
    feed = aiter(Feed(SCENARIO.events()))
    app = Watch(Session(SCENARIO.title, SCENARIO.nodes, 1.0, feed, SCENARIO.judge))

    async def look(pilot: Pilot[int]) -> None:
        await until_second(pilot, SCENARIO.seconds)
        for key in ("enter", "w", "t", "slash", "escape"):
            await press(pilot, key)
            await pilot.pause()

    sent = await taped(app, (120, 40), look)
    return STYLES.sub("", sent), set(STYLES.findall(sent))


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no style know what it was sent as to the terminal, or into the picture, before."""
    render = Strip.render_style

    def afresh(style: Style, text: str, color_system: ColorSystem) -> str:
        style._ansi = None
        return render(style, text, color_system)

    Strip.blank.cache_clear()
    monkeypatch.setattr(Strip, "render_style", staticmethod(afresh))


def colours(found: set[str]) -> set[str]:
    """Return which kinds of colours there are in styles: of 24 bits, of 256, of 16."""
    kinds = set()
    for style in found:
        rest, real = re.subn(r"[34]8;2;\d+;\d+;\d+", "", style)
        rest, many = re.subn(r"[34]8;5;\d+", "", rest)
        few = re.search(r"(?<!\d)(?:[34][0-7]|9[0-7]|10[0-7])(?!\d)", rest)
        kinds |= {"24 bits"} if real else set()
        kinds |= {"256"} if many else set()
        kinds |= {"16"} if few else set()
    return kinds


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ({"TERM": "xterm-256color"}, {"256"}),
        ({"TERM": "screen-256color"}, {"256"}),
        ({"TERM": "screen"}, {"16"}),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, set()),
    ],
    ids=["T09", "T10 tmux", "T10 screen", "T16"],
)
async def test_a_terminal_is_sent_the_colours_that_it_has(
    words: dict[str, str], kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """T09: no 24 bits unless it says so. T10: in screen and tmux. T16: none where none is wanted."""
    words_sent, found = await styles(monkeypatch, words)
    assert colours(found) == kinds
    assert "STORAGE read" in words_sent
    assert "PEER gpu03" in words_sent


def test_t10_states_are_told_apart_without_colour() -> None:
    """T10, T16: by a letter each, among themselves and among what a GPU does."""
    assert set(LETTERS) == set(STATES)
    assert len(set(LETTERS.values())) == len(STATES)
    assert len(set(GPU_LETTERS)) == len(GPU_LETTERS)


@pytest.mark.parametrize("name", ["dark", "light", "contrast"])
def test_t09_states_can_be_read_in_256_colours(name: str) -> None:
    """T09: as near as 256 colours come, they still stand out, and from each other."""
    palette = load([bundled()])[0][name]
    seen: dict[str, tuple[int, int, int]] = {}
    for state in STATES:
        style = palette.style(state.lower())
        assert style.color is not None
        assert style.bgcolor is not None
        seen[state] = _as_256(style.color)
        assert contrast(seen[state], _as_256(style.bgcolor)) >= 4.5, state
    main = [seen[state] for state in ("COMPUTE", "NETWORK", "STORAGE", "CPU")]
    assert all(one != other for one, other in combinations(main, 2))


def _as_256(colour: Color) -> tuple[int, int, int]:
    return colour.downgrade(ColorSystem.EIGHT_BIT).get_truecolor()


async def test_only_who_asks_gets_the_answer_into_the_clipboard() -> None:
    feed = aiter(Feed(SCENARIO.events()))
    app = Watch(Session(SCENARIO.title, SCENARIO.nodes, 1.0, feed, SCENARIO.judge))

    async def look(pilot: Pilot[int]) -> None:
        await until_second(pilot, SCENARIO.seconds)
        await pilot.click("#body")
        await press(pilot, "w", "escape", "y", "t")

    (copied,) = re.findall(r"\x1b]52;c;([^\x07]*)\x07", await taped(app, (120, 40), look))
    title, answer, *_ = base64.b64decode(copied).decode().splitlines()
    assert title == SCENARIO.title
    assert answer.startswith("STORAGE read   gpu03 waits for reads")
