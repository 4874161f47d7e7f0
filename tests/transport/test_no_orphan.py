"""Whatever becomes of the viewer or the way to it, the agent is gone, with its children."""

import os
import pickle
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from debian import needs
from gpuwatch.transport.node import Node
from gpuwatch.transport.payload import agent_config
from sshd import NEEDS_SSHD, Sshd, processes_with, wait_until
from tcp_proxy import TcpProxy

Start = Callable[..., Sshd]
SILENCE_S = 1.0
SOURCE = Path(__file__).parents[2] / "src"
VIEWER = """
import asyncio, pickle, sys
from gpuwatch.feed.live import Live
from gpuwatch.model.event import Sample

async def main():
    async for event in Live([pickle.load(sys.stdin.buffer)], 0.2):
        if isinstance(event, Sample):
            print(event.sequence, flush=True)

asyncio.run(main())
"""


def over_sshd(test: Any) -> Any:
    for mark in NEEDS_SSHD:
        test = mark(test)
    return test


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


def agents(mark: str) -> list[int]:
    return processes_with(f"MARK={mark}")


def marked(node: Node, mark: str, folder: Path) -> Node:
    """Return the node with an agent that can be found, and that has a child: it follows a log."""
    log = folder / "train.log"
    log.write_text("step 1\n")
    texts = {"step": "step"}
    return replace(node, silence_s=SILENCE_S, env={"MARK": mark}, log=str(log), log_texts=texts)


@contextmanager
def viewer(node: Node) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a viewer in a process of its own, and let it see three samples."""
    process = subprocess.Popen(
        [sys.executable, "-c", VIEWER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pickle.dumps(node))
        process.stdin.close()
        try:
            while (said := process.stdout.readline()) != b"2\n":
                assert said
            yield process
        finally:
            process.kill()


def by_command(sshd: Start) -> Node:
    return Node("n", "h", transport="command", command=("sh", "-c", "{agent}"))


def by_openssh(sshd: Start) -> Node:
    return replace(sshd().node("n"), transport="openssh")


@pytest.mark.parametrize(
    ("reach", "how"),
    [
        (by_command, signal.SIGKILL),
        pytest.param(
            by_openssh, signal.SIGSTOP, marks=[*NEEDS_SSHD, needs("ssh", "openssh-client")]
        ),
    ],
)
def test_a_viewer_that_is_killed_or_stopped_leaves_no_agent(
    reach: Callable[[Start], Node], how: int, sshd: Start, mark: str, tmp_path: Path
) -> None:
    """A stopped viewer keeps all its pipes open: what ends the agent is the silence alone."""
    with viewer(marked(reach(sshd), mark, tmp_path)) as process:
        wait_until(lambda: len(agents(mark)) >= 2, "the agent has no child")
        process.send_signal(how)
        wait_until(lambda: not agents(mark), "an agent outlived its viewer")


@over_sshd
async def test_a_black_hole_is_given_up_from_both_sides(
    sshd: Start, watching: Any, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S12: what is sent vanishes, and neither side is told."""
    monkeypatch.setattr("gpuwatch.transport.supervise.LEAST_PATIENCE_S", 0.5)
    server = sshd()
    async with TcpProxy(server.port) as proxy:
        key = server.known_hosts.read_text().partition(" ")[2]
        server.known_hosts.write_text(f"[127.0.0.1]:{proxy.port} {key}")
        node = marked(server.node("n", port=proxy.port), mark, tmp_path)
        async with watching(node) as watch:
            await watch.sample("n", sequence=2)
            wait_until(lambda: len(agents(mark)) >= 2, "the agent has no child")
            proxy.flowing.clear()
            lost = await watch.link("n", "lost")
            assert lost.reason == "no word for 1 s"
            wait_until(lambda: not agents(mark), "an agent outlived its line")


def test_the_limit_of_silence_is_told_to_every_agent() -> None:
    assert agent_config(Node("n", "h"), 1.0)["silence_s"] == 30
