"""Real sshd instances on loopback: own keys, own users, each in a mount namespace of its own.

The namespace hides the machine's /etc/passwd behind one with the wanted login shell and home,
and gives the node an empty /tmp, so that nothing of the machine is changed and everything that
is written can be seen from outside. That takes root.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import asyncssh
import pytest

from debian import needs
from gpuwatch.transport.node import Node, Ssh

SSHD = "/usr/sbin/sshd"
DEADLINE_S = 20.0
STRANGER = 12345
"""User and group of those who are not root."""
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sshd with users of its own")
NEEDS_SSHD = (needs("sshd", "openssh-server"), ROOT)
"""The marks of a module that uses this one."""

# The first value of an option counts, but of MaxStartups the last.
CONFIG = """\
Port {port}
MaxStartups 100
{options}
ListenAddress 127.0.0.1
HostKey /mnt/host_key
AuthorizedKeysFile /mnt/authorized_keys
PidFile none
UsePAM {questions}
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication {passwords}
KbdInteractiveAuthentication {questions}
PrintMotd no
"""
SCRIPT = """\
mkdir -p /run/sshd
mount --bind {folder} /mnt
mount --bind /mnt/passwd /etc/passwd
if [ -e /mnt/shadow ]; then mount --bind /mnt/shadow /etc/shadow; fi
mount -t tmpfs node /tmp
mount -t tmpfs node /var/tmp
{hidden}
exec {sshd} -D -e -f /mnt/sshd_config
"""


class Sshd:
    """One node: an sshd, the user who logs in, and the files that a viewer needs.

    Args:
        folder: an empty folder of its own.
        user: who logs in; root, or somebody without rights.
        shell: login shell of the user.
        files: of the user's home, by name.
        options: lines of sshd_config that go before those of all instances.
        questions: whether it may ask a person, through PAM.
        password: that sshd itself asks for, where no key is good enough.
        hidden: programs that this node lacks.
    """

    def __init__(
        self,
        folder: Path,
        *,
        user: str = "root",
        shell: str = "/bin/bash",
        files: Mapping[str, bytes] | None = None,
        options: Sequence[str] = (),
        questions: bool = False,
        password: str | None = None,
        hidden: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.user = user
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.port = free_port()
        self.identity = folder / "identity"
        self.known_hosts = folder / "known_hosts"
        self.log = folder / "log"
        self._hidden = hidden
        self._process: subprocess.Popen[bytes] | None = None
        for name, content in (files or {}).items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_bytes(content)
        self._make_user(shell, password)
        config = CONFIG.format(
            options="\n".join(options),
            port=self.port,
            questions="yes" if questions else "no",
            passwords="yes" if password else "no",
        )
        (folder / "sshd_config").write_text(config)
        self._make_identity()
        self.new_host_key()
        self.trust()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the listening sshd."""
        assert self._process is not None
        return self._process.pid

    @property
    def root(self) -> Path:
        """The node's root folder, as it sees it."""
        return Path(f"/proc/{self.pid}/root")

    def node(self, name: str = "node", **changes: Any) -> Node:
        """Return how a viewer reaches this node, independent of the user's own configuration."""
        ssh = Ssh(self.identity, None, self.known_hosts, Path("/dev/null"))
        logins = {k: changes.pop(k) for k in list(changes) if hasattr(ssh, k)}
        node = Node(name, "127.0.0.1", self.port, self.user, ssh=replace(ssh, **logins))
        return replace(node, **changes)

    def start(self) -> None:
        """Start sshd and wait until it listens."""
        hidden = "\n".join(f"mount --bind /dev/null {shlex.quote(path)}" for path in self._hidden)
        script = SCRIPT.format(folder=shlex.quote(str(self.folder)), hidden=hidden, sshd=SSHD)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._listens, lambda: f"sshd does not listen: {self.log.read_text()}")

    def stop(self) -> None:
        """End sshd and all its sessions."""
        if self._process is None:
            return
        for pid in [self.pid, *descendants(self.pid)]:
            signal_if_there(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def drop_sessions(self) -> None:
        """Kill the sshd processes of all sessions, as an out-of-memory killer would."""
        for pid in children(self.pid):
            signal_if_there(pid, signal.SIGKILL)

    def freeze(self, number: int = signal.SIGSTOP) -> None:
        """Stop sshd and all its sessions where they are; SIGCONT lets them go on."""
        for pid in [self.pid, *descendants(self.pid)]:
            signal_if_there(pid, number)

    def new_host_key(self) -> None:
        """Give the node another host key; sshd reads it at its start."""
        key = asyncssh.generate_private_key("ssh-ed25519")
        (self.folder / "host_key").unlink(missing_ok=True)
        write_secret(self.folder / "host_key", key.export_private_key("openssh"))
        self.host_key = key.convert_to_public()

    def trust(self) -> None:
        """Write the present host key to known_hosts."""
        key = self.host_key.export_public_key("openssh").decode().strip()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {key}\n")

    def logins(self) -> int:
        """Return how many logins sshd has accepted."""
        return len(re.findall(r"Accepted \S+ for", self.log.read_text(errors="replace")))

    def admit(self, other: "Sshd") -> None:
        """Let those in whom another node lets in, and be known where that one is."""
        keys = (other.folder / "authorized_keys").read_bytes()
        (self.folder / "authorized_keys").write_bytes(keys)
        with other.known_hosts.open("a") as file:
            file.write(self.known_hosts.read_text())

    def _make_user(self, shell: str, password: str | None) -> None:
        number = 0 if self.user == "root" else STRANGER
        passwd = Path("/etc/passwd").read_text().splitlines()
        others = [line for line in passwd if not line.startswith(f"{self.user}:")]
        entry = f"{self.user}:x:{number}:{number}:a user:/mnt/home:{shell}"
        (self.folder / "passwd").write_text("\n".join([entry, *others, ""]))
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, number, number)
        if password:
            digest = subprocess.run(
                ["openssl", "passwd", "-6", password], check=True, capture_output=True, text=True
            ).stdout.strip()
            write_secret(self.folder / "shadow", f"{self.user}:{digest}:1::::::\n".encode())

    def _make_identity(self) -> None:
        key = asyncssh.generate_private_key("ssh-ed25519")
        write_secret(self.identity, key.export_private_key("openssh"))
        (self.folder / "authorized_keys").write_bytes(key.export_public_key("openssh"))

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def write_secret(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(
    condition: Callable[[], Any], otherwise: Callable[[], str] | str, within_s: float = DEADLINE_S
) -> Any:
    """Return the first true value of a condition; fail with a reason at the deadline."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(otherwise if isinstance(otherwise, str) else otherwise())
        time.sleep(0.02)
    return value


def signal_if_there(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    return [found for child in children(pid) for found in (child, *descendants(child))]


def processes_with(variable: str) -> list[int]:
    """Return the processes whose environment holds `NAME=value`."""
    wanted = variable.encode()

    def found() -> Iterator[int]:
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    if wanted in (folder / "environ").read_bytes().split(b"\0"):
                        yield int(folder.name)
                except OSError:
                    continue

    return list(found())
