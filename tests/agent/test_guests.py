"""Agents that are on a node already: told by user and age; their children and other programs are not."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.kit import read
from gpuwatch.agent.host import Host
from gpuwatch.agent.sources.guests import AGAIN_S, SIGN, Reader
from gpuwatch.feed.live import Live
from gpuwatch.model.event import Fault, Sample
from gpuwatch.transport.bootstrap import FLAGS, PROGRAM
from gpuwatch.transport.node import Node

COMMAND = ["/usr/bin/python3", *FLAGS, "-c", PROGRAM, "0123456789abcdef"]


def process(root: Path, pid: int, command: list[str], *, parent: int, uid: int, start: int) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes("\0".join(command).encode())
    rest = f"S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0"
    (folder / "stat").write_text(f"{pid} (python3 (x)) {rest}\n")
    (folder / "status").write_text(f"Name:\tpython3\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Two agents, one with a child; a shell; and somebody who looks for agents by name."""
    process(tmp_path, 7000070, COMMAND, parent=1, uid=1001, start=940_00)
    process(tmp_path, 7000071, COMMAND, parent=7000070, uid=1001, start=950_00)
    process(tmp_path, 7000080, COMMAND, parent=5, uid=7, start=400_00)
    process(tmp_path, 7000090, ["bash"], parent=1, uid=1001, start=1)
    (tmp_path / "proc/uptime").write_text("1000.00 1.00")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("ann:x:1001:1001::/home/ann:/bin/sh\n")
    return tmp_path


def test_whose_they_are_and_for_how_long(node: Path) -> None:
    assert SIGN.decode() in PROGRAM
    assert read("guests", Host(str(node))).rows == [
        ("guest", (7, 7000080, None), (600,)), ("guest", (1001, 7000070, "ann"), (60,)),
    ]  # fmt: skip


def test_they_are_looked_for_seldom(node: Path) -> None:
    now = [0.0]
    reader = Reader(Host(str(node)), lambda: now[0])
    assert len(reader.read().rows) == 2
    process(node, 7000100, COMMAND, parent=1, uid=7, start=1)
    now[0] = AGAIN_S - 1
    assert len(reader.read().rows) == 2
    now[0] = AGAIN_S
    assert len(reader.read().rows) == 3


def test_where_processes_are_hidden_nothing_is_told(node: Path) -> None:
    for name in ("cmdline", "stat", "status"):
        (node / "proc/7000080" / name).unlink()
    (node / "proc/uptime").unlink()
    (node / "etc/passwd").unlink()
    assert read("guests", Host(str(node))).rows == [("guest", (1001, 7000070, None), (0,))]


@given(st.binary(max_size=60), st.binary(max_size=60))
@settings(max_examples=40, deadline=None)
def test_no_bytes_raise(
    tmp_path_factory: pytest.TempPathFactory, stat: bytes, status: bytes
) -> None:
    root = tmp_path_factory.mktemp("any")
    process(root, 7000070, COMMAND, parent=1, uid=1, start=1)
    (root / "proc/7000070/stat").write_bytes(stat)
    (root / "proc/7000070/status").write_bytes(b"Uid:" + status)
    assert len(read("guests", Host(str(root))).rows) <= 1


async def test_whoever_comes_second_is_told_of_the_first() -> None:
    first, second = (Live([Node("here", "h", transport="local")], 0.2) for _ in range(2))
    async for event in first:
        if isinstance(event, Sample):
            break
    told = ""
    async for event in second:
        if isinstance(event, Fault) and "watches this node already" in event.text:
            told = event.text
        if isinstance(event, Sample) and event.sequence > 2:
            break
    await second.close()
    await first.close()
    assert "to look on, gpuwatch replay --follow" in told
