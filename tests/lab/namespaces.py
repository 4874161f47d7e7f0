"""Nodes in namespaces of their own on one kernel: network, processes, mounts and host name.

Good for what crosses a network, and for what needs several cores or PSI; CPU and disk counters are
the machine's and the same on all.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.node import (
    HOME,
    INTERFACE,
    JOB_LOG,
    LOCAL,
    PASSWD,
    SHARED,
    SUBNET,
    add_netns,
    await_sshd,
    bridged,
    children,
    furnish,
    known_hosts,
    mortal,
    path,
    run,
)  # fmt: skip

INIT = f"""
set -e
hostname {{name}}
mount --make-rprivate /
cd {{home}}
mkdir -p disk
mount -t tmpfs tmpfs /mnt
mkdir -p {HOME} {LOCAL} {SHARED}
mount --bind . {HOME}
mount --bind disk {LOCAL}
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --move /run/cgroup /sys/fs/cgroup
{{{{ cat /etc/passwd; echo {PASSWD}; }}}} >/run/passwd
mount --bind /run/passwd /etc/passwd
cd /
exec /usr/sbin/sshd -D -e -f {HOME}/sshd_config
"""


class Program:
    """A program that runs on a node, as a process group of its own."""

    def __init__(self, words: Sequence[str], env: dict[str, str], log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                words, env={**path(), **env}, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def poll(self) -> int | None:
        """Return its exit status, or None while it runs."""
        return self._process.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, at most `timeout` seconds; its exit status."""
        return self._process.wait(timeout)

    def send_signal(self, number: int) -> None:
        """Send a signal to it and its children."""
        if self.poll() is None:
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill it and its children."""
        self.send_signal(signal.SIGKILL)


class Namespaces:
    """One node: its names, its home (seen as HOME inside), and its sshd."""

    def __init__(self, lab: str, number: int, name: str, home: Path) -> None:
        self.name = name
        self.address = f"{SUBNET}.{number}"
        self.home = home
        self.port = f"{lab}p{number}"
        self._netns = f"{lab}-{name}"
        self.lab = lab
        self._init: subprocess.Popen[bytes] | None = None
        self._programs: list[Program] = []

    def wire(self) -> None:
        """Make the node's network namespace and plug it into the lab's bridge."""
        end = f"{self.lab}e"
        add_netns(self._netns)
        run("ip", "-n", self.lab, "link", "add", self.port, "type", "veth", "peer", "name", end,
            "netns", self._netns)  # fmt: skip
        run("ip", "-n", self.lab, "link", "set", self.port, "master", "bridge", "up")
        run("ip", "-n", self._netns, "link", "set", end, "name", INTERFACE)
        run("ip", "-n", self._netns, "address", "add", f"{self.address}/24", "dev", INTERFACE)
        run("ip", "-n", self._netns, "link", "set", INTERFACE, "up")
        run("ip", "-n", self._netns, "link", "set", "lo", "up")

    def boot(self) -> None:
        """Start the node's first process, its sshd."""
        script = INIT.format(name=self.name, home=self.home)
        with (self.home / "sshd.log").open("wb") as log:
            self._init = subprocess.Popen(
                mortal("nsenter", f"--net=/run/netns/{self._netns}", "unshare", "--fork",
                       "--kill-child", "--pid", "--mount-proc", "--uts", "--ipc", "sh", "-c",
                       script),
                stdin=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip

    def start(self, words: Sequence[str], env: dict[str, str], log: str = JOB_LOG) -> Program:
        """Start a program on the node; its output is appended to `log` in its home."""
        program = Program(self._entered(words), env, self.home / log)
        self._programs.append(program)
        return program

    def run(self, words: Sequence[str]) -> str:
        """Run a program on the node to its end; its output, or a RuntimeError that shows it."""
        return run(*self._entered(words))

    @property
    def first_pid(self) -> int:
        """The process of the host that is the node's first, its sshd."""
        assert self._init is not None
        return children(self._init.pid)[0]

    def halt(self) -> None:
        """End the node and all that runs in it."""
        # The first process ends only when others are reaped, which stopped parents would not do.
        for program in self._programs:
            program.kill()
            program.wait()
        if self._init is not None and self._init.poll() is None:
            for pid in children(self._init.pid):
                os.kill(pid, signal.SIGKILL)
            self._init.wait()
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu"):
            with contextlib.suppress(OSError):
                Path(root, f"{self.lab}-{self.name}").rmdir()
        subprocess.run(["ip", "netns", "del", self._netns], check=False, capture_output=True)

    def _entered(self, words: Sequence[str]) -> list[str]:
        return ["nsenter", f"--target={self.first_pid}", "--net", "--pid", "--mount", "--uts",
                "--ipc", f"--wd={self.home}", "--", *words]  # fmt: skip


@contextlib.contextmanager
def cluster(lab: str, names: Sequence[str], folder: Path) -> Iterator[list[Namespaces]]:
    """Bring up nodes that a viewer inside the network namespace `lab` reaches by SSH.

    Args:
        lab: at most 8 letters; names the namespace, and its interfaces.
        names: of the nodes.
        folder: for keys and homes; gets `identity` and `known_hosts`.
    """
    with bridged(lab), contextlib.ExitStack() as stack:
        nodes = []
        for number, name in enumerate(names, 1):
            node = Namespaces(lab, number, name, furnish(folder, name))
            stack.callback(node.halt)
            node.wire()
            node.boot()
            nodes.append(node)
        (folder / "known_hosts").write_text(known_hosts(nodes))
        await_sshd(lab, nodes)
        yield nodes
