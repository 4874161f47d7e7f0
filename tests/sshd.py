"""Real sshd instances on loopback: own keys, own users, each in a mount namespace of its own.

The namespace hides the machine's /etc/passwd behind one with the wanted login shell and home,
and gives the node an empty /tmp, so that nothing of the machine is changed and everything that
is written can be seen from outside. That takes root.
"""

import os
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
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sshd with users of its own")
NEEDS_SSHD = (needs("sshd", "openssh-server"), ROOT)
"""The marks of a module that uses this one."""

CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey /mnt/host_key
AuthorizedKeysFile /mnt/authorized_keys
PidFile none
UsePAM {questions}
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication {questions}
MaxStartups 100
PrintMotd no
"""
SCRIPT = """\
mkdir -p /run/sshd
mount --bind {folder} /mnt
mount --bind /mnt/passwd /etc/passwd
mount -t tmpfs node /tmp
mount -t tmpfs node /var/tmp
{hidden}
exec {sshd} -D -e -f /mnt/sshd_config
"""


class Sshd:
    """One node: an sshd, the user who logs in, and the files that a viewer needs.

    Args:
        folder: an empty folder of its own.
        shell: login shell of the user.
        files: of the user's home, by name.
        options: further lines of sshd_config.
        questions: whether it may ask a person, through PAM.
        hidden: programs that this node lacks.
    """

    user = "root"

    def __init__(
        self,
        folder: Path,
        *,
        shell: str = "/bin/bash",
        files: Mapping[str, bytes] | None = None,
        options: Sequence[str] = (),
        questions: bool = False,
        hidden: Sequence[str] = (),
    ) -> None:
        self.folder = folder
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
        passwd = Path("/etc/passwd").read_text().splitlines()
        others = [line for line in passwd if not line.startswith("root:")]
        entry = f"root:x:0:0:root:/mnt/home:{shell}"
        (folder / "passwd").write_text("\n".join([entry, *others, ""]))
        config = CONFIG.format(port=self.port, questions="yes" if questions else "no") + "".join(
            f"{o}\n" for o in options
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
        return self.log.read_text(errors="replace").count("Accepted publickey")

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
