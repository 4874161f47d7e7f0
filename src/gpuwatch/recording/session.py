"""session.json: what a recording is of, and the catalogue that it was written with."""

import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Metric
from gpuwatch.errors import RecordingError
from gpuwatch.recording.store import Store

__all__ = [
    "FORMAT",
    "Column",
    "Session",
    "columns_of_today",
    "encoded",
    "load",
    "store",
    "write_durably",
]

FORMAT = 2
"""Of the recordings that this version writes; it reads all up to this one."""
MAX_BYTES = 16 << 20
"""A session.json that is larger is not one of ours."""
MAX_WALL_US = 4_102_444_800_000_000
"""The year 2100."""
FILE = "session.json"


class Column(msgspec.Struct, frozen=True):
    """A row of the catalogue, as far as reading old recordings needs it."""

    name: str
    scope: str
    kind: str
    type: str
    unit: str


def columns_of_today() -> tuple[Column, ...]:
    """Return the catalogue that this version writes with."""
    return tuple(Column(r.name, r.scope, r.kind, r.type, r.unit) for r in catalogue.ROWS)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """What a recording is of.

    Attributes:
        job: its name.
        nodes: as the job file names them.
        interval_s: between ticks.
        started_wall_us: viewer's wall clock at the start.
        started_mono_us: viewer's monotonic clock then, as in `Event.arrived_us`.
        version: of gpuwatch that wrote it.
        thresholds: by name, as the judge had them.
        baseline: watts of full work in a good run by GPU model, as the judge had them.
        job_file: the job file, normalised; secrets are the caller's to leave out.
        catalogue: the rows that it was written with.
        format: of the recording.
    """

    job: str
    nodes: tuple[str, ...]
    interval_s: Annotated[float, msgspec.Meta(gt=0, le=3600)]
    started_wall_us: Annotated[int, msgspec.Meta(ge=0, le=MAX_WALL_US)]
    started_mono_us: int
    version: str
    thresholds: dict[str, float | int | str | bool | None] = {}
    baseline: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = {}
    job_file: dict[str, Any] = {}
    catalogue: tuple[Column, ...] = msgspec.field(default_factory=columns_of_today)
    format: int = FORMAT

    def rows(self) -> tuple[Metric, ...]:
        """Return the catalogue that it was written with, as rows."""
        return tuple(
            Metric(c.name, c.scope, c.kind, c.type, c.unit, "", "") for c in self.catalogue
        )


class _Origin(msgspec.Struct, frozen=True):
    """What every format has had, and will have, in session.json."""

    format: int
    version: str


def write_durably(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, mode 0600, and make its name durable."""
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def store(directory: Path, session: Session) -> None:
    """Write session.json: from here on the directory is a recording."""
    write_durably(directory / FILE, encoded(session))


def encoded(session: Session) -> bytes:
    """Return what session.json holds."""
    return msgspec.json.format(msgspec.json.encode(session), indent=1)


def load(held: Store) -> Session:
    """Read session.json.

    Raises:
        RecordingError: when this is no recording, or one of a newer format.
    """
    content = _content(held)
    with contextlib.suppress(msgspec.DecodeError):
        origin = msgspec.json.decode(content, type=_Origin)
        if origin.format > FORMAT:
            raise RecordingError(
                f"{held.place}: written by gpuwatch {origin.version[:40]!r} in format"
                f" {origin.format}; this gpuwatch reads formats up to {FORMAT}",
                "use that version or a later one",
            )
    try:
        return msgspec.json.decode(content, type=Session)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecordingError(f"{held.place / FILE}: damaged: {error}") from None


def _content(held: Store) -> bytes:
    try:
        content = held.read(FILE, MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        there = held.place.exists()
        what = f"not a recording: it has no {FILE}" if there else "no such file"
        raise RecordingError(f"{held.place}: {what}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecordingError(f"{held.place / FILE}: {reason}") from None
    if len(content) > MAX_BYTES:
        raise RecordingError(
            f"{held.place / FILE}: larger than {MAX_BYTES >> 20} MiB: not a recording's"
        )
    return content
