"""The thread that turns closed logs into segments, and segments into longer ones."""

import logging
import queue
import threading
from pathlib import Path

from gpuwatch.agent import catalogue
from gpuwatch.recording.limits import Limits
from gpuwatch.recording.manifest import Manifest
from gpuwatch.recording.record import Layout
from gpuwatch.recording.retention import trimmed

__all__ = ["Sealer"]

RETRY_S = 5.0
"""Seconds until a disk that refused a segment is tried again."""
_log = logging.getLogger(__name__)


class Sealer:
    """Seals logs in the order in which they are given; merges what has become long enough.

    Attributes:
        bytes: of the logs that wait and of the segments.
        segments: sealed so far.
        reason: why the last attempt failed, in words; None while all is well.
    """

    def __init__(self, directory: Path, manifest: Manifest, limits: Limits) -> None:
        self.bytes = 0
        self.segments = 0
        self.reason: str | None = None
        self._directory = directory
        self._manifest = manifest
        self._limits = limits
        self._layout = Layout(catalogue.ROWS)
        self._mergeable_from = 0
        self._logs: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sealer", daemon=True)
        self._thread.start()

    def seal(self, log: int, size: int) -> None:
        """Take a closed log of so many bytes; returns at once."""
        self.bytes += size
        self._logs.put((log, size))

    def close(self, timeout_s: float) -> None:
        """Seal what waits, trying each once more, and end. Logs that stay are still readable."""
        self._ending.set()
        self._logs.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (item := self._logs.get()) is not None:
            log, size = item
            while not self._attempt(log, size) and not self._ending.wait(RETRY_S):
                pass
            self._tidy()
        self._manifest.close()

    def _attempt(self, log: int, size: int) -> bool:
        """Seal one log; False when another attempt may help."""
        # polars takes 0.3 s to load: here it holds up neither the first paint nor the engine.
        from gpuwatch.recording import segment

        try:
            entry = segment.seal(self._directory, log, self._layout, self._manifest)
        except OSError as error:
            self.reason = error.strerror or str(error)
            return False
        except BaseException as error:  # noqa: BLE001 - the border of this thread; a panic of polars is no Exception
            # The log stays, and reads as well as a segment does.
            self.reason = f"log {log} could not be sealed: {error}"
            _log.warning(self.reason)
            return True
        self.bytes += sum(table.bytes for table in entry.tables.values()) - size
        self.segments += 1
        self.reason = None
        return True

    def _tidy(self) -> None:
        """Merge what is long enough, unless someone waits for the end; keep within the limits."""
        if not self._ending.is_set():
            self._merge()
        try:
            self._trim()
        except OSError as error:
            _log.warning("nothing deleted, to be tried again: %s", error)

    def _trim(self) -> None:
        from gpuwatch.recording import segment

        entries = self._manifest.entries
        for entry in trimmed([entries[n] for n in sorted(entries)], self._limits):
            before = entries[entry.segment]
            self._manifest.commit(entry)
            for table in before.tables.keys() - entry.tables.keys():
                (self._directory / segment.name(before, table)).unlink(missing_ok=True)
            self.bytes -= before.bytes - entry.bytes

    def _merge(self) -> None:
        """Merge the last segments if they are long enough; whatever fails, they are there as before."""
        from gpuwatch.recording import merge

        entries = self._manifest.entries
        mergeable = [entries[n] for n in sorted(entries) if n >= self._mergeable_from]
        run = merge.due(mergeable, self._limits.merge_us)
        if not run:
            return
        try:
            merged = merge.merge(self._directory, run, self._manifest)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._mergeable_from = run[-1].segment + 1
            _log.warning("not merged: %s", error)
        except BaseException as error:  # noqa: BLE001 - as in _attempt: the thread that seals must live on
            # One of them is damaged: what comes later is merged without them.
            self._mergeable_from = run[-1].segment + 1
            _log.warning("segments %d to %d not merged: %s", run[0].begin, run[-1].segment, error)
        else:
            self.bytes += merged.bytes - sum(entry.bytes for entry in run)
