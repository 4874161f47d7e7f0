"""A recording of the scripted job, and its replay."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import gpuwatch.recording
from gpuwatch.engine import run
from gpuwatch.feed.replay import RecordedJudge, Replay
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent
from gpuwatch.recording.reader import Recording
from gpuwatch.tui import Session, Watch
from gpuwatch.tui.recorded import told
from tui import scenarios
from tui.scripted import START_US, WALL_US

__all__ = ["SCENARIO", "recorded", "screen"]

SCENARIO = scenarios.storage(gpus=1)


def recorded(folder: Path) -> Recording:
    """Record the scripted job into a folder."""

    async def feed() -> AsyncIterator[AnyEvent]:
        for event in SCENARIO.events():
            yield event

    facts = gpuwatch.recording.Session(
        job=SCENARIO.title, nodes=SCENARIO.nodes, interval_s=1.0, started_wall_us=WALL_US,
        started_mono_us=START_US, version="0",
    )  # fmt: skip
    recorder = gpuwatch.recording.create(folder, facts, None)
    asyncio.run(run(feed(), Cluster(SCENARIO.nodes, 1.0), SCENARIO.judge, [recorder]))
    recorder.close()
    return gpuwatch.recording.open(folder)


def screen(recording: Recording, *, speed: float = 64.0) -> tuple[Watch, Replay]:
    """Return the screen over a recording, and what plays it."""
    replay = Replay(recording, speed)
    session = Session(
        SCENARIO.title,
        SCENARIO.nodes,
        1.0,
        replay,
        RecordedJudge(replay),
        whole=lambda: told(recording),
        theme="dark",
    )
    return Watch(session), replay
