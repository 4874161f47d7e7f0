"""What keeps a node from streaming is told as what it is, and no other node suffers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpuwatch.transport.node import Node
from sshd import NEEDS_SSHD, Sshd, free_port

pytestmark = [*NEEDS_SSHD]
Start = Callable[..., Sshd]


class Told(NamedTuple):
    state: str
    step: str
    reason: str
    hint: str


async def told(watching: Any, node: Node) -> Told:
    async with watching(node) as watch:
        link = await watch.link(node.name, "lost", "refused")
    return Told(link.state, link.step, link.reason or "", link.hint or "")


async def test_nobody_listens(sshd: Start, watching: Any) -> None:
    well = sshd()
    async with watching(well.node("well"), well.node("down", port=free_port())) as watch:
        link = await watch.link("down", "lost")
        assert (link.step, link.reason) == (
            "resolve",
            f"connection refused by 127.0.0.1:{watch.live.nodes[1].port}",
        )
        assert link.hint == "check that sshd runs there, and the port"
        await watch.sample("well", sequence=1)


async def test_a_name_that_does_not_resolve(sshd: Start, watching: Any) -> None:
    link = await told(watching, sshd().node(host="no-such-host.invalid"))
    assert link.step == "resolve"
    assert link.reason.startswith("no-such-host.invalid does not resolve")


async def test_an_identity_that_is_missing(sshd: Start, watching: Any, tmp_path: Path) -> None:
    link = await told(watching, sshd().node(identity=tmp_path / "gone"))
    assert (link.state, link.hint) == ("refused", "correct ssh.identity")
    assert link.reason == f"identity {tmp_path / 'gone'}: No such file or directory"


async def test_s24_no_python_at_the_path_that_the_job_names(sshd: Start, watching: Any) -> None:
    well = sshd()
    async with watching(well.node("well"), well.node("none", python="/nonexistent")) as watch:
        link = await watch.link("none", "refused")
        assert (link.step, link.reason) == ("shell", "no python3: tried /nonexistent")
        assert link.hint == "set python: for this node in the job file"
        await watch.sample("well", sequence=1)


async def test_s24_no_python_at_all(sshd: Start, watching: Any) -> None:
    server = sshd(hidden=["/usr/bin/python3"], options=["SetEnv PATH=/nonexistent"])
    link = await told(watching, server.node())
    assert link.reason == (
        "no python3: tried /usr/bin/python3, /usr/libexec/platform-python, python3 and python on PATH"
    )


async def test_a_login_shell_that_lets_nobody_in(sshd: Start, watching: Any) -> None:
    link = await told(watching, sshd(shell="/usr/sbin/nologin").node())
    assert (link.state, link.step) == ("refused", "shell")
    assert link.reason == (
        "the login shell ended with status 1 before python started;"
        " it printed: This account is currently not available."
    )


async def test_a_server_that_is_frozen(
    sshd: Start, watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.login.CONNECT_S", 0.3)
    server = sshd()
    server.freeze()
    link = await told(watching, server.node())
    assert (link.state, link.step) == ("lost", "connect")
    assert link.reason == f"connected, but no SSH answer from 127.0.0.1:{server.port} in time"


async def test_a_server_that_closes_before_the_login(watching: Any, sshd: Start) -> None:
    async def close_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    node = sshd().node(port=free_port())
    async with await asyncio.start_server(close_at_once, "127.0.0.1", node.port):
        link = await told(watching, node)
    assert link.state == "lost"
    assert link.reason == f"127.0.0.1:{node.port} closed the connection before the login"
    assert link.hint == "too many logins at once (MaxStartups), or a firewall"
