"""Packing: one file of a recording, to be sent and kept; it plays as it is, without unpacking.

A .gwz is a zip whose members are stored, not compressed: tables are compressed already, and any of
them can be read alone. The open log's records are packed as far as they are whole.
"""

import contextlib
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpuwatch.errors import InputError, RecordingError
from gpuwatch.recording import manifest, segment, session, wal
from gpuwatch.recording.reader import Recording
from gpuwatch.recording.record import encode

__all__ = ["pack"]

NEVER = (1980, 1, 1, 0, 0, 0)
"""The time of each member: the least that zip knows, so that a pack depends on nothing but what it holds."""


def pack(recording: Recording, file: Path) -> int:
    """Write a recording as one file; return its bytes.

    What is damaged stays out, and is a gap in the packed recording as it was before.

    Args:
        recording: to pack.
        file: that is not there yet; it appears whole or not at all.

    Raises:
        InputError: there is such a file.
        RecordingError: it cannot be written.
    """
    aside = file.with_name(f".{file.name}.tmp")
    try:
        if file.exists():
            raise InputError(f"{file}: there is such a file", "name another")
        descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with io.FileIO(descriptor, "w+") as target:
            with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as packed:
                for name, content in _members(recording):
                    packed.writestr(_member(name), content)
            os.fsync(target.fileno())
        os.link(aside, file)  # unlike a rename it never replaces what came there meanwhile
    except OSError as error:
        raise RecordingError(f"{file}: cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()
    return file.stat().st_size


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, NEVER)
    member.external_attr = 0o600 << 16
    return member


def _members(recording: Recording) -> Iterator[tuple[str, bytes]]:
    # The log's records were read into today's catalogue, and are written by it.
    facts = msgspec.structs.replace(recording.session, catalogue=session.columns_of_today())
    yield session.FILE, session.encoded(facts)
    for entry in recording.entries:
        for table, expected in entry.tables.items():
            with contextlib.suppress(*segment.READ_ERRORS):
                segment.check(recording.held, entry, table, expected)
                name = segment.name(entry, table)
                yield name, recording.held.read(name, expected.bytes)
    lines = [msgspec.json.encode(entry) + b"\n" for entry in recording.entries]
    yield manifest.FILE, b"".join(lines)
    for number, records in recording.unsealed():
        yield wal.name(number), b"".join(wal.frame(encode(record)) for record in records)
