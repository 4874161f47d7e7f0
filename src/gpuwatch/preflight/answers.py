"""What a node answers, by operation: whatever else it says is no answer."""

from typing import Annotated

import msgspec

from gpuwatch.agent.metric import INT64_MAX
from gpuwatch.model.text import sanitize

__all__ = [
    "Connected", "Done", "Folder", "Listens", "Moved", "Ran", "Texts", "Visited", "Which",
]  # fmt: skip

_Amount = Annotated[float, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
_Name = Annotated[str, msgspec.Meta(max_length=4096)]
MAX_COMPLAINT = 200


class Done(msgspec.Struct, frozen=True):
    """It was done, and there is no more to say."""


class Which(msgspec.Struct, frozen=True):
    """Where programs lie; None where there is none."""

    found: dict[_Name, _Name | None]


class Texts(msgspec.Struct, frozen=True):
    """Files by path."""

    texts: dict[_Name, str]


class Listens(msgspec.Struct, frozen=True):
    """Whether something listens."""

    listens: bool


class Connected(msgspec.Struct, frozen=True):
    """Milliseconds of each connection; None where no answer came."""

    ms: list[_Amount | None]


class Folder(msgspec.Struct, frozen=True):
    """A folder of the errand's own.

    Attributes:
        folder: its path.
        type: of the file system.
        source: what is mounted there.
        rotational: whether the disk turns; None: no disk is behind it.
    """

    folder: _Name
    type: _Name
    source: _Name
    rotational: bool | None


class Visited(msgspec.Struct, frozen=True):
    """Small files that were read, and milliseconds each took; None where none was."""

    files: _Count
    bytes: _Count
    took_s: _Amount
    p50_ms: _Amount | None
    p99_ms: _Amount | None

    @property
    def speed(self) -> float:
        """Files a second."""
        return self.files / self.took_s if self.took_s else 0.0


class Moved(msgspec.Struct, frozen=True):
    """Bytes that were written or read, and how long that took."""

    bytes: _Count
    took_s: _Amount

    @property
    def speed(self) -> float:
        """Bytes a second."""
        return self.bytes / self.took_s if self.took_s else 0.0


class Ran(msgspec.Struct, frozen=True):
    """What came of a program.

    Attributes:
        status: its exit status; None: it was killed as its time was up.
        out: the end of its stdout.
        err: the end of its stderr.
    """

    status: int | None
    out: str
    err: str

    @property
    def ended_well(self) -> bool:
        """Whether it came to its end without complaint."""
        return self.status == 0

    def why(self, name: str) -> str:
        """Say how it failed, with the last line of its stderr."""
        if self.status is None:
            return f"{name} did not end in time"
        lines = self.err.strip().splitlines()
        complaint = f": {sanitize(lines[-1], MAX_COMPLAINT)}" if lines else ""
        return f"{name} ended with status {self.status}{complaint}"
