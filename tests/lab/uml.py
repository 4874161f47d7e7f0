"""Nodes that are User-mode Linux guests: each a kernel of its own, with its own disk and TCP stack.

The root of a guest is the host's file system, read-only, so there is no image to build; init.sh
makes a node of it. Commands reach a guest over a serial line, never over its network, so that a
fault starts at a known instant and can be lifted whatever it broke. Needs the Debian packages of
debian-packages.txt. A guest has one CPU, no PSI, and a /proc/PID/wchan that is wrong.
"""

import contextlib
import os
import pty
import shlex
import signal
import subprocess
import threading
import tty
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

from lab.node import (
    HOME,
    JOB_LOG,
    PASSWD,
    SUBNET,
    await_sshd,
    bridged,
    children,
    furnish,
    inside,
    known_hosts,
    mortal,
    path,
    run,
)  # fmt: skip

INIT = Path(__file__).with_name("init.sh")
BOOT_S = 30
"""Seconds a guest may take to boot, on a busy host; two when idle."""
ANSWER_S = 60
"""Seconds a command of `Guest.run` may take."""


class Console:
    """A serial line: a number goes in, the guest runs the script of that number and answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._line, self.guest_end = pty.openpty()
        tty.setraw(self._line)
        tty.setraw(self.guest_end)
        self._lock = threading.Lock()
        self._answers: dict[int, Future[int]] = {}
        self.ready: Future[int] = Future()

    def listen(self) -> None:
        """Take the guest's answers from now on, until it ends."""
        os.close(self.guest_end)
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, script: str) -> tuple[int, "Future[int]"]:
        """Have the guest run a shell script; its number, and its exit status to come."""
        answer: Future[int] = Future()
        with self._lock:
            number = len(self._answers) + 1
            self._answers[number] = answer
            (self._folder / str(number)).write_text(script)
            os.write(self._line, f"{number}\n".encode())
        return number, answer

    def output(self, number: int) -> str:
        """Return what a script that has ended wrote."""
        return (self._folder / f"{number}.out").read_text(errors="replace")

    def _listen(self) -> None:
        with contextlib.suppress(OSError), os.fdopen(self._line, "rb") as lines:
            for line in lines:
                word, _, status = line.decode(errors="replace").strip().partition(" ")
                if word == "ready":
                    self.ready.set_result(0)
                elif status:
                    self._answers[int(word)].set_result(int(status))
        for answer in [self.ready, *self._answers.values()]:
            if not answer.done():
                answer.set_exception(ConnectionError("the guest is gone"))


class Program:
    """A program that runs on a guest, as a process group of its own."""

    def __init__(self, guest: "Guest", words: Sequence[str], env: dict[str, str], log: str) -> None:
        variables = [f"{name}={value}" for name, value in {**path(), **env}.items()]
        program = shlex.join(["env", "-i", *variables, *words])
        output = shlex.quote(f"{HOME}/{log}")
        self._guest = guest
        number, self._status = guest.console.send(
            f"echo $$ >$0.pid\ncd {HOME}\nexec {program} >>{output} 2>&1\n"
        )
        self._pid_file = f"{HOME}/console/{number}.pid"

    def poll(self) -> int | None:
        """Return its exit status, or None while it runs."""
        return self._status.result() if self._status.done() else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, at most `timeout` seconds; its exit status."""
        return self._status.result(timeout)

    def send_signal(self, number: int) -> None:
        """Send a signal to it and its children."""
        if self.poll() is None:
            name = signal.Signals(number).name.removeprefix("SIG")
            # It may end by itself meanwhile.
            self._guest.run(["sh", "-c", f"kill -{name} -$(cat {self._pid_file}) || true"])

    def kill(self) -> None:
        """Kill it and its children."""
        self.send_signal(signal.SIGKILL)


class Guest:
    """One guest: its kernel is a process of the host, its home and its disk are files there."""

    def __init__(self, lab: str, number: int, name: str, home: Path) -> None:
        self.name = name
        self.address = f"{SUBNET}.{number}"
        self.home = home
        self.port = f"{lab}p{number}"
        self.console = Console(home / "console")
        self.lab = lab
        self._number = number
        self._kernel: subprocess.Popen[bytes] | None = None

    def boot(self, memory_mb: int, disk_mb: int) -> None:
        """Start the guest; its init goes on by itself."""
        disk = self.home / "disk.img"
        with disk.open("wb") as file:
            file.truncate(disk_mb << 20)
        run(
            "mkfs.ext4",
            "-q",
            "-m",
            "0",
            "-E",
            "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
            str(disk),
        )
        line = self.console.guest_end
        words = [
            "unshare", "--fork", "--kill-child", "--pid", "linux.uml", f"mem={memory_mb}M",
            f"umid={self.lab}-{self.name}", f"uml_dir={self.home}/uml", "quiet",
            "rootfstype=hostfs", "rootflags=/", "root=/dev/root", "ro", f"init={INIT}",
            f"ubd0={disk}", f"vec0:transport=tap,ifname={self.port},depth=128,gro=1",
            "con=null", "con0=null,fd:1", f"ssl0=fd:{line},fd:{line}",
            f"home={self.home}", f"name={self.name}", f"node={self._number}", f"subnet={SUBNET}",
            f"passwd={PASSWD}",
        ]  # fmt: skip
        with (self.home / "kernel.log").open("wb") as log:
            self._kernel = subprocess.Popen(
                mortal(*inside(self.lab, *words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[line],
            )  # fmt: skip
        self.console.listen()

    def start(self, words: Sequence[str], env: dict[str, str], log: str = JOB_LOG) -> Program:
        """Start a program on the guest; its output is appended to `log` in its home."""
        return Program(self, words, env, log)

    def run(self, words: Sequence[str]) -> str:
        """Run a program on the guest to its end; its output, or a RuntimeError that shows it."""
        number, status = self.console.send(f"exec {shlex.join(words)}\n")
        code = status.result(ANSWER_S)
        output = self.console.output(number)
        if code:
            message = f"{self.name}: {shlex.join(words)}: exit status {code}: {output.strip()}"
            raise RuntimeError(message)
        return output

    @property
    def kernel_pid(self) -> int:
        """The process of the host that is the guest's kernel and its one CPU."""
        assert self._kernel is not None
        return children(self._kernel.pid)[0]

    def freeze(self) -> None:
        """Stop the guest as a whole, as a host that hangs."""
        os.kill(self.kernel_pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen guest go on."""
        os.kill(self.kernel_pid, signal.SIGCONT)

    def halt(self) -> None:
        """End the guest and all that runs on it."""
        if self._kernel is not None and self._kernel.poll() is None:
            for pid in children(self._kernel.pid):
                os.kill(pid, signal.SIGKILL)
            self._kernel.wait()


@contextlib.contextmanager
def cluster(
    lab: str, names: Sequence[str], folder: Path, memory_mb: int = 384, disk_mb: int = 1024
) -> Iterator[list[Guest]]:
    """Boot guests, all at once, that a viewer inside the network namespace `lab` reaches by SSH.

    Args:
        lab: at most 8 letters; names the namespace, and its interfaces.
        names: of the nodes.
        folder: for keys, homes and disks; gets `identity` and `known_hosts`.
        memory_mb: of each guest; a file of that size comes to be in the host's /dev/shm or /tmp.
        disk_mb: size of each local disk; the host holds only what is written.
    """
    with bridged(lab), contextlib.ExitStack() as stack:
        guests = []
        for number, name in enumerate(names, 1):
            guest = Guest(lab, number, name, furnish(folder, name))
            run("ip", "-n", lab, "tuntap", "add", guest.port, "mode", "tap")
            run("ip", "-n", lab, "link", "set", guest.port, "master", "bridge", "up")
            stack.callback(guest.halt)
            guest.boot(memory_mb, disk_mb)
            guests.append(guest)
        for guest in guests:
            _await_boot(guest)
        (folder / "known_hosts").write_text(known_hosts(guests))
        await_sshd(lab, guests)
        yield guests


def _await_boot(guest: Guest) -> None:
    try:
        guest.console.ready.result(BOOT_S)
    except (ConnectionError, TimeoutError) as error:
        logs = [guest.home / "kernel.log", guest.home / "init.log"]
        said = "\n".join(log.read_text(errors="replace") for log in logs if log.exists())
        message = f"{guest.name} did not boot: {said}"
        raise RuntimeError(message) from error
