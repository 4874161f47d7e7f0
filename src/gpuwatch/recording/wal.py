"""The write-ahead log: records, each with magic, length and CRC-32, appended as they come.

A record is there whole or not at all. The reader looks for the magic again after damage, so
that a bad byte costs the records that it hit and no other.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpuwatch.recording.record import Layout, Record, decode
from gpuwatch.recording.session import sync_directory

__all__ = ["MAX_RECORD", "Damage", "Log", "frame", "number", "path", "read"]

MAGIC = b"\xf5gwr"
HEADER = struct.Struct("<4sII")
MAX_RECORD = 64 << 20
"""Bytes of one record; a reader takes what claims more for damage."""


class Damage(msgspec.Struct, frozen=True):
    """A stretch of a log that cannot be read."""

    offset: int
    length: int
    torn: bool
    """The last record, cut short: what a killed writer leaves, never acknowledged."""

    @property
    def reason(self) -> str:
        """In words."""
        if self.torn:
            return f"the last {self.length} bytes are a record cut short"
        return f"{self.length} bytes at {self.offset} are damaged"


def name(log: int) -> str:
    """Return what a log is called."""
    return f"wal/{log:08d}.wal"


def path(directory: Path, log: int) -> Path:
    """Return where a log lies."""
    return directory / name(log)


def number(name: str) -> int | None:
    """Return the number that a log's or a segment's name tells; None for a foreign name."""
    stem = name.removesuffix(".wal")
    return int(stem) if len(stem) == 8 and stem.isascii() and stem.isdigit() else None


def frame(body: bytes) -> bytes:
    """Give a record its header.

    Raises:
        ValueError: for a record that no reader would take.
    """
    if len(body) > MAX_RECORD:
        raise ValueError(f"{len(body)} bytes are too many for one record")
    return HEADER.pack(MAGIC, len(body), zlib.crc32(body)) + body


class Log:
    """A log that is being written. Unbuffered: what was written outlives a killed writer."""

    def __init__(self, file: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(file, flags, 0o600)
        try:
            sync_directory(file.parent)  # fdatasync makes what it holds durable, not its name
        except OSError:
            os.close(self._descriptor)
            file.unlink()
            raise
        self._durable = 0
        self.size = 0

    def append(self, frames: bytes) -> None:
        """Write frames behind the last ones.

        Raises:
            OSError: when the disk does not take them all; then `rewind` before trying again.
        """
        rest = memoryview(frames)
        while rest:
            written = os.pwrite(self._descriptor, rest, self.size)
            rest = rest[written:]
            self.size += written

    def sync(self) -> None:
        """Make all that was written durable.

        Raises:
            OSError: when the disk refuses. Linux reports that once and then drops the pages, so
                what was written since the last sync has to be written again, after `rewind`.
        """
        _datasync(self._descriptor)
        self._durable = self.size

    def rewind(self) -> None:
        """Cut back to what is durable.

        Raises:
            OSError: when the disk refuses.
        """
        os.ftruncate(self._descriptor, self._durable)
        self.size = self._durable

    def close(self) -> None:
        """Close the file, which then counts no more."""
        os.close(self._descriptor)
        self.size = 0


_datasync = getattr(os, "fdatasync", os.fsync)
"""macOS has no fdatasync."""


def read(content: bytes, layout: Layout) -> Iterator[Record | Damage]:
    """Yield a log's records in order, with what is damaged between them.

    Args:
        content: of the file, or as much of it as there is yet.
        layout: of the catalogue that it was written with.
    """
    scan = _Scan(content)
    offset = 0
    while offset < len(content):
        body = scan.body(offset)
        record = None if body is None else _record(body, layout)
        if body is not None and record is not None:
            yield record
            offset += HEADER.size + len(body)
            continue
        resumed = scan.next(offset + 1)
        yield Damage(offset, resumed - offset, resumed == len(content) and scan.cut_short(offset))
        offset = resumed


def _record(body: bytes, layout: Layout) -> Record | None:
    try:
        return layout.today(decode(body))
    except (ValueError, RecursionError):
        return None


class _Scan:
    """Finds records in a log's content.

    A file made of headers only would have each of them checked against all that follows it, so
    the work after damage is bounded by a few passes over the content.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._budget = 4 * len(content) + MAX_RECORD

    def body(self, offset: int) -> bytes | None:
        """Return the body of the record that begins here; None when none does."""
        start = offset + HEADER.size
        if start > len(self._content):
            return None
        magic, length, checksum = HEADER.unpack_from(self._content, offset)
        if magic != MAGIC or length > MAX_RECORD or start + length > len(self._content):
            return None
        body = self._content[start : start + length]
        return body if zlib.crc32(body) == checksum else None

    def next(self, offset: int) -> int:
        """Return where the next record begins; the content's end when there is none."""
        while self._budget > 0 and (offset := self._content.find(MAGIC, offset)) >= 0:
            if self.body(offset) is not None:
                return offset
            self._budget -= self._claimed(offset)
            offset += 1
        return len(self._content)

    def cut_short(self, offset: int) -> bool:
        """Tell whether a record begins here that reaches past the content's end."""
        head = self._content[offset : offset + HEADER.size]
        if len(head) < HEADER.size:
            return head[:4] == MAGIC[: len(head)]
        fits = offset + HEADER.size + self._claimed(offset) <= len(self._content)
        return head.startswith(MAGIC) and not fits

    def _claimed(self, offset: int) -> int:
        if offset + HEADER.size > len(self._content):
            return 0
        return min(int(HEADER.unpack_from(self._content, offset)[1]), MAX_RECORD)
