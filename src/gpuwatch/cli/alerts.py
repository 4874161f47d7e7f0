"""Alerts: a bell, and a program of the user's, when a wait or a fault is confirmed and when it is over.

What is confirmed has lasted, and stays for a while, so alerts do not flutter. The program gets the facts
in its environment and no shell; what came from a node is sanitised before it goes there.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from gpuwatch.job.types import Job
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.text import sanitize
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.model.view import View

__all__ = ["Alerts"]

WELL = ("COMPUTE", "IDLE", "STARTUP")
"""States of a job that nobody is woken for. UNKNOWN is neither well nor ill: nothing is told of it."""
AGAIN_US = 300_000_000
"""The same is not told again so soon: a fault that comes and goes is one."""
PATIENCE_S = 30.0
"""For which the program may run."""
MAX_TEXT = 500


class _Alert(NamedTuple):
    state: str
    cause: str | None


class Alerts:
    """A sink that tells a person who is not looking.

    Args:
        job: its `alerts` say how.
        recording: where it is recorded; None: nowhere.
        tell: takes in words what went wrong with the program.
    """

    def __init__(self, job: Job, recording: Path | None, tell: Callable[[str], None]) -> None:
        self._job = job
        self._recording = recording
        self._tell = tell
        self._now: _Alert | None = None
        self._told: dict[_Alert, int] = {}
        self._running: subprocess.Popen[bytes] | None = None
        self._began_s = 0.0

    def event(self, event: AnyEvent) -> None:
        """Take nothing of it."""

    def judged(self, tick: Tick, _view: View, verdict: JobVerdict) -> None:
        """Tell what is confirmed now and was not, or is over."""
        self._reap()
        job = verdict.job
        if job.state in WELL:
            over, self._now = self._now, None
            if over is not None:
                self._alert("over", job, tick)
        elif job.state != "UNKNOWN" and job.confirmed_us is not None:
            found = _Alert(job.state, job.cause)
            if found != self._now and self._is_new(found, tick):
                self._alert("confirmed", job, tick)
            self._now = found

    def _is_new(self, found: _Alert, tick: Tick) -> bool:
        last_us = self._told.get(found)
        if last_us is not None and tick.arrived_us - last_us < AGAIN_US:
            return False
        self._told[found] = tick.arrived_us
        return True

    def _alert(self, what: str, job: Verdict, tick: Tick) -> None:
        if self._job.alerts.bell and sys.stderr.isatty():
            sys.stderr.write("\a")
            sys.stderr.flush()
        program = self._job.alerts.exec
        if program is None:
            return
        if self._running is not None:
            self._tell(f"alerts.exec: {program} still runs: not started again")
            return
        try:
            self._running = subprocess.Popen(
                [str(program)],
                env={**os.environ, **self._facts(what, job, tick)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._tell(f"alerts.exec: {program}: {error.strerror}")
        self._began_s = time.monotonic()

    def _facts(self, what: str, job: Verdict, tick: Tick) -> dict[str, str]:
        at = datetime.fromtimestamp(tick.wall_us / 1e6, UTC)
        facts = {
            "EVENT": what,
            "JOB": self._job.name,
            "STATE": job.state,
            "CAUSE": job.cause or "",
            "CULPRITS": ",".join(culprit.id for culprit in job.culprits),
            "CONFIDENCE": f"{job.confidence:.2f}",
            "TEXT": job.text,
            "TIME": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "RECORDING": str(self._recording or ""),
        }
        return {f"GPUWATCH_{name}": sanitize(text, MAX_TEXT) for name, text in facts.items()}

    def _reap(self) -> None:
        """See whether the program has ended; end it where it takes too long."""
        running = self._running
        if running is None:
            return
        status = running.poll()
        if status is None and time.monotonic() - self._began_s > PATIENCE_S:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            self._tell(f"alerts.exec: killed after {PATIENCE_S:.0f} s")
        elif status:
            self._tell(f"alerts.exec: ended with status {status}")
        elif status is None:
            return
        self._running = None
