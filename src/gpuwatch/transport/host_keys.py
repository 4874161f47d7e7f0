"""Which host keys are trusted, and why one is not: never seen, changed, or revoked.

asyncssh tells these apart no more than "not trusted"; a person must be told which it is.
"""

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import asyncssh
import platformdirs
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from gpuwatch.transport.known_hosts import Entry, KnownHosts, name_of
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.settings import DEFAULT_PORT, Settings

__all__ = ["HostKey", "Trust", "own_file"]

Why = Literal["unknown", "changed", "revoked", "unwritable", "authority"]


def own_file() -> Path:
    """Return gpuwatch's own file of known hosts: of those that it trusted on first use."""
    return platformdirs.user_state_path("gpuwatch") / "known_hosts"


class Trust:
    """Known hosts by their files, read again only when one of them has changed."""

    def __init__(self) -> None:
        self._read: dict[tuple[Path, ...], tuple[tuple[tuple[int, int], ...], KnownHosts]] = {}

    def known(self, settings: Settings) -> KnownHosts:
        """Return what the user's files, the system's and our own hold now."""
        files = (*settings.known_hosts, own_file())
        state = tuple(_state(file) for file in files)
        found = self._read.get(files)
        if found is None or found[0] != state:
            found = self._read[files] = state, KnownHosts(files)
        return found[1]

    @property
    def strange(self) -> list[str]:
        """Places of lines that are not understood, in all files that were read."""
        places = [place for _, known in self._read.values() for place in known.strange]
        return list(dict.fromkeys(places))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a host key was not trusted, and the lines that speak of its host."""

    why: Why
    fingerprint: str
    entries: tuple[Entry, ...]


class HostKey:
    """The key of one host: what is trusted for it, and what it showed.

    A key that is known for the host without its port is trusted where none is known with it, but
    does not make another key a changed one: as ssh has it (sshconnect.c, check_host_key).

    Attributes:
        refusal: set once the host has shown a key that is not trusted.
    """

    def __init__(self, known: KnownHosts, settings: Settings) -> None:
        self._known = known
        self._settings = settings
        self._name = name_of(settings.host, settings.port, settings.key_alias)
        self._entries = known.find(self._name)
        if all(entry.marker == "@revoked" for entry in self._entries):
            self._portless = known.find(name_of(settings.host, DEFAULT_PORT, settings.key_alias))
        else:
            self._portless = []
        self.refusal: Refusal | None = None

    def trusted(self) -> tuple[list[asyncssh.SSHKey], list[asyncssh.SSHKey], list[asyncssh.SSHKey]]:
        """Return host keys, authorities and revoked keys, as asyncssh takes them."""
        revoked = self._keys("@revoked")
        return (
            [key for key in self._keys("") if key not in revoked],
            [key for key in self._keys("@cert-authority") if key not in revoked],
            revoked,
        )

    def kinds(self) -> list[str]:
        """Return the kinds of key to ask for: those that are known first.

        Others come after, so that a host whose kind of key has changed can show it.
        """
        keys, authorities, _ = self.trusted()
        known = [kind for key in keys for kind in key.sig_algorithms]
        certified = get_default_certificate_algs() if authorities else []
        wanted = [*certified, *known, *get_default_public_key_algs()]
        return [kind.decode("ascii") for kind in dict.fromkeys(wanted)]

    def judge(self, key: asyncssh.SSHKey) -> bool:
        """Say whether a key that is not among the trusted ones is trusted from now on."""
        why: Why | None = "unknown"
        if key in self._keys("@revoked"):
            why = "revoked"
        elif any(entry.marker == "" and entry.key for entry in self._entries):
            why = "changed"
        elif self._settings.accept_new:
            why = None if self._remember(key) else "unwritable"
        if why:
            self._refuse(why, key)
        return why is None

    def judge_authority(self, key: asyncssh.SSHKey) -> bool:
        """Take note of who signed a host's certificate and is not trusted to."""
        self._refuse("authority", key)
        return False

    def error(self, login: str) -> LinkError:
        """Put the refusal in words, with the one thing to do.

        Args:
            login: command line that logs in to this host with ssh.
        """
        # Only a key that is revoked is refused without being shown to `judge`.
        refusal = self.refusal or Refusal("revoked", "", (*self._entries, *self._portless))
        return LinkError(*_words(refusal, self._name, self._settings, self._known, login))

    def _refuse(self, why: Why, key: asyncssh.SSHKey) -> None:
        entries = (*self._entries, *self._portless)
        self.refusal = Refusal(why, key.get_fingerprint(), entries)

    def _keys(self, marker: str) -> list[asyncssh.SSHKey]:
        entries = [*self._entries, *self._portless]
        return [key for entry in entries if entry.marker == marker and (key := entry.key)]

    def _remember(self, key: asyncssh.SSHKey) -> bool:
        try:
            self._known.append(own_file(), self._name, key)
        except OSError:
            return False
        return True


def _words(
    refusal: Refusal, name: str, settings: Settings, known: KnownHosts, login: str
) -> tuple[str, Literal["connect"], str]:
    shown = f"{name} shows {refusal.fingerprint}" if refusal.fingerprint else name
    if refusal.why == "changed":
        known_keys = [entry for entry in refusal.entries if not entry.marker]
        fingerprint = known_keys[0].key
        had = f" ({fingerprint.get_fingerprint()})" if fingerprint else ""
        what = f"the host key CHANGED: {shown}, but {_places(known_keys)} has another{had}"
        return what, "connect", _removal(known_keys, name)
    if refusal.why == "revoked":
        places = _places(entry for entry in refusal.entries if entry.marker == "@revoked")
        what = f"the host key is REVOKED by {places}: {shown}"
        return what, "connect", "do not log in; ask whoever runs this host"
    if refusal.why == "authority":
        places = _places(entry for entry in refusal.entries if entry.marker == "@cert-authority")
        what = f"the certificate of {name} is signed by {refusal.fingerprint}, not as {places} says"
        return what, "connect", "ask whoever runs this host for the new @cert-authority line"
    if refusal.why == "unwritable":
        what = f"the new host key of {name} cannot be written to {own_file()}"
        return what, "connect", "make that folder writable, or accept the key with ssh"
    files = " and ".join(str(file) for file in settings.known_hosts if file.is_file())
    strange = f" (not understood: {', '.join(known.strange[:3])})" if known.strange else ""
    what = f"unknown host key: {shown}; not in {files or 'any file of known hosts'}{strange}"
    return what, "connect", f"compare the fingerprint and accept it once with: {login}"


def _removal(entries: list[Entry], name: str) -> str:
    """Return what takes a key that is no more out of its file."""
    first = entries[0]
    if first.is_pattern or not os.access(first.file, os.W_OK):
        return f"if the node was reinstalled: have {first.place} corrected"
    words = shlex.join(["ssh-keygen", "-R", name, "-f", str(first.file)])
    return f"if the node was reinstalled: {words}"


def _places(entries: Iterable[Entry]) -> str:
    return ", ".join([entry.place for entry in entries][:3])


def _state(file: Path) -> tuple[int, int]:
    """Return what changes whenever a file is written; of none, what no file has."""
    try:
        found = file.stat()
    except OSError:
        return -1, -1
    return found.st_mtime_ns, found.st_size
