"""Real TCP connections: over a wire between two network namespaces, and how they are read."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.kit import agent_for_all, named
from gpuwatch.agent.host import Host, Member
from gpuwatch.agent.metric import Reading
from gpuwatch.agent.sources.sockets import Reader

TALKER = Path(__file__).with_name("talker.py")
HERE, THERE = "10.78.0.1", "10.78.0.2"


class Talker:
    """A running talker.py."""

    def __init__(self, *before: str) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, str(TALKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, bufsize=1,
        )  # fmt: skip

    def say(self, words: str) -> str:
        self.ask(words)
        return self.hear()

    def ask(self, words: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(words + "\n")

    def hear(self) -> str:
        assert self.process.stdout
        answer = self.process.stdout.readline().strip()
        assert answer
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def talker(*before: str) -> Iterator[Talker]:
    running = Talker(*before)
    try:
        yield running
    finally:
        running.end()


class Wire:
    """Two network namespaces with a cable between; a process in each, the first is the rank."""

    def __init__(self, here: str, there: str, rank: Talker, peer: Talker) -> None:
        self.here, self.there, self.rank, self.peer = here, there, rank, peer
        self.port = peer.say(f"listen {THERE}")
        rank.say(f"listen {HERE}")

    def connect(self) -> None:
        self.rank.say(f"open {THERE} {self.port}")
        self.peer.say("accept")


@contextmanager
def laid() -> Iterator[Wire]:
    """Lay the cable, and leave nothing behind."""
    here, there = (f"gwsock{os.getpid()}{end}" for end in "ab")
    with ExitStack() as stack:
        for name in (here, there):
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name)
        run("ip", "-n", here, "link", "add", "wire", "type", "veth", "peer", "name", "wire",
             "netns", there)  # fmt: skip
        for name, address in ((here, HERE), (there, THERE)):
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "wire")
            for device in ("lo", "wire"):
                run("ip", "-n", name, "link", "set", device, "up")
        ends = [stack.enter_context(talker("ip", "netns", "exec", name)) for name in (here, there)]
        yield Wire(here, there, *ends)


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def slow(wire: Wire, *how: str) -> None:
    """Let what the rank sends pass through a token bucket (tc-tbf(8))."""
    run("tc", "-n", wire.here, "qdisc", "add", "dev", "wire", "root", "tbf", *how)


readers: list[Reader] = []


@pytest.fixture(autouse=True)
def closed_readers() -> Iterator[None]:
    yield
    while readers:
        readers.pop().close()


def watch(*members: Member, host: Host | None = None) -> Reader:
    host = host or Host()
    host.board.job = members
    readers.append(Reader(host, cpu=lambda: 0.0))
    return readers[-1]


def rank(pid: int, role: str = "main") -> Member:
    return Member(pid, "match:x", "3", role, 0)


def rows(reader: Reader) -> dict[str, dict[str, Any]]:
    """Read once; peer to values."""
    return by_peer(reader.read())


def by_peer(reading: Reading) -> dict[str, dict[str, Any]]:
    return {entity.split()[-1]: values for entity, values in named("sockets", reading).items()}


def until(reader: Reader, peer: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Read until what is told of a peer holds; return it."""
    deadline = time.monotonic() + 10
    found: dict[str, Any] = {}
    while True:
        found = rows(reader).get(peer, {})
        if found and holds(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def read_as(member: Member, *how: str) -> dict[str, Any]:
    """Read in a process with fewer rights."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gpuwatch.agent.host import Host, Member\n"
        "from gpuwatch.agent.sources.sockets import Reader\n"
        "host = Host()\n"
        f"host.board.job = ({tuple(member)!r},)\n"
        "host.board.job = tuple(Member(*m) for m in host.board.job)\n"
        "reading = Reader(host).read()\n"
        "print({'rows': len(reading.rows), 'missing': reading.missing})\n"
    )
    words = ["setpriv", *how, "/usr/bin/python3", "-B", "-c", program, agent_for_all()]
    return dict(eval(run(*words)))
