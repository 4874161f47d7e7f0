"""Commands that open the screen: live, replay, demo."""

import asyncio
import signal
import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING

from gpuwatch.cli.jobs import job_of, nodes_of
from gpuwatch.errors import InputError

if TYPE_CHECKING:
    from gpuwatch.job.types import Job
    from gpuwatch.recording import Recorder
    from gpuwatch.tui.session import Session as Show

__all__ = ["live"]


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
    return watch.attendance.exit_code() or code


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
