"""Nodes of both kinds do what the Protocol says, and leave nothing behind."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from debian import needs
from lab import namespaces, uml
from lab.faults.look import ToothlessError
from lab.faults.storage import SlowDisk
from lab.node import HOME, USER, Node, inside, run

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    needs("ip", "iproute2"),
    needs("sshd", "openssh-server"),
    needs("ping", "iputils-ping"),
]
LAB = f"t{os.getpid() % 100_000}"
on_guests = pytest.param(
    uml.cluster,
    marks=[needs("linux.uml", "user-mode-linux"), needs("modprobe", "kmod"), needs("dmsetup", "dmsetup")],
    id="uml",
)  # fmt: skip
Cluster = Callable[[str, Sequence[str], Path], AbstractContextManager[Sequence[Node]]]


@pytest.fixture(scope="module", params=[pytest.param(namespaces.cluster, id="host"), on_guests])
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sequence[Node]]:
    bring_up: Cluster = request.param
    with bring_up(LAB, ("one", "two"), tmp_path_factory.mktemp("lab")) as up:
        yield up
    assert LAB not in run("ip", "netns", "list")
    assert subprocess.run(["pgrep", "-f", f"umid={LAB}-"], check=False).returncode == 1


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_each_is_a_host_of_its_own(nodes: Sequence[Node]) -> None:
    assert [node.run(["hostname"]).strip() for node in nodes] == ["one", "two"]
    assert nodes[0].run(["ping", "-q", "-c1", nodes[1].address])


def test_a_command_that_fails_says_what_it_said(nodes: Sequence[Node]) -> None:
    with pytest.raises(RuntimeError, match="no-such-folder"):
        nodes[0].run(["ls", "/no-such-folder"])


def test_a_viewer_logs_in_as_root_and_as_a_plain_user(nodes: Sequence[Node]) -> None:
    node = nodes[1]
    folder = node.home.parent
    for user in ("root", USER):
        ssh = ["ssh", "-i", f"{folder}/identity", "-o", f"UserKnownHostsFile={folder}/known_hosts"]
        who = run(*inside(node.lab, *ssh, f"{user}@{node.address}", "whoami; hostname"))
        assert who.split() == [user, "two"]


def test_signals_reach_a_program_and_its_children(nodes: Sequence[Node]) -> None:
    node = nodes[0]
    script = f"sleep 1000 & echo $! >{HOME}/child; echo on; wait"
    program = node.start(["sh", "-c", script], {}, "own.log")
    _until(lambda: (node.home / "own.log").exists() and "on" in (node.home / "own.log").read_text())
    child = (node.home / "child").read_text().strip()

    def state() -> str:
        return node.run(["sh", "-c", f"cut -d' ' -f3 /proc/{child}/stat 2>&1 || true"]).strip()

    program.send_signal(signal.SIGSTOP)
    _until(lambda: state() == "T")
    assert program.poll() is None
    program.kill()
    assert program.wait(10) != 0
    _until(lambda: state() not in ("R", "S", "T"))


def test_files_of_home_are_seen_from_both_sides_at_once(nodes: Sequence[Node]) -> None:
    node = nodes[0]
    for text in ("first", "other"):
        (node.home / "note").write_text(text)
        assert node.run(["cat", f"{HOME}/note"]) == text
    node.run(["sh", "-c", f"echo back >{HOME}/note"])
    assert (node.home / "note").read_text() == "back\n"


@pytest.mark.parametrize("nodes", [on_guests], indirect=True)
def test_a_disk_is_slowed_below_its_file_system(nodes: Sequence[Node]) -> None:
    fault = SlowDisk("one", 40)
    with pytest.raises(ToothlessError):
        fault.bites(nodes)
    fault.apply(nodes)
    assert fault.bites(nodes)
    fault.lift(nodes)
    with pytest.raises(ToothlessError):
        fault.bites(nodes)
