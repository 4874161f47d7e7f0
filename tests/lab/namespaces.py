"""Nodes in namespaces of their own on one kernel: network, processes, mounts and host name.

Good for what crosses a network; CPU and disk counters are the machine's and the same on all.
Everything hangs in one network namespace (bridge and viewer), so that deleting it cleans up and no
traffic ever leaves it. Needs root, iproute2 and openssh-server.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

SUBNET = "10.77.0"
INIT = """
set -e
hostname {name}
mount --make-rprivate /
mount --bind {home} /mnt
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -f /mnt/sshd_config
"""
SSHD_CONFIG = """
Port 22
HostKey /mnt/host_key
AuthorizedKeysFile /mnt/authorized_keys
PasswordAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
"""


def run(*words: str) -> str:
    """Run a command to its end; its output, or an error that shows what it said."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"{' '.join(words)}: {done.stderr.strip()}"
        raise RuntimeError(message)
    return done.stdout


class Node:
    """One node: its names, its home (seen as /mnt inside), and its sshd."""

    def __init__(self, lab: str, number: int, name: str, home: Path) -> None:
        self.name = name
        self.address = f"{SUBNET}.{number}"
        self.home = home
        self.netns = f"{lab}-{name}"
        self.port = f"{lab}p{number}"
        self._lab = lab
        self._init: subprocess.Popen[bytes] | None = None

    def wire(self) -> None:
        """Make the node's network namespace and plug it into the lab's bridge."""
        inside = f"{self._lab}e"
        run("ip", "netns", "add", self.netns)
        run("ip", "-n", self._lab, "link", "add", self.port, "type", "veth", "peer", "name", inside,
            "netns", self.netns)  # fmt: skip
        run("ip", "-n", self._lab, "link", "set", self.port, "master", "bridge", "up")
        run("ip", "-n", self.netns, "link", "set", inside, "name", "eth0")
        run("ip", "-n", self.netns, "address", "add", f"{self.address}/24", "dev", "eth0")
        run("ip", "-n", self.netns, "link", "set", "eth0", "up")
        run("ip", "-n", self.netns, "link", "set", "lo", "up")

    def boot(self) -> None:
        """Start the node's first process, its sshd."""
        (self.home / "sshd_config").write_text(SSHD_CONFIG)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.home / "host_key"))
        script = INIT.format(name=self.name, home=self.home)
        self._init = subprocess.Popen(
            ["ip", "netns", "exec", self.netns, "unshare", "--fork", "--kill-child", "--pid",
             "--mount-proc", "--uts", "--ipc", "sh", "-c", script],
            stdin=subprocess.DEVNULL, stderr=(self.home / "sshd.log").open("wb"),
        )  # fmt: skip

    def start(self, words: Sequence[str], env: dict[str, str]) -> "subprocess.Popen[bytes]":
        """Start a program inside the node; its output goes to `job.log` in its home."""
        assert self._init is not None
        inner = run("pgrep", "-P", str(self._init.pid)).split()[0]
        pid = inner if _name(inner) != "unshare" else run("pgrep", "-P", inner).split()[0]
        return subprocess.Popen(
            ["nsenter", "--target", pid, "--net", "--pid", "--mount", "--uts", "--ipc", *words],
            env={"PATH": os.environ["PATH"], **env}, stdin=subprocess.DEVNULL,
            stdout=(self.home / "job.log").open("ab"), stderr=subprocess.STDOUT,
        )  # fmt: skip

    def host_key(self) -> str:
        """Return the node's line for a known_hosts file."""
        return f"{self.address} {(self.home / 'host_key.pub').read_text()}"

    def halt(self) -> None:
        """End the node and all that runs in it."""
        if self._init is not None:
            self._init.kill()
            self._init.wait()


@contextlib.contextmanager
def cluster(lab: str, names: Sequence[str], folder: Path) -> Iterator[list[Node]]:
    """Bring up nodes that a viewer inside the network namespace `lab` reaches by SSH.

    Args:
        lab: at most 8 letters; names the namespace, and its interfaces.
        names: of the nodes.
        folder: for keys and homes; gets `identity` and `known_hosts`.
    """
    nodes = []
    for number, name in enumerate(names, 1):
        home = folder / name
        home.mkdir()
        nodes.append(Node(lab, number, name, home))
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "identity"))
    run("ip", "netns", "add", lab)
    try:
        run("ip", "-n", lab, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", lab, "address", "add", f"{SUBNET}.254/24", "dev", "bridge")
        for device in ("bridge", "lo"):
            run("ip", "-n", lab, "link", "set", device, "up")
        for node in nodes:
            node.wire()
            shutil.copy(folder / "identity.pub", node.home / "authorized_keys")
            node.boot()
        (folder / "known_hosts").write_text("".join(node.host_key() for node in nodes))
        for node in nodes:
            _wait_for_ssh(lab, node)
        yield nodes
    finally:
        for node in nodes:
            node.halt()
        for netns in [*(node.netns for node in nodes), lab]:
            subprocess.run(["ip", "netns", "del", netns], check=False, capture_output=True)


def inside(lab: str, *words: str) -> list[str]:
    """Return the command line that runs `words` in the lab's namespace, as a viewer there."""
    return ["ip", "netns", "exec", lab, *words]


def _wait_for_ssh(lab: str, node: Node) -> None:
    probe = f"import socket; socket.create_connection(('{node.address}', 22), 1)"
    deadline = time.monotonic() + 20
    while subprocess.run(
        inside(lab, sys.executable, "-c", probe), check=False, capture_output=True
    ).returncode:
        if time.monotonic() > deadline:
            log = (node.home / "sshd.log").read_text(errors="replace")
            message = f"{node.name}: no sshd within 20 s: {log}"
            raise TimeoutError(message)


def _name(pid: str) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
