"""Recordings: written by a `Recorder`, read as a `Recording`.

    recorder = create(directory, Session(...), state=judge.state)   # a sink of the engine
    recording = open(directory)
    for event in recording.events(): ...
    recording.table("nic")                                          # a polars LazyFrame

A recording is a directory: `session.json` (what it is of), `wal/` (logs, appended as events
come), `seg/` (sealed logs as Parquet, one directory a segment, one file a table) and
`manifest.jsonl` (which segments count, with checksums).
"""

from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.recording.limits import Limits
from gpuwatch.recording.manifest import Gap
from gpuwatch.recording.record import JudgeState, Shown
from gpuwatch.recording.recorder import Recorder, Status, create
from gpuwatch.recording.session import Session

if TYPE_CHECKING:
    from gpuwatch.recording.reader import Recording

__all__ = [
    "Gap",
    "JudgeState",
    "Limits",
    "Recorder",
    "Session",
    "Shown",
    "Status",
    "create",
    "open",
]


def open(place: str | Path) -> "Recording":  # noqa: A001 - called with its module alone, as recording.open
    """Open a recording for reading: a folder, or a packed one (.gwz).

    Raises:
        RecordingError: when it is not one, is of a newer format, or holds nothing yet.
    """
    # polars takes 0.3 s to load, which a live screen's first paint need not wait for.
    from gpuwatch.recording.reader import open_recording

    return open_recording(Path(place))
