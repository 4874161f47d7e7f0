"""The screen's end of the engine: takes events and verdicts, hands on one scene a tick."""

from collections.abc import Callable

from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Marker, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.tui.paint.words import state_words
from gpuwatch.tui.past import LEAP, Past
from gpuwatch.tui.scene import Incident, Scene

__all__ = ["ScreenSink"]

TOGETHER = 4
"""More nodes whose verdicts change to the same words at once are one incident."""
INCIDENTS = 500
"""Incidents that are kept."""


class ScreenSink:
    """Builds scenes; knows nothing of widgets or of the time of day.

    A replay may go back or skip: what happened is kept by its event number and shown up to the
    tick, and a verdict counts as changed only between ticks that follow each other.

    Args:
        title: name of the job.
        past: what is known before, and grows.
        deliver: takes a scene.
        hidden: tells whether ticks only lead up to what is to be shown.
    """

    def __init__(
        self,
        title: str,
        past: Past,
        deliver: Callable[[Scene], None],
        hidden: Callable[[], bool],
    ) -> None:
        self._title = title
        self._deliver = deliver
        self._hidden = hidden
        self._past = past
        self._incidents: dict[tuple[int, str], Incident] = {}
        self._started_us: int | None = None
        self._states: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._last_us: int | None = None

    def event(self, event: AnyEvent) -> None:
        """Take one event."""
        match event:
            case Link():
                # A node that is tried again and again for one reason is told once.
                again = event.state in {"connecting", "lost"} and event.reason
                tale = again or event.state
                if self._links.get(event.node) != tale:
                    self._links[event.node] = tale
                    told = " · ".join(t for t in (event.state, event.reason, event.hint) if t)
                    self._note(event, event.node, "link", told)
            case Fault():
                self._note(event, event.node, "fault", f"{event.source}: {event.text}")
            case Hello():
                self._note(event, event.node, "agent", "started")
            case Marker():
                self._note(event, None, "marker", event.text)

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        """Take the verdict of one tick."""
        now = view.now_us
        before = self._last_us
        if before is None or not 0 < now - before < LEAP * view.interval_us:
            self._states = {}
            before = now - view.interval_us
        self._last_us = now
        self._past.play(before, tick, verdict)
        since_us = self._past.history.since_us or now
        self._started_us = min(since_us, now if self._started_us is None else self._started_us)
        self._tell_changes(tick, verdict)
        if not self._hidden():
            told = self._until(tick.event_no)
            self._deliver(Scene(self._title, view, verdict, self._past, self._started_us, told))

    def _tell_changes(self, tick: Tick, verdict: JobVerdict) -> None:
        """Tell whose verdict is another; many nodes that now say the same are told of in one."""
        changed: dict[str, list[str]] = {}
        for one in (*verdict.nodes, verdict.job):
            name, words = one.node or "", state_words(one)
            before = self._states.get(name)
            self._states[name] = words
            if before not in {None, words}:
                changed.setdefault(words, []).append(name)
        for words, names in changed.items():
            nodes = [name for name in names if name]
            if len(nodes) > TOGETHER:
                self._note(
                    tick, f"{len(nodes)} nodes", "verdict", f"{words}: {nodes[0]} and others"
                )
            for name in [n for n in names if not n] if len(nodes) > TOGETHER else names:
                self._note(tick, name or None, "verdict", words)

    def _note(self, event: AnyEvent, node: str | None, kind: str, text: str) -> None:
        self._incidents[event.event_no, node or ""] = Incident(event.wall_us, node, kind, text)
        if len(self._incidents) > INCIDENTS:
            del self._incidents[min(self._incidents)]

    def _until(self, event_no: int) -> tuple[Incident, ...]:
        """Return what happened up to an event, newest first."""
        numbers = sorted((key for key in self._incidents if key[0] <= event_no), reverse=True)
        return tuple(self._incidents[key] for key in numbers)
