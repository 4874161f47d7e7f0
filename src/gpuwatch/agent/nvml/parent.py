"""The agent's side of the NVML child: starts it, hears it, and outlives what happens to it.

Nothing here waits, or calls NVML. A child that gives no answer for long is killed; one that cannot
die is left alone, and no second one is started while it is there.
"""

import contextlib
import json
import os
import signal
from typing import Any, Callable, List, Sequence

from gpuwatch.agent.child import alone, status_of, stuck_child_of_another
from gpuwatch.agent.host import Host
from gpuwatch.agent.nvml import child

PATIENCE = 3
"""Intervals without an answer after which the last one no longer counts."""
DEADLINE_S = (10.0, 60.0)
"""Silence after which a child is killed; doubled each time up to the second: a driver that is
slow under load would else be started again and again, which is more load."""
FIRST_ANSWER_S = 60.0
"""Patience with the first answer: without persistence mode the driver starts each GPU first."""
STARTING_S = 3.0
BACK_OFF_S = (1.0, 60.0)
HEALTHY_S = 60.0
"""A child that answered for so long makes deadline and back-off start anew."""
STEPS_S = (0, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)
"""Steps in which a time is told: a reason that changes each second would be a new one each."""
CHUNK = 65536
MAX_MESSAGE = 1 << 18
MAX_BUFFER = 1 << 20
STARTING = "starting"
GARBLED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What comes of a message that is none."""


class Probe(object):
    """One child at a time, looked after.

    Args:
        host: its board gets the child's pid.
        locators: of the metrics of one GPU.
        take: is called with each message that the child sends, but for its last words.

    Attributes:
        pid: of the child, 0 while there is none.
        dying: pid of a child that was killed, or ended, and is not dead yet.
        absent: why this node has no NVML; "" where it has, or may have.
        full_at: when the last full answer came.
    """

    def __init__(
        self, host: Host, locators: Sequence[str], take: Callable[[List[Any], float], None]
    ) -> None:
        self.pid = self.dying = 0
        self.absent = ""
        self.full_at = 0.0
        self.deadline_s = DEADLINE_S
        self.first_answer_s = FIRST_ANSWER_S
        self._host = host
        self._interval_s = host.options.interval_s
        self._locators = list(locators)
        self._take = take
        self._pipe = -1
        self._buffer = b""
        self._began = self._answered = self._first_start = self._next_start = 0.0
        self._delay_s = BACK_OFF_S[0]
        self._silences = 0
        self._reason = ""

    def fresh(self, at: float, now: float) -> bool:
        """Tell whether what came then still counts."""
        return bool(self.pid) and now - at <= PATIENCE * self._interval_s

    def answers(self, now: float) -> bool:
        """Tell whether there is a full answer of this child that still counts."""
        return self._has_answered() and self.fresh(self.full_at, now)

    def silence(self, now: float) -> str:
        """Say why there is no answer."""
        if self._reason:
            return self._reason
        silent_s = now - (self.full_at or self._first_start)
        if not self.full_at and silent_s < STARTING_S:
            return STARTING
        return "no answer for %d s" % step(silent_s)

    def hear(self, now: float) -> None:
        """Take all whole messages from the pipe; at its end let go of the child."""
        if self._pipe < 0:
            return
        while len(self._buffer) < MAX_BUFFER:
            try:
                data = os.read(self._pipe, CHUNK)
            except BlockingIOError:
                break
            if not data:
                self._let_go()
                self._wait_longer(now)
                break
            self._buffer += data
            if len(data) < CHUNK:
                break  # that was all
        try:
            for message in self.messages():
                self._answered = now
                self._heard(message, now)
        except GARBLED:
            self._reason = "the NVML probe garbled its answer"
            if self.pid:
                self._kill()
                self._wait_longer(now)

    def care(self, now: float) -> None:
        """Kill a silent child, bury a dead one, start the next when its time has come."""
        if self.pid and now - self._answered > self._patience_s():
            self._reason = ""
            self._silences = min(self._silences + 1, 10)
            self._kill()
            self._wait_longer(now)
        if self.dying:
            self._bury()
        if self.pid or self.dying or self.absent or now < self._next_start:
            return
        orphan = stuck_child_of_another(self._host, child.NAME)
        if orphan:
            self._reason = "an earlier probe (pid %d) hangs in the driver" % orphan
            self._wait_longer(now)
        else:
            self._start(now)

    def close(self) -> None:
        """End the child; one that cannot die is left."""
        if self.pid:
            self._kill()

    def messages(self) -> List[List[Any]]:
        """Cut whole messages off what has been read.

        Raises:
            ValueError: this is no message.
        """
        messages = []
        head = child.LENGTH.size
        while len(self._buffer) >= head:
            length = child.LENGTH.unpack_from(self._buffer)[0]
            if length > MAX_MESSAGE:
                raise ValueError("a message of %d bytes from the NVML child" % length)
            if len(self._buffer) < head + length:
                break
            messages.append(json.loads(self._buffer[head : head + length].decode("ascii")))
            self._buffer = self._buffer[head + length :]
        return messages

    def _heard(self, message: List[Any], now: float) -> None:
        if message[0] != "end":
            self._take(message, now)
            if message[0] == "full":
                self.full_at, self._reason = now, ""
                if now - self._began >= HEALTHY_S:
                    self._silences, self._delay_s = 0, BACK_OFF_S[0]
        elif message[1] == "absent":
            self.absent = str(message[2])
        else:
            self._reason = str(message[2])

    def _has_answered(self) -> bool:
        return self.full_at > self._began

    def _patience_s(self) -> float:
        """Seconds that the child may be silent now."""
        shortest, longest = self.deadline_s
        patience_s = max(
            min(shortest * (1 << self._silences), longest), PATIENCE * self._interval_s
        )
        return patience_s if self._has_answered() else max(self.first_answer_s, patience_s)

    def _start(self, now: float) -> None:
        parent = os.getpid()
        ours, theirs = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            self._reason = "no process could be started"
            self._wait_longer(now)
            return
        if not pid:
            try:
                alone(theirs, parent, child.NAME)
                child.run(theirs, parent, self._locators, self._interval_s)
            finally:
                os._exit(0)
        os.close(theirs)
        os.set_blocking(ours, False)
        self.pid, self._pipe, self._buffer = pid, ours, b""
        self._began = self._answered = now
        self._first_start = self._first_start or now
        self._host.board.own_pids.add(pid)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._let_go()

    def _let_go(self) -> None:
        """Hear no more of the child, and keep it in mind until it is dead."""
        os.close(self._pipe)
        self.dying, self.pid, self._pipe = self.pid, 0, -1

    def _wait_longer(self, now: float) -> None:
        """Set the time of the next start, later after each failure."""
        self._next_start = now + self._delay_s
        self._delay_s = min(self._delay_s * 2, BACK_OFF_S[1])

    def _bury(self) -> None:
        """Take leave of a child that is dead by now, and say what it died of."""
        status = status_of(self.dying)
        if status is None:
            return
        self._host.board.own_pids.discard(self.dying)
        self.dying = 0
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
            self._reason = "the NVIDIA library crashed (signal %d)" % os.WTERMSIG(status)


def step(seconds: float) -> int:
    """Return a time as it is told: rounded down to a step."""
    return max(each for each in STEPS_S if each <= max(0.0, seconds))
