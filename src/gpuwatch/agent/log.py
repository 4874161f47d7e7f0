"""A log that the job writes: followed where it grows, through rotation, a little at a time.

Runs in a child of its own, as a file system may hang in any of these calls.
"""

import os
import re
import stat
import time
from typing import Any, Callable, Dict, List, Tuple

NAME = b"gpuwatch-log"
BUDGET = 16384
"""Bytes that one look reads at most; what a job writes beyond is skipped and counted."""
RETRY_S = 5.0
"""Between two tries to open what cannot be opened."""
MAX_LINE = 200
"""Bytes of a line that are told; where its text is further on, they begin LEAD before it."""
LEAD = 64
ENDS = re.compile(rb"[\r\n]")
"""A progress bar (tqdm) begins its line anew by a carriage return."""
COLOURS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


def follow(
    path: str, texts: Tuple[Tuple[str, str], ...], interval_s: float, tell: Callable[[Any], None]
) -> None:
    """Look at a log each interval and tell what there is; never return."""
    log = Log(path, texts)
    due = time.monotonic()
    while True:
        log.look(time.monotonic())
        tell([log.reason, log.lines, log.bytes, log.skipped_bytes, log.held()])
        due = max(due + interval_s, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


class Log(object):
    """One log, by its path: what is found there after a rotation is followed from its beginning.

    A line is kept only if it holds one of the texts, and then only the newest for each: no other
    part of the log leaves the node.

    Args:
        path: absolute.
        texts: (name, text) of what is looked for.

    Attributes:
        reason: why it is not followed, empty when it is.
        lines: that were read.
        bytes: that were read.
        skipped_bytes: that were not, as the job wrote them faster than BUDGET a look.
    """

    def __init__(self, path: str, texts: Tuple[Tuple[str, str], ...]) -> None:
        self.reason = ""
        self.lines = self.bytes = self.skipped_bytes = 0
        self._path = path
        self._texts = [(name, text.encode("utf-8")) for name, text in texts]
        self._held: Dict[str, Tuple[int, str]] = {}
        self._descriptor = -1
        self._offset = 0
        self._rest = b""
        self._is_cut = False
        self._is_first = True
        self._try_at = 0.0

    def held(self) -> List[Tuple[str, int, str]]:
        """Return (name, count of lines so far, newest line) for each text that was found."""
        return [(name, count, line) for name, (count, line) in sorted(self._held.items())]

    def look(self, now: float) -> None:
        """Read what was appended since the last look.

        Args:
            now: seconds, monotonic.
        """
        try:
            if self._descriptor < 0:
                self._open(now)
            if self._descriptor >= 0:
                self._read(os.fstat(self._descriptor).st_size)
                self._turn()
        except OSError as error:
            self._close(os.strerror(error.errno or 0), now)

    def _open(self, now: float) -> None:
        """Open the log: at first near its end, later from its beginning."""
        if now < self._try_at:
            return
        if not stat.S_ISREG(os.stat(self._path).st_mode):
            self._close("is not a plain file", now)
            return
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags)
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode):
            self._close("is not a plain file", now)
            return
        self._forget()
        self.reason = ""
        if self._is_first and found.st_size > BUDGET:
            self._skip_to(found.st_size - BUDGET)
        self._is_first = False

    def _read(self, size: int) -> None:
        if size < self._offset:  # truncated: what is there now is new
            self._forget()
        if size - self._offset > BUDGET:
            self.skipped_bytes += size - BUDGET - self._offset
            self._skip_to(size - BUDGET)
        data = os.pread(self._descriptor, BUDGET, self._offset)
        self._offset += len(data)
        self.bytes += len(data)
        *lines, rest = ENDS.split(self._rest + data)
        self._rest = rest[-BUDGET:]
        if self._is_cut and lines:
            del lines[0]
            self._is_cut = False
        for line in lines:
            if line:
                self._take(line)

    def _take(self, line: bytes) -> None:
        self.lines += 1
        if b"\x1b" in line:
            line = COLOURS.sub(b"", line)
        for name, text in self._texts:
            at = line.find(text)
            if at >= 0:
                start = 0 if at + len(text) + LEAD <= MAX_LINE else max(0, at - LEAD)
                count = self._held.get(name, (0, ""))[0] + 1
                self._held[name] = count, plain(line[start : start + MAX_LINE])

    def _turn(self) -> None:
        """Let go of a log that was moved away, once it is read to its end and another is there."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return
        here = os.fstat(self._descriptor)
        if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            self._read(here.st_size)
            self._close("", 0.0)

    def _close(self, reason: str, now: float) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self.reason = reason
        self._try_at = now + RETRY_S if reason else now

    def _forget(self) -> None:
        """Begin a file anew."""
        self._offset = 0
        self._rest = b""
        self._is_cut = False

    def _skip_to(self, offset: int) -> None:
        """Go on further ahead, most likely in the middle of a line."""
        self._offset = offset
        self._rest = b""
        self._is_cut = True


def plain(line: bytes) -> str:
    """Return a line as text without control characters; what is no UTF-8 is replaced."""
    text = line.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
