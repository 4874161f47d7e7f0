"""What a node of the lab is, on a kernel of its own (uml.py) or in namespaces (namespaces.py).

Everything hangs in one network namespace of the host (bridge, nodes, viewer), so that deleting it
cleans up and no traffic ever leaves it. Inside every node: HOME is a folder of the host, LOCAL its
local disk, SHARED a mount point for an NFS export. Needs root, iproute2 and openssh-server.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

SUBNET = "10.77.0"
HOME = "/mnt/lab"
LOCAL = "/mnt/data"
SHARED = "/mnt/shared"
PYTHON = "/usr/bin/python3"
"""The interpreter on every node; the host's others may lie below /root, which nodes hide."""
INTERFACE = "eth0"
USER = "trainer"
"""A plain user of every node, who may log in with the same key as root.

What that user makes in the HOME of a guest belongs to root: files to append to must be there, and be
writable for all, before.
"""
PASSWD = f"{USER}:x:4242:4242::/tmp:/bin/sh"
JOB_LOG = "job.log"
SSHD_CONFIG = f"""
Port 22
HostKey {HOME}/host_key
AuthorizedKeysFile {HOME}/authorized_keys
PasswordAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
"""


class Process(Protocol):
    """A program on a node: with its children a process group, which signals reach as a whole."""

    def poll(self) -> int | None:
        """Return its exit status, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, at most `timeout` seconds; its exit status."""

    def send_signal(self, number: int) -> None:
        """Send a signal to it and its children."""

    def kill(self) -> None:
        """Kill it and its children."""


class Node(Protocol):
    """One node of the lab."""

    lab: str
    """The network namespace of the host in which its port is."""
    name: str
    address: str
    home: Path
    """The folder of the host that the node sees as HOME."""
    port: str
    """Its port on the bridge."""

    def start(self, words: Sequence[str], env: dict[str, str], log: str = JOB_LOG) -> Process:
        """Start a program on the node; its output is appended to `log` in its home."""

    def run(self, words: Sequence[str]) -> str:
        """Run a program on the node to its end; its output, or a RuntimeError that shows it."""

    def halt(self) -> None:
        """End the node and all that runs on it."""


def run(*words: str) -> str:
    """Run a command on the host to its end; its output, or an error that shows what it said."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"{' '.join(words)}: {done.stderr.strip()}"
        raise RuntimeError(message)
    return done.stdout


def inside(lab: str, *words: str) -> list[str]:
    """Return the command line that runs `words` in the lab's namespace, as a viewer there."""
    return ["ip", "netns", "exec", lab, *words]


def add_netns(name: str) -> None:
    """Make a network namespace; one of that name in which nothing runs any more gives way."""
    if Path("/run/netns", name).exists():
        if run("ip", "netns", "pids", name):
            raise RuntimeError(f"a lab of that name is running: {name}")
        run("ip", "netns", "del", name)
    run("ip", "netns", "add", name)


@contextlib.contextmanager
def bridged(lab: str) -> Iterator[None]:
    """Make the lab's network namespace and, in it, the bridge that nodes are plugged into."""
    add_netns(lab)
    try:
        run("ip", "-n", lab, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", lab, "address", "add", f"{SUBNET}.254/24", "dev", "bridge")
        for device in ("bridge", "lo"):
            run("ip", "-n", lab, "link", "set", device, "up")
        yield
    finally:
        run("ip", "netns", "del", lab)


def mortal(*words: str) -> list[str]:
    """Return the command line that ends when the process that starts it does, however it ends."""
    return ["setpriv", "--pdeathsig", "KILL", *words]


def furnish(folder: Path, name: str) -> Path:
    """Make a node's home with what its sshd needs; the viewer's `identity` comes with the first."""
    if not (folder / "identity").exists():
        _key(folder / "identity")
    home = folder / name
    home.mkdir()
    home.chmod(0o777)
    _key(home / "host_key")
    (home / "sshd_config").write_text(SSHD_CONFIG)
    (home / "authorized_keys").write_bytes((folder / "identity.pub").read_bytes())
    return home


def known_hosts(nodes: Sequence[Node]) -> str:
    """Return the known_hosts file of these nodes."""
    return "".join(f"{n.address} {(n.home / 'host_key.pub').read_text()}" for n in nodes)


def children(pid: int) -> list[int]:
    """Return the processes that a process of the host started and that still run."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def await_sshd(lab: str, nodes: Sequence[Node], seconds: float = 20) -> None:
    """Wait until every node greets on port 22 as seen from the lab's namespace."""
    probe = (
        "import socket,sys; sys.exit(not socket.create_connection((sys.argv[1], 22), 1).recv(4))"
    )
    deadline = time.monotonic() + seconds
    for node in nodes:
        words = inside(lab, PYTHON, "-Sc", probe, node.address)
        while subprocess.run(words, check=False, capture_output=True).returncode:
            if time.monotonic() > deadline:
                log = (node.home / "sshd.log").read_text(errors="replace")
                message = f"{node.name}: no sshd within {seconds} s: {log}"
                raise TimeoutError(message)


def path() -> dict[str, str]:
    """Return the environment that every program of a node gets."""
    return {"PATH": f"{os.defpath}:/usr/sbin:/sbin", "LANG": "C.UTF-8"}


def _key(file: Path) -> None:
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file))
