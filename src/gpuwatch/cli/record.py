"""`gpuwatch record`: the live engine without a screen."""

import asyncio
import sys
import time
from argparse import Namespace
from pathlib import Path

from gpuwatch.cli.asking import prepared
from gpuwatch.cli.jobs import job_of, nodes_of
from gpuwatch.cli.watch import Attendance, Watch, folder_of, until_done
from gpuwatch.errors import InputError
from gpuwatch.job import units
from gpuwatch.job.types import Job
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.text import sanitize
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.recording import Recorder
from gpuwatch.report.timeline import word

__all__ = ["record"]

INTERRUPTED = 130


def record(given: Namespace) -> int:
    """Record until the time is over or a signal comes; print where the recording lies."""
    job = job_of(given)
    seconds = None if given.time is None else _seconds(given.time)
    folder = folder_of(job) if given.out is None else Path(given.out)
    return asyncio.run(_record(job, folder, seconds))


async def _record(job: Job, folder: Path, seconds: float | None) -> int:
    watch = await Watch.opened(job, folder, await prepared(nodes_of(job)))
    recorder = watch.record(folder, time.time_ns() // 1000, time.monotonic_ns() // 1000)
    stop = asyncio.Event()
    progress = _Progress(watch.attendance, recorder, stop)
    engine = watch.engine((recorder, *watch.listeners(), progress))
    try:
        interrupted = await until_done(engine, stop, seconds)
    finally:
        await watch.close(engine)
        progress.end()
    print(folder, flush=True)
    watch.check_recorded()
    code = watch.attendance.exit_code()
    # Without --for a signal is the one way to end, so it is no interruption.
    return code or (INTERRUPTED if interrupted and seconds is not None else 0)


def _seconds(text: str) -> float:
    try:
        seconds = units.scaled(text, units.SECONDS)
    except InputError as error:
        raise InputError(f"--for: {error}") from None
    if not seconds:
        raise InputError("--for: the time is zero")
    return seconds


class _Progress:
    """A sink that tells on stderr, each tick, how it goes, and stops what has no hope."""

    def __init__(self, came: Attendance, recorder: Recorder, stop: asyncio.Event) -> None:
        self._came = came
        self._recorder = recorder
        self._stop = stop
        self._began_us: int | None = None
        self._terminal = sys.stderr.isatty()

    def event(self, event: AnyEvent) -> None:
        """Take nothing of it."""

    def judged(self, tick: Tick, _view: View, verdict: JobVerdict) -> None:
        """Tell how far the recording is, who is there, and the verdict."""
        if self._began_us is None:
            self._began_us = tick.arrived_us
        came, status = self._came, self._recorder.status
        paused = f"PAUSED: {status.paused_reason}, " if status.paused_reason else ""
        seconds = (tick.arrived_us - self._began_us) // 1_000_000
        job = verdict.job
        words = f"{word(job)}: {job.text}" if job.text else word(job)
        last = status.acknowledged_event_no
        line = (
            f"{paused}{'nothing' if last < 0 else f'event {last}'} on disk,"
            f" {came.here} of {came.size} nodes, {seconds} s, {sanitize(words, 120)}"
        )
        sys.stderr.write(f"\r\x1b[K{line[:160]}" if self._terminal else f"{line}\n")
        sys.stderr.flush()
        if came.hopeless:
            self._stop.set()

    def end(self) -> None:
        """Leave the line of the terminal."""
        if self._terminal and self._began_us is not None:
            sys.stderr.write("\n")
