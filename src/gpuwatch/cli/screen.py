"""Commands that open the screen: live, replay, demo."""

import asyncio
import importlib
import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.cli.jobs import described, job_of, nodes_of
from gpuwatch.errors import GpuwatchError, InputError

if TYPE_CHECKING:
    from gpuwatch.cli.watch import Watch
    from gpuwatch.engine import Sink
    from gpuwatch.feed.replay import Replay, Told
    from gpuwatch.job.types import Job
    from gpuwatch.model.event import AnyEvent, Tick
    from gpuwatch.model.verdict import JobVerdict, Verdict
    from gpuwatch.model.view import NodeView, View
    from gpuwatch.recording.reader import Recording
    from gpuwatch.transport.transports import Transports
    from gpuwatch.tui.past import Portion
    from gpuwatch.tui.session import Said
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
    from gpuwatch.cli.asking import prepared
    from gpuwatch.model.progress import expressions_of
    from gpuwatch.tui.session import Session as Show

    source = _LiveJob(job, await prepared(nodes_of(job)), recorded=recorded)
    show = Show(
        title=job.name,
        nodes=tuple(node.name for node in job.nodes),
        interval_s=job.interval_s,
        expressions=expressions_of(described(job)),
        feed=source,
        judge=source,
        sinks=(source,),
        recording=source.words if recorded else None,
        note=source.note,
        retry=source.retry,
        cost=job.cost,
        group=_group_of(job.group),
    )
    try:
        code = await _shown(show)
    finally:
        await source.release()
    return source.exit_code() or code


class _LiveJob:
    """A job that is set up when its first event is asked for: once the screen stands.

    Feed, judge and sink in one: to import and open what they need takes as long as the first
    paint, which comes before.
    """

    def __init__(self, job: "Job", transports: "Transports", *, recorded: bool) -> None:
        self._job = job
        self._transports = transports
        self._recorded = recorded
        self._folder: Path | None = None
        self._watch: Watch | None = None
        self._sinks: tuple[Sink, ...] = ()
        self._error: GpuwatchError | None = None

    def __aiter__(self) -> "_LiveJob":
        return self

    async def __anext__(self) -> "AnyEvent":
        """Return the next event of the feed."""
        if self._watch is None:
            await self._set_up()
        return await anext(self._opened.feed)

    async def _set_up(self) -> None:
        module = await asyncio.to_thread(importlib.import_module, "gpuwatch.cli.watch")
        try:
            self._folder = module.folder_of(self._job) if self._recorded else None
            watch: Watch = await module.Watch.opened(self._job, self._folder, self._transports)
            self._sinks = watch.start(time.time_ns() // 1000, time.monotonic_ns() // 1000)
        except GpuwatchError as error:
            self._error = error
            raise
        self._watch = watch

    @property
    def _opened(self) -> "Watch":
        if self._watch is None:
            raise RuntimeError("not set up")
        return self._watch

    def node(self, view: "View", node: "NodeView") -> "tuple[Verdict, ...]":
        """Judge one node."""
        return self._opened.judge.node(view, node)

    def job(self, view: "View", verdicts: "Sequence[tuple[Verdict, ...]]") -> "JobVerdict":
        """Judge the job."""
        return self._opened.judge.job(view, verdicts)

    def event(self, event: "AnyEvent") -> None:
        """Hand an event to whoever listens."""
        for sink in self._sinks:
            sink.event(event)

    def judged(self, tick: "Tick", view: "View", verdict: "JobVerdict") -> None:
        """Hand a verdict to whoever listens."""
        for sink in self._sinks:
            sink.judged(tick, view, verdict)

    def note(self, text: str) -> None:
        """Put a person's note among the events."""
        if self._watch is not None:
            self._watch.feed.note(text)

    def retry(self) -> int:
        """Try nodes again that do not stream; return how many."""
        return self._watch.feed.retry() if self._watch is not None else 0

    def words(self) -> "Said":
        """Say how recording goes."""
        from gpuwatch.tui.session import Said

        recorder = self._watch.recorder if self._watch else None
        if recorder is None:
            return Said("rec")
        status = recorder.status
        if status.paused_reason:
            return Said(f"NOT RECORDED: {status.paused_reason}", ill=True)
        return Said(f"rec {status.bytes / 1e6:.1f} MB")

    async def release(self) -> None:
        """End links, seal the recording."""
        if self._watch is None:
            await self._transports.close()
        else:
            await self._watch.release()

    def exit_code(self) -> int:
        """Say where the recording lies, and return the exit code.

        Raises:
            GpuwatchError: it could not be set up or not be recorded whole, or no node was reached.
        """
        if self._error is not None:
            raise self._error
        if self._watch is None:
            return 0
        if self._folder is not None:
            print(self._folder)
        self._watch.check_recorded()
        return self._watch.attendance.exit_code()


def replay(given: Namespace) -> int:
    """Play a recording in the screen."""
    recording = _opened(Path(given.recording))
    if not given.follow:
        return asyncio.run(_replayed(recording, "replay"))
    if not recording.live:
        raise InputError(
            f"{given.recording}: nobody writes it any more", f"gpuwatch replay {given.recording}"
        )
    return asyncio.run(_followed(recording))


def demo(given: Namespace) -> int:
    """Play one of the recordings that come along."""
    bundled = {path.parent.name: path.parent for path in sorted(_bundled().glob("*/session.json"))}
    if not bundled:
        raise InputError(f"{_bundled()}: no recording came along with this installation")
    if given.scenario not in bundled:
        raise InputError(f"no demo {given.scenario!r}", f"there are: {', '.join(bundled)}")
    recording = _opened(bundled[given.scenario])
    return asyncio.run(_replayed(recording, f"DEMO, a recording: {given.scenario}"))


def _opened(folder: Path) -> "Recording":
    import gpuwatch.recording

    recording = gpuwatch.recording.open(folder)
    _need_a_terminal("use `gpuwatch report` to read a recording without a screen")
    return recording


async def _followed(recording: "Recording") -> int:
    """Show what another gpuwatch records, as it does so."""
    from gpuwatch.feed.follow import Follow
    from gpuwatch.tui.session import Said

    feed = Follow(recording)
    show = _recorded(recording, aiter(feed), feed)
    return await _shown(replace(show, recording=lambda: Said(feed.words())))


async def _replayed(recording: "Recording", called: str) -> int:
    """Play a recording, from a little before its first incident if it has one."""
    from gpuwatch.feed.replay import Replay
    from gpuwatch.tui.recorded import first_wait

    feed = Replay(recording)
    if (incident_us := first_wait(recording)) is not None:
        feed.seek(incident_us - LEAD_US)
    show = _recorded(recording, feed, feed)
    return await _shown(replace(show, played=called, whole=lambda: _told(recording.place)))


def _recorded(
    recording: "Recording", feed: "AsyncIterator[AnyEvent] | Replay", told: "Told"
) -> "Show":
    """Return what the screen is given of a recording, whatever feeds it.

    Args:
        recording: that is shown.
        feed: of its events.
        told: knows the verdicts of its ticks.
    """
    from gpuwatch.feed.replay import RecordedJudge
    from gpuwatch.job.types import cost_of
    from gpuwatch.model.progress import expressions_of
    from gpuwatch.tui.session import Session as Show

    facts = recording.session
    return Show(
        title=facts.job,
        nodes=facts.nodes,
        interval_s=facts.interval_s,
        expressions=expressions_of(facts.job_file),
        feed=feed,
        judge=RecordedJudge(told),
        cost=cost_of(facts.job_file),
        group=_group_of(facts.job_file.get("group")),
    )


def _told(folder: Path) -> "Iterator[Portion]":
    """Read a recording through, beside the one that is being played."""
    import gpuwatch.recording
    from gpuwatch.tui.recorded import told

    yield from told(gpuwatch.recording.open(folder))


def _group_of(pattern: object) -> "Callable[[str], str | None] | None":
    """Return what says which group a node is in; None where the job file does not."""
    from gpuwatch.model.expression import Expression

    if not isinstance(pattern, str):
        return None
    try:
        return Expression(pattern).text
    except ValueError:
        return None


def _bundled() -> Path:
    """Return the folder of recordings that come along: of the package, or of the checkout."""
    package = Path(__file__).parents[1] / "recordings"
    return package if package.is_dir() else Path(__file__).parents[3] / "recordings"


async def _shown(show: "Show") -> int:
    """Run the screen; a terminal that goes away and kills that can be caught end it as `q` does."""
    import platformdirs

    from gpuwatch.tui.app import Watch as App
    from gpuwatch.tui.glyphs import speaks_unicode

    own = platformdirs.user_config_path("gpuwatch") / "themes"
    app = App(replace(show, folders=(own,), ascii=not speaks_unicode()))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        loop.add_signal_handler(number, app.exit)
    return await app.run_async() or 0


def _need_a_terminal(instead: str) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("the screen needs a terminal", instead)
    if os.environ.get("TERM") == "dumb":
        raise InputError("the screen needs a terminal that can move its cursor", instead)
