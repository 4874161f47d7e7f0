"""Commands that open the screen: live, replay, demo."""

import asyncio
import os
import signal
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.cli.jobs import job_of, nodes_of
from gpuwatch.errors import InputError

if TYPE_CHECKING:
    from gpuwatch.job.types import Job
    from gpuwatch.recording import Recorder
    from gpuwatch.recording.reader import Recording
    from gpuwatch.tui.session import Session as Show

__all__ = ["demo", "live", "replay"]

LEAD_US = 8_000_000
"""How long before its incident a demo begins."""


def live(given: Namespace) -> int:
    """Watch a job in the screen; print where it was recorded when the screen closes."""
    job = job_of(given)
    nodes_of(job)
    if given.record and given.no_record:
        raise InputError("--record and --no-record are given; one of the two is wanted")
    _need_a_terminal("use `gpuwatch snapshot` for one look, or `gpuwatch record` without a screen")
    here_alone = job.ssh.transport == "local"
    return asyncio.run(_live(job, recorded=given.record or not (here_alone or given.no_record)))


async def _live(job: "Job", *, recorded: bool) -> int:
    from gpuwatch.cli.watch import Watch, folder_of
    from gpuwatch.tui.session import Session as Show

    folder = folder_of(job) if recorded else None
    watch = Watch(job, folder)
    sinks = watch.start(time.time_ns() // 1000, time.monotonic_ns() // 1000)
    recorder = watch.recorder
    show = Show(
        title=job.name,
        nodes=watch.names,
        interval_s=job.interval_s,
        feed=watch.feed,
        judge=watch.judge,
        sinks=sinks,
        recording=None if recorder is None else lambda: _recording_words(recorder),
    )
    try:
        code = await _shown(show)
    finally:
        await watch.release()
    if folder is not None:
        print(folder)  # noqa: T201
    watch.check_recorded()
    return watch.attendance.exit_code() or code


def replay(given: Namespace) -> int:
    """Play a recording in the screen."""
    recording = _opened(Path(given.recording))
    return asyncio.run(_replayed(recording, "replay", None))


def demo(given: Namespace) -> int:
    """Play one of the recordings that come along, by default the first."""
    bundled = {path.parent.name: path.parent for path in sorted(_bundled().glob("*/session.json"))}
    if not bundled:
        raise InputError(f"{_bundled()}: no recording came along with this installation")
    scenario = given.scenario or next(iter(bundled))
    if scenario not in bundled:
        raise InputError(f"no demo {scenario!r}", f"there are: {', '.join(bundled)}")
    recording = _opened(bundled[scenario])

    from gpuwatch.tui.changes import first_wait

    begin_us = first_wait(recording.chunks())
    return asyncio.run(_replayed(recording, f"DEMO, a recording: {scenario}", begin_us))


def _opened(folder: Path) -> "Recording":
    import gpuwatch.recording

    recording = gpuwatch.recording.open(folder)
    _need_a_terminal("use `gpuwatch report` to read a recording without a screen")
    return recording


async def _replayed(recording: "Recording", called: str, incident_us: int | None) -> int:
    """Play a recording, from a little before an incident if one is given."""
    from gpuwatch.feed.replay import RecordedJudge, Replay
    from gpuwatch.tui.session import Session as Show

    facts, feed = recording.session, Replay(recording)
    if incident_us is not None:
        feed.seek(incident_us - LEAD_US)
    return await _shown(
        Show(
            title=facts.job,
            nodes=facts.nodes,
            interval_s=facts.interval_s,
            feed=feed,
            judge=RecordedJudge(feed),
            played=called,
            changes=lambda: asyncio.to_thread(_changes, recording.directory),
        )
    )


def _changes(folder: Path) -> list[int]:
    """Read a recording to its end for what changed, beside the one that is being played."""
    import gpuwatch.recording
    from gpuwatch.tui.changes import changes

    return changes(gpuwatch.recording.open(folder).chunks())


def _bundled() -> Path:
    """Return the folder of recordings that come along: of the package, or of the checkout."""
    package = Path(__file__).parents[1] / "recordings"
    return package if package.is_dir() else Path(__file__).parents[3] / "recordings"


async def _shown(show: "Show") -> int:
    """Run the screen; a terminal that goes away and a polite kill end it as `q` does."""
    from gpuwatch.tui.app import Watch as App

    app = App(show)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, app.exit)
    return await app.run_async() or 0


def _recording_words(recorder: "Recorder") -> str:
    status = recorder.status
    paused = f", paused: {status.paused_reason}" if status.paused_reason else ""
    return f"rec {status.bytes / 1e6:.1f} MB{paused}"


def _need_a_terminal(instead: str) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("the screen needs a terminal", instead)
    if os.environ.get("TERM") == "dumb":
        raise InputError("the screen needs a terminal that can move its cursor", instead)
