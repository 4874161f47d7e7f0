"""The same screen over a recording, made by the recorder and played by the replay."""

import pytest

from gpuwatch.recording.reader import Recording
from gpuwatch.tui import Watch
from tui import scenarios
from tui.recorded import recorded, screen
from tui.scripted import WALL_US
from tui.wait import text, until

ONSET_US = WALL_US + (scenarios.ONSET + 4) * 1_000_000


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("replay") / "rec")


def at(app: Watch) -> float:
    """Return the second that is shown."""
    return -1.0 if app.scene is None else (app.scene.view.wall_us - WALL_US) / 1e6


async def test_it_plays_to_the_end_and_shows_what_was_shown(
    recording: Recording,
) -> None:
    app, _ = screen(recording)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: at(app) == 44)
        assert "STORAGE read   gpu03 waits for reads" in text(app)
        assert "▶ 64x" in text(app)
        assert "44 s of 44 s" in text(app)


async def test_seek_step_pause_and_changes(recording: Recording) -> None:
    app, replay = screen(recording)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: at(app) == 44)
        await pilot.press("space")
        assert replay.paused
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: at(app) == 34)
        await pilot.press("full_stop")
        await until(pilot, lambda: at(app) == 35)
        await pilot.press("left_curly_bracket")
        await until(pilot, lambda: at(app) == 1)
        assert "COMPUTE" in text(app)
        await pilot.press("n")
        await until(pilot, lambda: at(app) == (ONSET_US - WALL_US) / 1e6)
        assert "STORAGE read" in text(app)
        await pilot.press("end")
        await until(pilot, lambda: at(app) == 44)
        await pilot.press("N")
        await until(pilot, lambda: at(app) == (ONSET_US - WALL_US) / 1e6)
        await pilot.press("home")
        await until(pilot, lambda: at(app) <= 1)
        assert "‖ paused" in text(app)


async def test_go_to_a_time(recording: Recording) -> None:
    app, _ = screen(recording)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: at(app) == 44)
        await pilot.press("space", "colon", *"+20", "enter")
        await until(pilot, lambda: at(app) == 20)
        await pilot.press("colon", *"later", "enter")
        await until(pilot, lambda: any("no time" in str(n.message) for n in app._notifications))
        assert at(app) == 20
        await pilot.press("colon", "escape")
        assert at(app) == 20


async def test_speed(recording: Recording) -> None:
    app, replay = screen(recording, speed=1.0)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("plus", "plus", "minus")
        assert replay.speed == 2.0
        await pilot.press(*["minus"] * 4)
        assert replay.speed == 0.25
        await pilot.press(*["plus"] * 9)
        assert replay.speed == 64.0


async def test_what_happened_is_told_once_whichever_way_time_goes(
    recording: Recording,
) -> None:
    app, _ = screen(recording)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: at(app) == 44)
        assert app.scene is not None
        first = app.scene.incidents
        await pilot.press("space", "home")
        await until(pilot, lambda: at(app) <= 1)
        assert len(app.scene.incidents) < len(first)
        await pilot.press("space")
        await until(pilot, lambda: at(app) == 44)
        assert app.scene.incidents == first
        assert sum(i.kind == "verdict" for i in first) == 5
