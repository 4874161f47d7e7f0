"""Files of known hosts, read as OpenSSH reads them (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).

Each line stands alone, so that one that is not understood spoils no other, and keeps its place,
so that a person is told where a key is.
"""

import base64
import binascii
import hmac
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import asyncssh

from gpuwatch.transport.settings import DEFAULT_PORT

__all__ = ["Entry", "KnownHosts", "name_of"]

MAX_BYTES = 64 << 20
Marker = Literal["", "@cert-authority", "@revoked"]
_MARKERS: tuple[Marker, ...] = ("@cert-authority", "@revoked")
_WILD = re.compile(r"[*?!]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a key, for which hosts, and where it stands; what was just added has no line."""

    file: Path
    line: int | None
    marker: Marker
    names: str
    kind: str
    blob: str

    @property
    def place(self) -> str:
        """File and line."""
        return str(self.file) if self.line is None else f"{self.file}:{self.line}"

    @property
    def key(self) -> asyncssh.SSHKey | None:
        """The key; None where it is of a kind that asyncssh does not know."""
        try:
            return asyncssh.import_public_key(f"{self.kind} {self.blob}")
        except asyncssh.KeyImportError:
            return None

    @property
    def is_pattern(self) -> bool:
        """Whether it may be for more hosts than one."""
        return bool(self.marker or _WILD.search(self.names))

    def matches(self, name: str) -> bool:
        """Say whether the line's patterns are for a host, called as in `name_of`."""
        found = False
        for pattern in self.names.lower().split(","):
            if fnmatchcase(name, _escaped(pattern.removeprefix("!"))):
                if pattern.startswith("!"):
                    return False
                found = True
        return found


class KnownHosts:
    """The lines of some files; those that do not exist count as empty.

    Attributes:
        strange: places of the lines that are not understood.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.strange: list[str] = []
        self._by_name: dict[str, list[Entry]] = {}
        self._patterns: list[Entry] = []
        self._hashed: list[tuple[bytes, bytes, Entry]] = []
        for file in files:
            for entry in self._read(file):
                self._add(entry)

    def find(self, name: str) -> list[Entry]:
        """Return the lines for a host, called as in `name_of`."""
        plain = name.encode()
        hashed = [
            entry for salt, digest, entry in self._hashed
            if hmac.digest(salt, plain, "sha1") == digest
        ]  # fmt: skip
        matched = [entry for entry in self._patterns if entry.matches(name)]
        return [*self._by_name.get(name, []), *hashed, *matched]

    def append(self, file: Path, name: str, key: asyncssh.SSHKey) -> None:
        """Write a key to a file, which is made if need be, and know it from now on.

        Raises:
            OSError: the file cannot be written.
        """
        kind, blob = key.export_public_key("openssh").decode("ascii").split()[:2]
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        with open(os.open(file, flags, 0o600), "r+b") as out:  # noqa: PTH123 - of a descriptor
            size = out.seek(0, os.SEEK_END)
            whole = not size or os.pread(out.fileno(), 1, size - 1) == b"\n"
            out.write((b"" if whole else b"\n") + f"{name} {kind} {blob}\n".encode())
        self._add(Entry(file, None, "", name, kind, blob))

    def _add(self, entry: Entry) -> None:
        if found := _hash_of(entry.names):
            self._hashed.append((*found, entry))
        elif _WILD.search(entry.names):
            self._patterns.append(entry)
        else:
            for name in dict.fromkeys(entry.names.lower().split(",")):
                self._by_name.setdefault(name, []).append(entry)

    def _read(self, file: Path) -> Iterator[Entry]:
        try:
            with file.open("rb") as opened:
                text = opened.read(MAX_BYTES).decode("utf-8", "replace")
        except OSError:
            return
        for number, line in enumerate(text.split("\n"), 1):
            stripped = line.strip()
            if not stripped or stripped.startswith("#"):
                continue
            if entry := _entry(file, number, stripped):
                yield entry
            else:
                self.strange.append(f"{file}:{number}")


def name_of(host: str, port: int, alias: str | None) -> str:
    """Return what a host is called in such files.

    Args:
        host: name or address that is connected to.
        port: on it.
        alias: name under which its key is known instead, on any port.
    """
    if alias:
        return alias.lower()
    host = host.lower()
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


def _entry(file: Path, number: int, text: str) -> Entry | None:
    words = text.split()
    marker: Marker = next((marker for marker in _MARKERS if words[0] == marker), "")
    if marker:
        del words[0]
    if len(words) < 3 or words[0].startswith("@") or not _is_key(words[1], words[2]):
        return None
    if words[0].startswith("|") and not _hash_of(words[0]):
        return None
    return Entry(file, number, marker, words[0], words[1], words[2])


def _is_key(kind: str, blob: str) -> bool:
    """Say whether a text is a key of the kind it says; whether that kind is known is not asked."""
    try:
        data = base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        return False
    size = int.from_bytes(data[:4], "big")
    return data[4 : 4 + size] == kind.encode("utf-8", "replace")


def _hash_of(names: str) -> tuple[bytes, bytes] | None:
    """Return salt and digest of `|1|SALT|DIGEST`; None: it is no such text."""
    try:
        _, version, salt, digest = names.split("|")
        found = base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if version == "1" else None


def _escaped(pattern: str) -> str:
    """Return a pattern for fnmatch in which brackets, as in `[host]:port`, are only brackets."""
    return pattern.replace("[", "[[]")
