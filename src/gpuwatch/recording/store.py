"""Where a recording lies: a folder, or a .gwz, a zip of the same files, which is read without unpacking.

Both are hostile until they are read: only plain files of a recording's own names are opened, of no
more than so many bytes; nothing is written.
"""

import fcntl
import hashlib
import io
import os
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gpuwatch.errors import RecordingError

__all__ = ["LOCK", "Archive", "Folder", "Source", "Store", "opened"]

LOCK = ".lock"
MEMBER = re.compile(
    r"session\.json|manifest\.jsonl|wal/\d{8}\.wal|seg/\d{8}(-\d{8})?/[a-z_]{1,40}\.parquet"
)
"""What a recording's files are called; a packed one has no other members."""
MAX_MEMBERS = 200_000
"""Three weeks are 5,000 files."""
Source = Path | io.BytesIO
"""What polars reads a table from."""


class Store(Protocol):
    """Reads a recording's files by their names, with `/` between the parts."""

    @property
    def place(self) -> Path:
        """As it was given."""

    @property
    def live(self) -> bool:
        """Whether it is still being written."""

    def names(self, folder: str) -> list[str]:
        """Return what lies in a folder; nothing where there is none.

        Raises:
            OSError: when it cannot be read.
        """

    def read(self, name: str, most: int) -> bytes:
        """Return a file's bytes, no more than so many.

        Raises:
            OSError: when it is not there, or cannot be read.
            ValueError: when it is no plain file.
        """

    def source(self, name: str, size: int, sha256: str) -> Source:
        """Return a file for polars to read, checked.

        Raises:
            OSError: when it is not there, or cannot be read.
            ValueError: when it is no plain file, or not what was sealed.
        """


def opened(place: Path) -> Store:
    """Return the store at a place.

    Raises:
        RecordingError: a file that is no packed recording.
    """
    return Archive(place) if place.is_file() else Folder(place)


class Folder:
    """A recording's folder.

    Args:
        place: where it is.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self._checked: dict[str, tuple[int, int, int, str]] = {}

    @property
    def live(self) -> bool:
        """Whether a recorder holds its lock."""
        try:
            descriptor = os.open(self.place / LOCK, _FLAGS)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        else:
            return False
        finally:
            os.close(descriptor)

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        try:
            return [path.name for path in (self.place / folder).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str, most: int) -> bytes:
        """See `Store`."""
        with self._open(name) as file:
            return file.read(most)

    def source(self, name: str, size: int, sha256: str) -> Source:
        """See `Store`; what was checked once is not again as long as it is the same file."""
        with self._open(name) as file:
            told = os.fstat(file.fileno())
            identity = told.st_ino, told.st_size, told.st_mtime_ns, sha256
            if self._checked.get(name) != identity:
                _check(file, told.st_size, size, sha256)
                self._checked[name] = identity
        return self.place / name

    def _open(self, name: str) -> io.BufferedReader:
        # A pipe in a file's place would be waited for.
        descriptor = os.open(self.place / name, _FLAGS)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ValueError("no plain file")
        return io.BufferedReader(io.FileIO(descriptor))


_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


class Archive:
    """A packed recording: a zip whose members are stored as they are, so that any is read alone.

    Args:
        place: of the file.

    Raises:
        RecordingError: it is none; the first member that does not belong there is named.
    """

    live = False

    def __init__(self, place: Path) -> None:
        self.place = place
        try:
            self._zip = zipfile.ZipFile(place)
        except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
            raise RecordingError(f"{place}: not a recording: {_words(error)}") from None
        self._members = _members(self._zip, place)
        self._checked: set[tuple[str, str]] = set()

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        start = folder + "/"
        below = [name[len(start) :] for name in self._members if name.startswith(start)]
        return list(dict.fromkeys(name.split("/", 1)[0] for name in below))

    def read(self, name: str, most: int) -> bytes:
        """See `Store`."""
        member = self._members.get(name)
        if member is None:
            raise FileNotFoundError(2, "No such file or directory", name)
        try:
            with self._zip.open(member) as file:
                return file.read(most)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
            raise ValueError(_words(error)) from None

    def source(self, name: str, size: int, sha256: str) -> Source:
        """See `Store`."""
        content = io.BytesIO(self.read(name, size + 1))
        if (name, sha256) not in self._checked:
            _check(content, len(content.getvalue()), size, sha256)
            self._checked.add((name, sha256))
        return content


def _members(archive: zipfile.ZipFile, place: Path) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name.

    Raises:
        RecordingError: one is not a recording's, is packed, or is there twice.
    """
    found: dict[str, zipfile.ZipInfo] = {}
    wrong: tuple[tuple[str, Callable[[zipfile.ZipInfo], object]], ...] = (
        ("is no file of a recording", lambda m: not MEMBER.fullmatch(m.filename)),
        ("is there twice", lambda m: m.filename in found),
        ("is not stored as it is", lambda m: m.compress_type != zipfile.ZIP_STORED),
        ("is not stored as it is", lambda m: m.compress_size != m.file_size),
        ("is encrypted", lambda m: m.flag_bits & 1),
        ("is one member too many", lambda _: len(found) >= MAX_MEMBERS),
    )
    for member in archive.infolist():
        for why, is_wrong in wrong:
            if is_wrong(member):
                name = member.filename[:100]
                raise RecordingError(f"{place}: not a packed recording: {name!r} {why}")
        found[member.filename] = member
    return found


def _check(file: io.BufferedReader | io.BytesIO, found: int, size: int, sha256: str) -> None:
    if found != size or hashlib.file_digest(file, "sha256").hexdigest() != sha256:
        raise ValueError("its checksum differs")
    file.seek(0)


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "damaged"
