"""The screen's end of the engine: takes events and verdicts, hands on one scene a tick."""

from collections import deque
from collections.abc import Callable

from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Marker, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.tui.history import History
from gpuwatch.tui.paint.words import state_words
from gpuwatch.tui.scene import Incident, Scene

__all__ = ["ScreenSink"]

INCIDENTS = 500
"""Incidents that are kept."""


class ScreenSink:
    """Builds scenes; knows nothing of widgets, of replay, or of the time of day."""

    def __init__(self, title: str, deliver: Callable[[Scene], None]) -> None:
        self._title = title
        self._deliver = deliver
        self._history = History()
        self._incidents: deque[Incident] = deque(maxlen=INCIDENTS)
        self._told: tuple[Incident, ...] = ()
        self._started_us: int | None = None
        self._states: dict[str, str] = {}

    def event(self, event: AnyEvent) -> None:
        """Take one event."""
        match event:
            case Link():
                told = " · ".join(t for t in (event.state, event.reason, event.hint) if t)
                self._note(event.wall_us, event.node, "link", told)
            case Fault():
                self._note(event.wall_us, event.node, "fault", f"{event.source}: {event.text}")
            case Hello():
                self._note(event.wall_us, event.node, "agent", "started")
            case Marker():
                self._note(event.wall_us, None, "marker", event.text)

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        """Take the verdict of one tick."""
        now = view.now_us
        if self._started_us is None or now < self._started_us:
            self._started_us = now
        if self._incidents and self._incidents[0].wall_us > tick.wall_us:
            self._forget_after(tick.wall_us)
        self._history.add(now, verdict)
        for one in (verdict.job, *verdict.nodes):
            self._changed(tick.wall_us, one.node, state_words(one))
        self._deliver(
            Scene(self._title, view, verdict, self._history, self._started_us, self._newest_first())
        )

    def _changed(self, wall_us: int, node: str | None, words: str) -> None:
        before = self._states.get(node or "")
        if before != words:
            self._states[node or ""] = words
            if before is not None:
                self._note(wall_us, node, "verdict", words)

    def _note(self, wall_us: int, node: str | None, kind: str, text: str) -> None:
        self._incidents.appendleft(Incident(wall_us, node, kind, text))
        self._told = ()

    def _forget_after(self, wall_us: int) -> None:
        """A replay went back: what came later has not happened yet."""
        kept = [i for i in self._incidents if i.wall_us <= wall_us]
        self._incidents = deque(kept, maxlen=INCIDENTS)
        self._told = ()

    def _newest_first(self) -> tuple[Incident, ...]:
        if not self._told:
            self._told = tuple(self._incidents)
        return self._told
