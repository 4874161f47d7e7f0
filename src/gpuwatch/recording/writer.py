"""The thread that appends records to the log and makes them durable each second."""

import contextlib
import logging
import threading
import time
from collections import deque
from pathlib import Path

from gpuwatch.model.event import AnyEvent, Fault, Tick
from gpuwatch.recording import wal
from gpuwatch.recording.record import JudgeState, Record, Shown, encode
from gpuwatch.recording.sealer import Sealer

__all__ = ["Writer"]

SYNC_S = 1.0
"""Seconds after which what was written is made durable."""
RETRY_S = 1.0
"""Seconds until a disk that refused is tried again."""
SLOW_S = 3.0
"""Seconds in one call of the system after which the disk counts as not answering."""
CLOSE_S = 30.0
"""Seconds that closing waits for a disk that does not answer."""
BATCH = 1 << 20
"""Bytes that are appended at once, or a little more."""
_log = logging.getLogger(__name__)


class Writer:
    """Owns the open log. What is put waits in a queue; its bound is the caller's to keep.

    Nothing that was put is dropped here: after an error the log is cut back to what is durable,
    and all that came since is written again when the disk allows.

    Attributes:
        acknowledged_event_no: up to here all is durable; -1 before the first.
        sealer: of the logs that have ended.
    """

    def __init__(self, directory: Path, log: wal.Log, sealer: Sealer, most_bytes: int) -> None:
        self.acknowledged_event_no = -1
        self._directory = directory
        self._log = log
        self._number = 1
        self._most_bytes = most_bytes
        self.sealer = sealer
        self._queue: deque[Record] = deque()
        self._unsynced = bytearray()
        self._last_event_no = -1
        self._refusal: str | None = None
        self._calling_since: float | None = None
        self._work = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Records in the queue."""
        return len(self._queue)

    @property
    def log_bytes(self) -> int:
        """Bytes of the open log."""
        return self._log.size

    @property
    def reason(self) -> str | None:
        """Why nothing is written now, in words; None while all is well."""
        since = self._calling_since
        if since is not None and time.monotonic() - since > SLOW_S:
            return "the disk does not answer"
        return self._refusal

    def put(self, record: Record) -> None:
        """Take a record; returns at once."""
        self._queue.append(record)
        self._work.set()

    def close(self) -> None:
        """Write what waits, seal it, and end. A disk that refuses is tried once more."""
        self._ending.set()
        self._work.set()
        self._thread.join(CLOSE_S)
        self.sealer.close(CLOSE_S)

    def _run(self) -> None:
        due = time.monotonic() + SYNC_S
        while True:
            self._work.wait(SYNC_S / 4 if self._unsynced else None)
            self._work.clear()
            ending = self._ending.is_set()
            try:
                self._append_all()
                if ending or time.monotonic() >= due:
                    self._settle()
                    due = time.monotonic() + SYNC_S
            except OSError as error:
                self._refusal = error.strerror or str(error)
                self._calling_since = None
                self._ending.wait(RETRY_S)
                self._work.set()
            if ending:
                break
        self._end()

    def _append_all(self) -> None:
        if self._refusal is not None:
            self._log.rewind()
            self._append(bytes(self._unsynced))
            self._settle()
            self._refusal = None
        while self._queue:
            frames, last = self._take()
            self._unsynced += frames
            self._append(frames)
            # A tick and its verdict stay in one log.
            too_large = self._log.size >= self._most_bytes and not isinstance(last, Tick)
            if isinstance(last, JudgeState) or too_large:
                self._rotate()

    def _take(self) -> tuple[bytes, Record]:
        """Take records off the queue: a batch, or as far as a judge state, which ends a log."""
        frames = bytearray()
        while True:
            record = self._queue.popleft()
            frames += _framed(record)
            if not isinstance(record, Shown | JudgeState):
                self._last_event_no = record.event_no
            if isinstance(record, JudgeState) or len(frames) >= BATCH or not self._queue:
                return bytes(frames), record

    def _append(self, frames: bytes) -> None:
        self._calling_since = time.monotonic()
        self._log.append(frames)
        self._calling_since = None

    def _settle(self) -> None:
        """Make durable, and acknowledge."""
        if self._unsynced:
            self._calling_since = time.monotonic()
            self._log.sync()
            self._calling_since = None
            self._unsynced.clear()
        self.acknowledged_event_no = self._last_event_no

    def _rotate(self) -> None:
        """End the log, begin the next, and have the old one sealed."""
        self._settle()
        following = wal.Log(wal.path(self._directory, self._number + 1))
        ended, self._log = self._log, following
        self.sealer.seal(self._number, ended.size)
        ended.close()
        self._number += 1

    def _end(self) -> None:
        if self._log.size:
            self.sealer.seal(self._number, self._log.size)
            self._log.close()
        else:
            self._log.close()
            with contextlib.suppress(OSError):
                wal.path(self._directory, self._number).unlink()


def _framed(record: Record) -> bytes:
    """Encode a record; an event that cannot be is replaced by a fault that says so."""
    try:
        return wal.frame(encode(record))
    except (ValueError, OverflowError, TypeError) as error:
        _log.warning("%s %d not recorded: %s", type(record).__name__, record.event_no, error)
        if isinstance(record, Shown | JudgeState):
            return b""
        return wal.frame(encode(_unrecorded(record, error)))


def _unrecorded(event: AnyEvent, error: Exception) -> Fault:
    node = getattr(event, "node", None)
    return Fault(
        event_no=event.event_no,
        arrived_us=event.arrived_us,
        wall_us=event.wall_us,
        node=None if node is None else node.encode("utf-8", "replace").decode(),
        source="recording",
        text=f"a {type(event).__name__.lower()} could not be recorded: {type(error).__name__}",
    )
