"""Both ends of the line to the viewer: heartbeats come in, frames go out; neither ever waits."""

import os
import re
from collections import deque
from typing import Deque, Tuple

DATA_QUEUE = 8
"""Data frames that wait for a slow link; the oldest goes first, as the newest is worth most."""
BEAT = re.compile(rb"beat ([0-9]{1,18})\r?\Z")
MAX_LINE = 64
CHUNK = 4096

HELLO, NAMES, DATA, BYE = "hello", "names", "data", "bye"


class Inbox(object):
    """What the viewer says: lines `beat N`; anything else only shows that it is there.

    Attributes:
        beat: N of the last heartbeat, -1 before the first.
        beat_us: when it was heard, on the agent's monotonic clock; -1 before the first.
        heard_us: when the last byte came.
        ended: whether the viewer has closed its end.
    """

    def __init__(self, descriptor: int, now_us: int) -> None:
        self.descriptor = descriptor
        self.beat = -1
        self.beat_us = -1
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
        self._line = (self._line + rest)[: MAX_LINE + 1]


class Outbox(object):
    """A short queue in front of a descriptor that must not block.

    Attributes:
        dropped: data frames that were given up for newer ones.
        broken: whether nobody reads any more.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.dropped = 0
        self.broken = False
        self._queue: Deque[Tuple[str, bytes]] = deque()
        self._begun = b""
        os.set_blocking(descriptor, False)

    @property
    def waiting(self) -> bool:
        """Whether there is something left to send."""
        return bool(self._begun or self._queue) and not self.broken

    def put(self, kind: str, message: bytes) -> None:
        """Queue a message; a full queue drops its oldest data frame, never the greeting."""
        self._queue.append((kind, message))
        frames = [place for place, (queued, _) in enumerate(self._queue) if queued == DATA]
        if len(frames) > DATA_QUEUE:
            del self._queue[frames[0]]
            self.dropped += 1
        self._forget_uncited()
        self.send()

    def _forget_uncited(self) -> None:
        """Drop names that are followed by newer ones: no frame that is left cites them."""
        for place in range(len(self._queue) - 1, 0, -1):
            if self._queue[place][0] == self._queue[place - 1][0] == NAMES:
                del self._queue[place - 1]

    def send(self) -> None:
        """Write as much as the descriptor takes now."""
        while self.waiting:
            if not self._begun:
                self._begun = self._queue.popleft()[1]
            try:
                self._begun = self._begun[os.write(self.descriptor, self._begun) :]
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.broken = True
