"""What the screen looks like: pictures of a recorded fault on every page, and of odd jobs."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import textual
from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.pilot import Pilot

import gpuwatch.recording
from gpuwatch.feed.replay import RecordedJudge, Replay
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.tui import Session, Watch
from gpuwatch.tui.recorded import told
from gpuwatch.tui.screens.page import Page
from tui import scenarios
from tui.wait import press, until, until_second

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "recordings/net-loss"
AT_US = 78_000_000
"""Into the recording: 48 s after packets began to be lost."""
SIZES = ((80, 24), (120, 40), (200, 60))
PAGES = {
    "overview": (),
    "node": ("enter",),
    "why": ("w",),
    "timeline": ("t", "left", "left"),
    "ledger": ("dollar_sign",),
    "events": ("e",),
    "help": ("question_mark",),
    "filter": ("slash", *"loss>1", "enter"),
}
"""Keys that lead to each, from the overview."""
ODD = {
    "healthy": (scenarios.healthy(), (120, 40), "dark"),
    "many": (scenarios.storage(16), (120, 40), "dark"),
    "unreachable": (scenarios.unreachable(), (120, 34), "dark"),
    "mono": (scenarios.lost(), (100, 30), "mono"),
}


class Text(SingleFileSnapshotExtension):
    """A page as text: what there is to see of one without colours."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT


@pytest.fixture(autouse=True)
def same_textual() -> None:
    """Refuse to compare or to update with another Textual: it draws other bytes."""
    pinned = re.search(
        r"^textual==([\d.]+)", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE
    )
    assert pinned is not None
    if textual.__version__ != pinned[1]:
        pytest.fail(f"snapshots are of textual {pinned[1]}, this is {textual.__version__}")


@pytest.mark.parametrize("name", ODD)
def test_odd_jobs(
    name: str, snap_compare: Callable[..., bool], screen: Callable[..., Watch]
) -> None:
    scenario, size, theme = ODD[name]

    async def ready(pilot: Pilot[int]) -> None:
        await until_second(pilot, scenario.seconds)

    assert snap_compare(screen(scenario, theme), terminal_size=size, run_before=ready)


class Stop:
    """Lets a replay stand still at one tick."""

    def __init__(self, deck: Replay) -> None:
        self._deck = deck

    def event(self, event: AnyEvent) -> None:
        pass

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        self._deck.paused = tick.wall_us >= self._deck.span[0] + AT_US


@asynccontextmanager
async def replayed(theme: str, *, ascii: bool = False) -> AsyncIterator[tuple[Watch, Pilot[int]]]:  # noqa: A002 - what it is called
    """Run the screen on a recording that stands still."""
    recording = gpuwatch.recording.open(RECORDING)
    deck, facts = Replay(recording, None), recording.session
    session = Session(
        facts.job, facts.nodes, facts.interval_s, deck, RecordedJudge(deck), theme=theme,
        ascii=ascii, sinks=(Stop(deck),), whole=lambda: told(recording),
    )  # fmt: skip
    app = Watch(session)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.past.whole and deck.paused)
        deck.speed = 1.0
        yield app, pilot


async def pages(app: Watch, pilot: Pilot[int]) -> AsyncIterator[str]:
    """Show one page after the other, in every size; yield its name."""
    for size in SIZES:
        await pilot.resize_terminal(*size)
        for page, keys in PAGES.items():
            await press(pilot, *keys)
            await pilot.pause()
            yield f"{page}-{size[0]}x{size[1]}"
            await press(pilot, "escape")


async def test_every_page(snapshot: SnapshotAssertion) -> None:
    """Dark in every size; light, which differs in colours alone, in one."""
    pictures = snapshot.use_extension(SVGImageExtension)
    async with replayed("dark") as (app, pilot):
        async for name in pages(app, pilot):
            assert app.export_screenshot(title=name) == pictures(name=f"dark-{name}")
            if "120x40" in name:
                app.theme = "light"
                await pilot.pause()
                assert app.export_screenshot(title=name) == pictures(name=f"light-{name}")
                app.theme = "dark"


async def test_every_page_in_ascii(snapshot: SnapshotAssertion) -> None:
    texts = snapshot.use_extension(Text)
    async with replayed("mono", ascii=True) as (app, pilot):
        async for name in pages(app, pilot):
            assert isinstance(app.screen, Page)
            said = app.screen.text()
            assert said.isascii()
            assert said == texts(name=name)
