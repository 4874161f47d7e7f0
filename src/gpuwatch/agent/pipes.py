"""Both ends of the line to the viewer: heartbeats come in, frames go out; neither ever waits."""

import os
import re
from collections import deque
from typing import Deque, Tuple

DATA_QUEUE = 8
"""Data frames that wait for a slow link; the oldest goes first, as the newest is worth most."""
WINDOW = 4
"""Data frames that may be under way: all that a slow link holds back is old when it comes."""
BEAT = re.compile(rb"beat ([0-9]{1,18})(?: ([0-9]{1,18}))?\r?\Z")
MAX_LINE = 64
CHUNK = 4096

HELLO, NAMES, DATA, BYE = "hello", "names", "data", "bye"


class Inbox(object):
    """What the viewer says: lines `beat N` or `beat N FRAME`; all else only shows that it is there.

    Attributes:
        beat: N of the last heartbeat, -1 before the first.
        frame: number of the newest data frame that the viewer has, -1 before it says so.
        beat_us: when it was heard, on the agent's monotonic clock; -1 before the first.
        heard_us: when the last byte came.
        ended: whether the viewer has closed its end.
    """

    def __init__(self, descriptor: int, now_us: int) -> None:
        self.descriptor = descriptor
        self.beat = -1
        self.beat_us = -1
        self.frame = -1
        self.heard_us = now_us
        self.ended = False
        self._line = b""
        os.set_blocking(descriptor, False)

    def hear(self, now_us: int) -> None:
        """Take what has come, at most one chunk."""
        try:
            data = os.read(self.descriptor, CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.ended = True
            return
        self.heard_us = now_us
        *lines, rest = data.split(b"\n")
        for line in lines:
            found = BEAT.match((self._line + line)[: MAX_LINE + 1])
            self._line = b""
            if found:
                self.beat = int(found.group(1))
                self.beat_us = now_us
                self.frame = int(found.group(2) or -1)
        self._line = (self._line + rest)[: MAX_LINE + 1]


class Outbox(object):
    """A short queue in front of a descriptor that must not block.

    A viewer that says which frames it has is sent only a few beyond them. Else sockets on the way
    would fill, with megabytes over SSH, and after a halt the link would carry what is long past.

    Attributes:
        dropped: data frames that were given up for newer ones.
        broken: whether nobody reads any more.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.dropped = 0
        self.broken = False
        self._queue: Deque[Tuple[str, bytes, int]] = deque()
        self._under_way: Deque[int] = deque(maxlen=WINDOW)
        self._is_told = False
        self._begun = b""
        os.set_blocking(descriptor, False)

    @property
    def waiting(self) -> bool:
        """Whether there is something that may be sent now."""
        return bool(self._begun or (self._queue and not self._held())) and not self.broken

    def put(self, kind: str, message: bytes, number: int = -1) -> None:
        """Queue a message; a full queue drops its oldest data frame, never the greeting.

        Args:
            kind: of the message; a farewell lets all go that waits for the viewer.
            message: whole.
            number: of a data frame, rising.
        """
        self._queue.append((kind, message, number))
        self._is_told = self._is_told and kind != BYE
        frames = [place for place, (queued, _, _) in enumerate(self._queue) if queued == DATA]
        if len(frames) > DATA_QUEUE:
            del self._queue[frames[0]]
            self.dropped += 1
        self._forget_uncited()
        self.send()

    def acknowledge(self, number: int) -> None:
        """Take note that the viewer has this data frame, and thus all that were sent before it."""
        self._is_told = self._is_told or number >= 0
        while self._under_way and self._under_way[0] <= number:
            self._under_way.popleft()

    def _held(self) -> bool:
        """Tell whether what comes next has to wait for the viewer."""
        return self._is_told and self._queue[0][0] == DATA and len(self._under_way) >= WINDOW

    def _forget_uncited(self) -> None:
        """Drop names that are followed by newer ones: no frame that is left cites them."""
        for place in range(len(self._queue) - 1, 0, -1):
            if self._queue[place][0] == self._queue[place - 1][0] == NAMES:
                del self._queue[place - 1]

    def send(self) -> None:
        """Write as much as the descriptor takes now."""
        while self.waiting:
            if not self._begun:
                kind, self._begun, number = self._queue.popleft()
                if kind == DATA:
                    self._under_way.append(number)
            try:
                self._begun = self._begun[os.write(self.descriptor, self._begun) :]
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.broken = True
