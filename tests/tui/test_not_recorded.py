"""A disk that refuses, on the screen."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuwatch.recording
from gpuwatch.recording import Limits, create
from gpuwatch.tui import Session, Watch
from gpuwatch.tui.session import Said
from recording.kit import facts
from tui import scenarios
from tui.scripted import Feed
from tui.wait import text, until, until_second

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "gpuwatch-test", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a small disk here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


async def test_a_disk_that_refuses_is_on_the_screen_and_live_goes_on(small_disk: Path) -> None:
    """A real recorder on a full disk, while the screen shows each tick; then there is room again."""
    scenario = scenarios.storage()
    recorder = create(small_disk / "rec", facts(), limits=Limits(seal_us=5_000_000))

    def said() -> Said:
        reason = recorder.status.paused_reason
        return Said(f"NOT RECORDED: {reason}", ill=True) if reason else Said("rec")

    feed = Feed(scenario.events())
    session = Session(
        scenario.title, scenario.nodes, 1.0, aiter(feed), scenario.judge,
        sinks=(recorder,), recording=said,
    )  # fmt: skip
    app = Watch(session)
    feed.hold_after(5)
    async with app.run_test(size=(120, 40)) as pilot:
        await until_second(pilot, 5)
        await until(pilot, lambda: "● rec" in text(app))
        with (
            (small_disk / "filler").open("wb", buffering=0) as filler,
            contextlib.suppress(OSError),
        ):
            while filler.write(bytes(4096)):
                pass
        feed.hold_after(30)
        await until_second(pilot, 30)
        await until(pilot, lambda: recorder.status.paused_reason is not None)
        feed.hold_after(35)
        await until(pilot, lambda: "NOT RECORDED: No space left on device" in text(app))
        (small_disk / "filler").unlink()
        await until(pilot, lambda: recorder.status.paused_reason is None)
        feed.hold_after(44)
        await until(pilot, lambda: "● rec" in text(app))
    recorder.close()
    events = list(gpuwatch.recording.open(small_disk / "rec").events())
    assert [event.event_no for event in events] == list(range(len(events)))
