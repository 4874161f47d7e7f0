"""What outlives what: links that break come back, agents never outlive their viewer."""

import os
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.model.event import Fault, Hello, Link
from sshd import NEEDS_SSHD, Sshd, processes_with, wait_until

pytestmark = [*NEEDS_SSHD]
Start = Callable[..., Sshd]

SOURCE = Path(__file__).parents[2] / "src"
VIEWER = """
import asyncio, sys
from pathlib import Path
from gpuwatch.feed.live import Live
from gpuwatch.model.event import Sample
from gpuwatch.transport.node import Node, Ssh

async def main(port, folder, mark, silence):
    ssh = Ssh(Path(folder, "identity"), None, Path(folder, "known_hosts"), Path("/dev/null"))
    node = Node("n", "127.0.0.1", int(port), "root", env={"MARK": mark}, ssh=ssh,
                silence_s=float(silence))
    async for event in Live([node], 0.2):
        if isinstance(event, Sample):
            print(event.sequence, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def viewer(server: Sshd, mark: str, silence_s: float) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a viewer in a process of its own, and let it see three samples."""
    words = [str(server.port), str(server.folder), mark, str(silence_s)]
    process = subprocess.Popen(
        [sys.executable, "-c", VIEWER, *words],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    with process:
        assert process.stdout is not None
        try:
            while process.stdout.readline() != b"2\n":
                assert process.poll() is None
            yield process
        finally:
            process.kill()


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


def alive(mark: str) -> list[int]:
    return processes_with(f"MARK={mark}")


async def test_a_link_that_breaks_comes_back_in_the_same_boot(
    sshd: Start, watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.supervise.FIRST_PAUSE_S", 0.1)
    server = sshd()
    async with watching(server.node()) as watch:
        before = await watch.sample("node", sequence=2)
        server.drop_sessions()
        lost = await watch.link("node", "lost")
        again = await watch.link("node", "connecting")
        after = await watch.sample("node", sequence=2)
    assert (lost.step, lost.reason) == ("streaming", "the connection closed")
    assert again.reason == lost.reason
    assert after.boot_id == before.boot_id
    assert after.agent_id != before.agent_id
    assert sum(isinstance(event, Hello) for event in watch.events) == 2


async def test_a_node_that_refuses_after_it_streamed_is_tried_again(
    sshd: Start, watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.supervise.FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr("gpuwatch.transport.login_limits.HELD_S", 0.5)
    server = sshd()
    authorized = server.folder / "authorized_keys"
    keys = authorized.read_bytes()
    async with watching(server.node()) as watch:
        await watch.sample("node", sequence=1)
        authorized.write_bytes(b"")
        server.drop_sessions()
        denied = await watch.until(
            lambda e: isinstance(e, Link) and "permission denied" in (e.reason or "")
        )
        assert denied.state == "lost"
        authorized.write_bytes(keys)
        await watch.sample("node", sequence=1)


async def test_a_node_that_was_refused_is_tried_again_when_asked(
    sshd: Start, watching: Any
) -> None:
    """Refused it stays refused, without another login, until a person has done something about it."""
    server, other = sshd(), sshd()
    authorized = server.folder / "authorized_keys"
    keys = authorized.read_bytes()
    authorized.write_bytes(b"")
    async with watching(server.node("shut"), other.node("well")) as watch:
        refused = await watch.link("shut", "refused")
        assert "permission denied" in refused.reason
        await watch.sample("well", sequence=1)
        logins = server.log.read_text().count("Failed publickey")
        authorized.write_bytes(keys)
        await watch.sample("well", sequence=4)
        assert server.log.read_text().count("Failed publickey") == logins
        assert watch.live.retry() == 1
        await watch.sample("shut", sequence=1)
        assert watch.live.retry() == 0


async def test_a_node_that_freezes_is_lost_and_found(
    sshd: Start, watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.supervise.LEAST_PATIENCE_S", 0.5)
    monkeypatch.setattr("gpuwatch.transport.supervise.FIRST_PAUSE_S", 0.1)
    server = sshd()
    other = sshd()
    async with watching(server.node("ice"), other.node("well")) as watch:
        await watch.sample("ice", sequence=1)
        await watch.sample("well", sequence=1)
        server.freeze()
        lost = await watch.link("ice", "lost")
        assert (lost.step, lost.reason) == ("streaming", "no word for 1 s")
        await watch.sample("well")
        server.freeze(signal.SIGCONT)
        await watch.sample("ice", sequence=1)
    assert not any(
        isinstance(e, Link) and (e.node, e.state) == ("well", "lost") for e in watch.events
    )


async def test_closing_the_feed_ends_the_agents(sshd: Start, watching: Any, mark: str) -> None:
    async with watching(sshd().node(env={"MARK": mark})) as watch:
        await watch.sample("node", sequence=1)
        assert alive(mark)
    wait_until(lambda: not alive(mark), "an agent outlived its feed")


def test_a_killed_viewer_leaves_no_agent(sshd: Start, mark: str) -> None:
    with viewer(sshd(), mark, 30) as process:
        assert alive(mark)
        process.kill()
        wait_until(lambda: not alive(mark), "an agent outlived its viewer")


def test_a_viewer_that_falls_silent_leaves_no_agent(sshd: Start, mark: str) -> None:
    """A frozen viewer keeps its connections: what ends the agent is the silence alone."""
    with viewer(sshd(), mark, silence_s=1) as process:
        assert alive(mark)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: not alive(mark), "an agent outlived its viewer")


async def test_nothing_is_written_on_the_node(sshd: Start, watching: Any, mark: str) -> None:
    server = sshd(files={".profile": b"# mine\n"})
    before = snapshot(server)
    async with watching(server.node(env={"MARK": mark})) as watch:
        await watch.sample("node", sequence=3)
        assert snapshot(server) == before
        held = open_files(alive(mark))
    wait_until(lambda: not alive(mark), "the agent is still there")
    assert snapshot(server) == before
    assert not [path for path in held if path.startswith(("/mnt", "/tmp", "/var", "/root"))]


def open_files(pids: list[int]) -> list[str]:
    return [str(fd.readlink()) for pid in pids for fd in Path(f"/proc/{pid}/fd").iterdir()]


def snapshot(server: Sshd) -> dict[str, tuple[int, int, int]]:
    """Return mode, size and time of change of all that the agent could write to."""
    found = {}
    for top in ("mnt/home", "tmp", "var/tmp"):
        for folder, _, files in os.walk(server.root / top):
            for path in (folder, *(f"{folder}/{name}" for name in files)):
                state = os.lstat(path)
                found[path] = stat.S_IMODE(state.st_mode), state.st_size, state.st_ctime_ns
    return found


async def test_the_agent_says_why_it_ends(sshd: Start, watching: Any, mark: str) -> None:
    async with watching(sshd().node(env={"MARK": mark})) as watch:
        await watch.sample("node", sequence=1)
        for pid in alive(mark):
            os.kill(pid, signal.SIGTERM)
        fault = await watch.until(lambda e: isinstance(e, Fault) and e.source == "agent")
        assert fault.text == "the agent ends: signal SIGTERM"
        await watch.link("node", "lost")
