"""Which host keys are trusted, and why one is not: never seen, changed, or revoked.

asyncssh tells these apart no more than "not trusted"; a person must be told which it is.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from gpuwatch.transport.link import LinkError
from gpuwatch.transport.settings import DEFAULT_PORT

__all__ = ["KnownHosts", "Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A host key that was not trusted: `unknown`, `changed` or `unwritable`."""

    why: str
    fingerprint: str


class KnownHosts:
    """The trusted keys of some files, read once, each line alone: one bad line spoils no other."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)
        self.keys = asyncssh.SSHKnownHosts()
        for file in self.files:
            self._load(file)

    def judge(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey, *, accept_new: bool
    ) -> Refusal | None:
        """Say why a key that is not among the trusted ones is refused; None: trusted from now on.

        Args:
            host: name that was connected to, or the alias of its key.
            addr: address of the peer; empty behind a bastion.
            port: on the host.
            key: that the host showed.
            accept_new: trust a host that was never seen, and remember its key.
        """
        fingerprint = key.get_fingerprint()
        place = None if port == DEFAULT_PORT else port
        keys, *_ = self.keys.match(host, addr, place)
        if keys:
            return Refusal("changed", fingerprint)
        if not accept_new:
            return Refusal("unknown", fingerprint)
        return None if self._remember(host, place, key) else Refusal("unwritable", fingerprint)

    def error(self, refusal: Refusal, host: str, port: int, login: str) -> LinkError:
        """Put a refusal in words, with the one command that mends it.

        Args:
            refusal: as `judge` said.
            host: as in `judge`.
            port: on the host.
            login: command line that logs in to this host with ssh.
        """
        file = self.files[0] if self.files else Path("~/.ssh/known_hosts")
        name = host if port == DEFAULT_PORT else f"[{host}]:{port}"
        if refusal.why == "changed":
            return LinkError(
                f"the host key CHANGED: {name} shows {refusal.fingerprint}, {file} has another",
                "connect",
                f"if the node was reinstalled: ssh-keygen -R '{name}' -f {file}",
            )
        if refusal.why == "unwritable":
            return LinkError(
                f"the new host key of {name} cannot be written to {file}",
                "connect",
                "set ssh.known_hosts to a file that can be written",
            )
        return LinkError(
            f"unknown host key: {name} shows {refusal.fingerprint}, {file} has none",
            "connect",
            f"compare the fingerprint and accept it once with: {login}",
        )

    def _load(self, file: Path) -> None:
        try:
            text = file.read_bytes().decode("utf-8", "replace")
        except OSError:
            return
        for line in text.splitlines():
            try:
                self.keys.load(line)
            except ValueError:
                continue

    def _remember(self, host: str, port: int | None, key: asyncssh.SSHKey) -> bool:
        name = host if port is None else f"[{host}]:{port}"
        line = f"{name} {key.export_public_key('openssh').decode('ascii').strip()}"
        words = " ".join(line.split()[:3])
        try:
            self.files[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
            with open(os.open(self.files[0], flags, 0o600), "r+b") as file:  # noqa: PTH123 - of a descriptor
                size = file.seek(0, os.SEEK_END)
                whole = not size or os.pread(file.fileno(), 1, size - 1) == b"\n"
                file.write((b"" if whole else b"\n") + words.encode("ascii") + b"\n")
        except (OSError, IndexError):
            return False
        self.keys.load(words)
        return True
