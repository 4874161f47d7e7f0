"""`gpuwatch snapshot`: a few ticks, then a report of them."""

import asyncio
import sys
from argparse import Namespace

import msgspec

from gpuwatch.cli.asking import prepared
from gpuwatch.cli.jobs import job_of, nodes_of
from gpuwatch.cli.watch import Watch, until_done
from gpuwatch.errors import UnreachableError
from gpuwatch.job.types import Job
from gpuwatch.model.event import AnyEvent, Sample, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.report.build import Subject, build
from gpuwatch.report.text import text
from gpuwatch.report.timeline import Clock, said_of

__all__ = ["snapshot"]

TICKS = 6
"""Ticks after every node has answered: enough for what is suspected after 5 s."""
PATIENCE_S = 20.0
"""A node that has not answered by then is told as not reached."""
INTERRUPTED = 130


def snapshot(given: Namespace) -> int:
    """Print one look at a job, as text or JSON."""
    return asyncio.run(_snapshot(job_of(given), as_json=given.json))


async def _snapshot(job: Job, *, as_json: bool) -> int:
    watch = await Watch.opened(job, None, await prepared(nodes_of(job)))
    stop = asyncio.Event()
    look = _Look(watch, stop)
    engine = watch.engine((watch.attendance, look))
    try:
        interrupted = await until_done(engine, stop, PATIENCE_S + TICKS * job.interval_s)
    finally:
        await watch.close(engine)
    if interrupted:
        return INTERRUPTED
    code = watch.attendance.exit_code()
    if not look.judged_ticks:
        raise UnreachableError("no node answered in time")
    first = look.judged_ticks[0][0]
    subject = Subject(
        job=job.name,
        interval_s=job.interval_s,
        clock=Clock(first.wall_us, first.arrived_us),
        thresholds=watch.judge.thresholds.as_dict(),
        cost=job.cost,
    )
    report = build(subject, said_of(look.judged_ticks), look.events)
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n" if as_json else text(report))
    return code


class _Look:
    """A sink that keeps a few ticks, from the first sample on, and says when they are enough."""

    def __init__(self, watch: Watch, stop: asyncio.Event) -> None:
        self._watch = watch
        self._stop = stop
        self._ready = 0
        self.judged_ticks: list[tuple[Tick, JobVerdict]] = []
        self.events: list[AnyEvent] = []

    def event(self, event: AnyEvent) -> None:
        """Keep what the report tells."""
        if not isinstance(event, Sample | Tick):
            self.events.append(event)

    def judged(self, tick: Tick, _view: View, verdict: JobVerdict) -> None:
        """Keep it once a node has answered."""
        if self._watch.attendance.came:
            self.judged_ticks.append((tick, verdict))
        self._ready += self._watch.attendance.settled
        if self._ready >= TICKS or self._watch.attendance.hopeless:
            self._stop.set()
