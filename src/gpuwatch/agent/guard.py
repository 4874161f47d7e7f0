"""A guard around each source: what it raises, how long it takes and when it rests is its own affair."""

import _thread
import contextlib
import importlib
import os
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from gpuwatch.agent import catalogue
from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import Absent, Labels, Metric, Reading, Values, declared

Rows = List[Tuple[str, Labels, Values]]
Shape = Tuple[str, Tuple[type, ...], Tuple[type, ...]]
"""Scope, types of the labels, types of the values of a row."""

ABSENT_S = 60.0
"""Rest of a source that this node does not have."""
REST_S = (5.0, 300.0)
"""First and longest rest of a source that failed; each failure in a row doubles it."""
SLOW_S = 0.25
STUCK_S = 2.0
"""After so long in one source the watchdog interrupts it."""
MAX_REASON = 200
MAX_SHAPES = 256
LABELS = {str, int, type(None)}
VALUES = {int, float, type(None)}


class Stuck(Exception):
    """A source took too long and was interrupted."""


class GarbageError(Exception):
    """A source returned what is no reading of the rows that it declares."""


class Guard(object):
    """Runs one source.

    Args:
        name: of the source.
        host: what it reads.
        clock: seconds, monotonic.

    Attributes:
        rows: that the source declares.
        missing: subject to reason, as of the last reading.
        samples: whether the source samples between ticks as well.
        turn: held by the thread that calls it.
        since: when the call that runs now began; None while none does.
        excused_s: for which its thread wanted for a CPU meanwhile: no fault of the source's.
    """

    def __init__(self, name: str, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.missing: Dict[str, str] = {}
        self.since: Optional[float] = None
        self.excused_s = 0.0
        self._module = importlib.import_module("gpuwatch.agent.sources." + name)
        self.rows: Tuple[Metric, ...] = self._module.ROWS
        self.samples = hasattr(self._module.Reader, "sample")
        self.turn = _thread.allocate_lock()
        self._widths = {
            row.scope: (len(catalogue.LABELS[row.scope]), len(declared(self.rows, row.scope)))
            for row in self.rows
        }
        self._shapes: Set[Shape] = set()
        self._host = host
        self._clock = clock
        self._reader: Any = None
        self._rest_until = 0.0
        self._rest_s = REST_S[0]

    def prepare(self) -> None:
        """Make the source's reader, with all that it imports."""
        self._call(None)

    def read(self) -> Rows:
        """Return the source's rows; none while it rests, with the reason in `missing`."""
        began = self._clock()
        if began < self._rest_until:
            return []
        reading = self._call("read")
        if reading is None:
            return []
        self.missing = dict(reading.missing)
        if self._clock() - began - self.excused_s > SLOW_S:
            self.missing[self.name + ".time"] = "slow: over %d ms a reading" % (SLOW_S * 1000)
        self._rest_s = REST_S[0]
        return reading.rows

    def sample(self) -> None:
        """Let a source that samples between ticks do so."""
        if self._clock() >= self._rest_until:
            self._call("sample")

    def close(self) -> None:
        """Let the source give back what it holds."""
        if hasattr(self._reader, "close"):
            with contextlib.suppress(Exception):
                self._reader.close()

    def interrupt(self, now: float) -> None:
        """End the call that runs now, if it has run for too long.

        Called from a signal handler: what it raises comes up inside the source.

        Raises:
            Stuck: when it has; again so much later, should the source go on.
        """
        if self.since is not None and now - self.since - self.excused_s > STUCK_S:
            self.since = now
            self.excused_s = 0.0
            raise Stuck

    def _call(self, method: Optional[str]) -> Optional[Reading]:
        try:
            return self._timed(method)
        except Absent as error:
            self._rest(str(error), ABSENT_S)
        except Exception as error:
            self._rest(told(error), self._rest_s)
            self._rest_s = min(self._rest_s * 2, REST_S[1])
        return None

    def _timed(self, method: Optional[str]) -> Optional[Reading]:
        """Make the call under the watchdog, which may still bite as it returns.

        Raises:
            Stuck: also where only the kernel held it up, and no signal came through.
        """
        began = self._clock()
        self.excused_s = 0.0
        try:
            self.since = began
            if self._reader is None:
                self._reader = self._module.Reader(self._host)
            result = getattr(self._reader, method)() if method else None
            if self._clock() - began - self.excused_s > STUCK_S:
                raise Stuck
            return self._checked(result) if method == "read" else None
        finally:
            self.since = None

    def _checked(self, reading: Any) -> Reading:
        """Return a reading that the wire can carry: a row askew would shift all that others read.

        Raises:
            GarbageError: it is none.
        """
        if not isinstance(reading, Reading):
            raise GarbageError
        for scope, labels, values in reading.rows:
            shape = scope, tuple(map(type, labels)), tuple(map(type, values))
            if shape not in self._shapes:
                self._learn(shape)
            if float in shape[2] and any(v - v != 0 for v in values if type(v) is float):
                raise GarbageError  # no number, or without end
        missing = {_bounded(k): _bounded(v) for k, v in reading.missing.items()}
        return Reading(list(reading.rows), missing)

    def _learn(self, shape: Shape) -> None:
        """Remember a row's shape that can be carried: most rows of most ticks look alike.

        Raises:
            GarbageError: it can't be.
        """
        scope, labels, values = shape
        if (len(labels), len(values)) != self._widths.get(scope):
            raise GarbageError
        if not (LABELS.issuperset(labels) and VALUES.issuperset(values)):
            raise GarbageError
        if len(self._shapes) >= MAX_SHAPES:
            self._shapes.clear()
        self._shapes.add(shape)

    def _rest(self, reason: str, seconds: float) -> None:
        self.since = None
        self.missing = {self.name: _bounded(reason)}
        self._rest_until = self._clock() + seconds


def told(error: BaseException) -> str:
    """Say what a source raised, in one line.

    The words of an exception may quote what was read (`invalid literal for int(): ...`), which
    is no one's business but the node's: so only its type and where it came from. What the kernel
    says about a file quotes nothing.
    """
    if isinstance(error, Stuck):
        return "failed: no answer in %d s" % STUCK_S
    if isinstance(error, GarbageError):
        return "failed: its reading was garbage"
    name = type(error).__name__
    if isinstance(error, OSError) and error.errno is not None:
        path = ": " + error.filename if isinstance(error.filename, str) else ""
        return _bounded("failed: %s: %s%s" % (name, os.strerror(error.errno), path))
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return "failed: " + name
    module = place.tb_frame.f_globals.get("__name__", "?")
    return _bounded("failed: %s in %s, line %d" % (name, module, place.tb_lineno))


def _bounded(text: str) -> str:
    return " ".join(text[: MAX_REASON * 2].split())[:MAX_REASON]
