"""Every command, as keys on a live screen."""

import dataclasses
import re
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import msgspec
import pytest
from textual.command import CommandPalette
from textual.events import Resize
from textual.geometry import Size
from textual.strip import Strip

from gpuwatch.model.event import AnyEvent
from gpuwatch.tui import Session, Watch
from gpuwatch.tui.app import Judged
from gpuwatch.tui.commands import COMMANDS
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.screens.overview import Overview
from gpuwatch.tui.screens.pages import Detail, Events, Help, Why
from gpuwatch.tui.widgets.canvas import Canvas
from tui import scenarios
from tui.scripted import START_US, Feed
from tui.wait import press, text, until, until_second

Screen = Callable[..., Watch]


async def test_the_answer_is_on_every_page(screen: Screen) -> None:
    app = screen(scenarios.storage())
    async with app.run_test(size=(120, 40)) as pilot:
        await until_second(pilot, 44)
        for key, page in (("enter", Detail), ("w", Why), ("e", Events), ("question_mark", Help)):
            await pilot.press(key)
            assert isinstance(app.screen, page)
            assert "STORAGE read   gpu03 waits for reads" in text(app)
            await pilot.press("escape")
            assert isinstance(app.screen, Overview)


async def test_the_same_key_again_goes_back(screen: Screen) -> None:
    app = screen(scenarios.storage())
    async with app.run_test(size=(120, 40)) as pilot:
        await until_second(pilot, 44)
        for keys, page in (("ww", "Overview"), ("we", "Events"), ("e", "Overview")):
            await pilot.press(*keys)
            assert type(app.screen).__name__ == page


async def test_hands_that_know_vim_or_htop_find_their_way(screen: Screen) -> None:
    app = screen(scenarios.storage())
    async with app.run_test(size=(120, 40)) as pilot:
        await until_second(pilot, 44)
        for key, node in (
            ("g", "gpu01"),
            ("l", "gpu02"),
            ("j", "gpu04"),
            ("h", "gpu03"),
            ("k", "gpu01"),
            ("G", "gpu03"),
        ):
            await press(pilot, key)
            assert app.chosen_node() == node, key
        for key, page in (("f1", Help), ("f1", Overview), ("f4", Overview)):
            await press(pilot, key)
            assert isinstance(app.screen, page)
        assert isinstance(app.screen, Overview)
        assert app.screen.typed.display
        await press(pilot, "escape", "f10")
        await until(pilot, lambda: not app.is_running)


async def test_the_cursor_begins_at_the_culprit_and_opens_the_node_it_is_on(screen: Screen) -> None:
    app = screen(scenarios.storage())
    async with app.run_test(size=(120, 40)) as pilot:
        await until_second(pilot, 44)
        assert app.chosen_node() == "gpu03"
        await pilot.press("right", "left", "up", "right", "right", "left", "enter")
        assert app.chosen_node() == "gpu02"
        assert " gpu02 ─" in text(app)


async def test_a_click_chooses_a_node(screen: Screen) -> None:
    app = screen(scenarios.storage())
    async with app.run_test(size=(120, 40)) as pilot:
        await until_second(pilot, 44)
        await pilot.click("#body", offset=(80, 3))
        assert app.chosen_node() == "gpu02"


async def test_pause_freezes_the_screen_and_not_the_feed(screen: Screen) -> None:
    scenario = scenarios.storage()
    feed = Feed(scenario.events())
    feed.hold_after(10)
    app = Watch(Session(scenario.title, scenario.nodes, 1.0, aiter(feed), scenario.judge))
    async with app.run_test(size=(120, 40)) as pilot:
        await until_second(pilot, 10)
        await pilot.press("space")
        feed.hold_after(22)
        await until(pilot, lambda: "paused, 12 s behind" in text(app))
        assert "COMPUTE" in text(app)
        assert app.scene is not None
        assert app.scene.view.now_us == START_US + 10_000_000
        feed.hold_after(40)
        await pilot.press("space")
        await until_second(pilot, 40)
        assert "STORAGE read" in text(app)
        assert "paused" not in text(app)


async def test_pages_scroll_and_keep_within_bounds(screen: Screen) -> None:
    app = screen(scenarios.storage())
    async with app.run_test(size=(100, 30)) as pilot:
        await until_second(pilot, 44)
        await pilot.press("enter", "pagedown", "pagedown", "down")
        assert " gpu03 ─" not in text(app)
        await pilot.press(*["pageup"] * 3)
        assert " gpu03 ─" in text(app)


async def test_themes_go_round(screen: Screen) -> None:
    app = screen(scenarios.healthy())
    async with app.run_test(size=(100, 30)) as pilot:
        seen = []
        for _ in range(5):
            seen.append(app.theme)
            await pilot.press("T")
        assert sorted(seen) == ["contrast", "dark", "light", "mono", "sixteen"]
        assert app.theme == seen[0]


async def test_the_palette_and_help_have_every_command(screen: Screen) -> None:
    app = screen(scenarios.healthy())
    async with app.run_test(size=(140, 60)) as pilot:
        await pilot.press("question_mark")
        shown = text(app)
        live = [c for c in COMMANDS if c.when == "any"]
        assert all(c.help in shown for c in live)
        entries = [c.title for c in app.get_system_commands(app.screen)]
        assert entries == [c.name.capitalize() for c in live if not c.page]
        await pilot.press("ctrl+p")
        assert isinstance(app.screen, CommandPalette)


async def test_what_only_a_replay_can_do_is_out_of_reach_live(screen: Screen) -> None:
    app = screen(scenarios.healthy())
    async with app.run_test(size=(100, 30)) as pilot:
        await until_second(pilot, 44)
        before = text(app)
        await pilot.press(*(c.key for c in COMMANDS if c.when == "replay"))
        assert text(app) == before


async def test_quit(screen: Screen) -> None:
    app = screen(scenarios.healthy())
    async with app.run_test() as pilot:
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0


async def test_t05_too_small_is_said_and_recovers(screen: Screen) -> None:
    """T05: also in a storm of sizes, of which none is waited for."""
    app = screen(scenarios.storage())
    async with app.run_test(size=(80, 24)) as pilot:
        await until_second(pilot, 44)
        for size in ((20, 5), (1, 1), (39, 24), (80, 9)):
            await pilot.resize_terminal(*size)
            assert "too small"[: size[0] - 1] in text(app)
            assert "STORAGE" not in text(app)
        await press(pilot, "w", "t", "escape")
        for step in range(60):
            cells = Size(1 + step * 37 % 160, 1 + step * 23 % 60)
            app.post_message(Resize(cells, cells))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "STORAGE read" in text(app))


@pytest.mark.parametrize(
    "scenario", [scenarios.storage(4), scenarios.storage(16), scenarios.lost()]
)
async def test_every_size_is_filled_and_keeps_the_answer(
    screen: Screen, scenario: scenarios.Scenario
) -> None:
    app = screen(scenario)
    async with app.run_test(size=(120, 40)) as pilot:
        await until_second(pilot, 44)
        for size in ((40, 10), (80, 24), (81, 13), (100, 30), (200, 60), (300, 100), (60, 90)):
            await pilot.resize_terminal(*size)
            await until(pilot, partial(_fills, app, size[1]))
            assert re.search(r"STORAGE read|COMPUTE", text(app).split("\n")[1])
            assert app.screen.virtual_size.height == size[1]


def _fills(app: Watch, lines: int) -> bool:
    return len(text(app).split("\n")) == lines


async def _failing() -> AsyncIterator[AnyEvent]:
    for event in scenarios.healthy().events()[:30]:
        yield event
    raise ValueError("bad [/b] \x1b]52;c;AAAA\x07 news")


async def test_an_engine_that_breaks_down_is_told_in_words_and_the_screen_stays() -> None:
    scenario = scenarios.healthy()
    app = Watch(Session(scenario.title, scenario.nodes, 1.0, _failing(), scenario.judge))
    async with app.run_test(size=(140, 40)) as pilot:
        await until(pilot, lambda: "gpuwatch stopped: ValueError: bad [/b]" in text(app))
        await pilot.press("w", "escape")
        assert isinstance(app.screen, Overview)


async def test_a_slow_screen_paints_the_newest_tick_only(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T11: what came in a burst is one frame."""
    app = screen(scenarios.healthy())
    painted: list[Scene | None] = []
    repaint = app.repaint

    def counted() -> None:
        painted.append(app.scene)
        repaint()

    async with app.run_test(size=(120, 40)) as pilot:
        await until_second(pilot, 44)
        assert app.scene is not None
        scenes = [dataclasses.replace(app.scene) for _ in range(50)]
        monkeypatch.setattr(app, "repaint", counted)
        for scene in scenes:
            app.post_message(Judged(scene))
        await until(pilot, lambda: app.scene is scenes[-1])
    assert painted == scenes[-1:]


def test_keys_are_declared_once_and_help_has_room_beside_the_letters() -> None:
    keys: Sequence[str] = [key for c in COMMANDS for key in c.key.split(",")]
    assert len(keys) == len(set(keys))
    assert max(len(c.help) for c in COMMANDS) <= 49


def drawing(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, int]]:
    """Return a list that takes the canvas and the line of whatever is drawn from now on."""
    drawn: list[tuple[str | None, int]] = []
    render = Canvas.render_line

    def counted(canvas: Canvas, y: int) -> Strip:
        drawn.append((canvas.id, y))
        return render(canvas, y)

    monkeypatch.setattr(Canvas, "render_line", counted)
    return drawn


async def test_at_rest_only_lines_that_changed_are_drawn(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T11: of hundreds of numbers, those that are new."""
    app = screen(scenarios.healthy())
    async with app.run_test(size=(120, 40)) as pilot:
        await until_second(pilot, 44)
        assert app.scene is not None
        later = msgspec.structs.replace(app.scene.view, wall_us=app.scene.view.wall_us + 1_000_000)
        drawn = drawing(monkeypatch)
        app.post_message(Judged(dataclasses.replace(app.scene, view=later)))
        await until(pilot, lambda: app.scene is not None and app.scene.view is later)
    assert drawn == [("top", 0), ("top", 2)]


async def test_t12_the_cursor_draws_two_lines_of_forty(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T12: however much there is beside it, only the line that it leaves and the one it comes to."""
    app = screen(dataclasses.replace(scenarios.healthy(40), seconds=3))
    async with app.run_test(size=(200, 60)) as pilot:
        await until_second(pilot, 3)
        await pilot.press("down")
        drawn = drawing(monkeypatch)
        await pilot.press("down")
    assert {y for canvas, y in drawn if canvas == "body"} == {1, 2}
    assert not [canvas for canvas, _ in drawn if canvas not in {"body", "below"}]


async def test_nodes_are_tried_again_when_asked() -> None:
    scenario = scenarios.storage()
    asked: list[int] = []

    def retry() -> int:
        asked.append(1)
        return 2 - len(asked)

    feed = Feed(scenario.events())
    feed.hold_after(10)
    session = Session(scenario.title, scenario.nodes, 1.0, aiter(feed), scenario.judge, retry=retry)
    app = Watch(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until_second(pilot, 10)
        await pilot.press("R")
        await until(pilot, lambda: "trying 1 node again" in notes(app))
        await pilot.press("R")
        await until(pilot, lambda: "all nodes stream" in notes(app))
    assert len(asked) == 2


def notes(app: Watch) -> set[str]:
    """Return what the app has said in passing."""
    return {str(note.message) for note in app._notifications}
