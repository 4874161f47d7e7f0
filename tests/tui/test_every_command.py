"""Every command does something, in a live screen that is paused and in a replay.

What a live screen does that is not paused, test_commands.py shows command by command.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.pilot import Pilot

from gpuwatch.recording.reader import Recording
from gpuwatch.tui import Session, Watch
from gpuwatch.tui.commands import Command
from gpuwatch.tui.screens.ask import Ask
from gpuwatch.tui.screens.overview import Overview
from gpuwatch.tui.screens.page import Page
from tui.recorded import SCENARIO, recorded, screen
from tui.scripted import Feed
from tui.wait import press, text, until, until_second

NOT_HERE = {
    "suspend_process": "stops the process: cli/test_screen.py stops a real one",
    "quit": "is pressed last",
}


def shown_page(app: Watch) -> str:
    return type(app.screen).__name__


def scrolled(app: Watch) -> float:
    assert isinstance(app.screen, Page)
    return app.screen.body.scroll_offset.y


def now_us(app: Watch) -> int:
    return -1 if app.scene is None else app.scene.view.wall_us


def typed_below(app: Watch) -> bool:
    return isinstance(app.screen, Overview) and app.screen.typed.display


def saved(_: Watch) -> list[str]:
    return sorted(path.suffix for path in Path().iterdir())


def speed(app: Watch) -> float | None:
    return app.session.transport.speed if app.session.transport is not None else None


def stopped(app: Watch) -> bool:
    deck = app.session.transport
    return deck.paused if deck is not None else "paused," in text(app) or app._held


EFFECTS: dict[str, tuple[tuple[str, ...], Callable[[Watch], object], tuple[str, ...]]] = {
    "↑": ((), Watch.chosen_node, ()),
    "↓": (("up",), Watch.chosen_node, ()),
    "←": (("right",), Watch.chosen_node, ()),
    "→": (("left",), Watch.chosen_node, ()),
    "pgup": (("enter", "pagedown"), scrolled, ("escape",)),
    "pgdn": (("enter",), scrolled, ("escape",)),
    "g": (("G",), Watch.chosen_node, ()),
    "G": (("g",), Watch.chosen_node, ()),
    "y": ((), lambda app: app.clipboard, ()),
    "z": (("t", "Z"), text, ("escape",)),
    "Z": (("t",), text, ("escape",)),
    "p": (("t", *["left"] * 3), now_us, ("escape",)),
    "/": ((), typed_below, ("escape",)),
    "o": ((), lambda app: app.reordered, ()),
    "space": ((), stopped, ("space",)),
    "m": ((), shown_page, ("escape",)),
    "s": ((), saved, ()),
    "S": ((), saved, ()),
    "T": ((), lambda app: app.theme, ()),
    "^p": ((), lambda app: isinstance(app.screen, CommandPalette), ("escape",)),
    "n": (("home",), now_us, ()),
    "esc": (("w",), shown_page, ()),
    "+": ((), speed, ("minus",)),
    "-": ((), speed, ("plus",)),
    ":": ((), lambda app: isinstance(app.screen, Ask), ("escape",)),
}
"""By the key as people read it: keys before it, what it changes, keys after it."""


def effect(command: Command) -> tuple[tuple[str, ...], Callable[[Watch], object], tuple[str, ...]]:
    """Return how to see what a command does; pages and moves in time are alike."""
    if command.action.startswith("page("):
        return (), shown_page, ("escape",)
    return EFFECTS.get(command.shown.split()[0]) or ((), now_us, ())


def _differs(app: Watch, look: Callable[[Watch], object], was: object) -> bool:
    return look(app) != was


async def to_the_middle(app: Watch, pilot: Pilot[int]) -> None:
    """Put a replay where every command has an effect."""
    deck = app.session.transport
    if deck is not None:
        middle = sum(deck.span) // 2
        app.seek(middle)
        await until(pilot, lambda: abs(now_us(app) - middle) <= 1_000_000)


async def press_all(app: Watch, pilot: Pilot[int]) -> None:
    """Press every command's key, each time from the overview, and see that it did something."""
    await to_the_middle(app, pilot)
    for command in app.commands:
        if command.action.split("(")[0] in NOT_HERE:
            continue
        before, look, after = effect(command)
        if command.when == "replay":
            await to_the_middle(app, pilot)
        await press(pilot, *before)
        was = look(app)
        await press(pilot, command.key.split(",")[0])
        await until(pilot, partial(_differs, app, look, was))
        await press(pilot, *after)
        assert isinstance(app.screen, Overview), command
    await press(pilot, "q")
    await until(pilot, lambda: not app.is_running)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_in_a_live_screen_that_is_paused() -> None:
    session = Session(
        SCENARIO.title, SCENARIO.nodes, 1.0, aiter(Feed(SCENARIO.events())), SCENARIO.judge,
        note=lambda _: None,
    )  # fmt: skip
    app = Watch(session)
    async with app.run_test(size=(120, 30)) as pilot:
        await until_second(pilot, SCENARIO.seconds)
        await press(pilot, "space")
        await press_all(app, pilot)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("replay") / "rec")


async def test_in_a_replay(recording: Recording) -> None:
    app, _ = screen(recording, speed=1.0)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: app.past.whole and app.scene is not None)
        await press_all(app, pilot)


async def test_by_mouse_in_a_replay(recording: Recording) -> None:
    """What the footer names, a click on it does; on the timeline it puts the cursor there."""
    app, _ = screen(recording, speed=1.0)
    async with app.run_test(size=(200, 30)) as pilot:
        await until(pilot, lambda: app.past.whole and app.scene is not None)
        await to_the_middle(app, pilot)
        for command in [c for c in app.commands if c.foot == "room" and not c.page]:
            before, look, after = effect(command)
            await press(pilot, *before)
            was = look(app)
            at = text(app).splitlines()[-1].index(f" {command.shown.split()[0]} {command.name} ")
            await pilot.click("#foot", offset=(at + 2, 0))
            await until(pilot, partial(_differs, app, look, was))
            await press(pilot, *after)
            assert isinstance(app.screen, Overview), command
        await press(pilot, "t")
        await pilot.pause()
        await pilot.click("#body", offset=(190, 2))
        await until(pilot, lambda: "before now" in text(app) or "after now" in text(app))
        assert app.chosen_node() == "gpu02"
