"""Nodes behind bastions, and hosts that take only so many logins at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import asyncssh
import pytest

from debian import needs
from gpuwatch.model.event import Link, Sample
from gpuwatch.transport.bootstrap import new_marker
from gpuwatch.transport.link import LinkError, Pipe
from gpuwatch.transport.login_limits import LOGINS, LOGINS_A_HOST, Gates
from gpuwatch.transport.node import Node, Ssh
from gpuwatch.transport.ssh import Dialer
from sshd import NEEDS_SSHD, Sshd

pytestmark = [*NEEDS_SSHD, needs("ssh", "openssh-client")]
Dial = Callable[[Node], Any]
Start = Callable[..., Sshd]
Cluster = Callable[..., "Behind"]
VERBOSE = "LogLevel VERBOSE"


class Behind(NamedTuple):
    """Nodes, the hosts that they are on, and the bastion through which they are reached."""

    bastion: Sshd
    nodes: list[Node]
    hosts: list[Sshd]


@pytest.fixture
def cluster(sshd: Start) -> Cluster:
    """Start a bastion and some nodes that are reached through it."""

    def started(count: int, *options: str, on: int = 1) -> Behind:
        bastion = sshd(options=[VERBOSE, *options])
        hosts = [sshd(options=[VERBOSE]) for _ in range(on)]
        for host in hosts:
            host.admit(bastion)
        nodes = [
            hosts[number % on].node(
                f"n{number:02}",
                jump=f"root@127.0.0.1:{bastion.port}",
                identity=bastion.identity,
                known_hosts=bastion.known_hosts,
            )
            for number in range(count)
        ]
        return Behind(bastion, nodes, hosts)

    return started


def sessions(server: Sshd) -> int:
    return server.log.read_text().count("Starting session: command")


async def all_stream(watching: Any, nodes: list[Node]) -> None:
    """Wait until each node has sent a sample."""
    missing = {node.name for node in nodes}
    async with watching(*nodes) as watch:
        while missing:
            event = await watch.until(lambda e: isinstance(e, Sample) and e.node in missing)
            missing.discard(event.node)


async def test_s22_twelve_nodes_behind_a_bastion_that_takes_three_logins_at_once(
    cluster: Cluster, watching: Any
) -> None:
    """S20: one session a node, held as long as it is watched; none on the bastion."""
    bastion, nodes, hosts = cluster(12, "MaxStartups 3:30:10", on=2)
    began = time.monotonic()
    await all_stream(watching, nodes)
    assert time.monotonic() - began < 30
    assert bastion.logins() <= 2
    assert sessions(bastion) == 0
    assert sum(map(sessions, hosts)) == len(nodes)


async def test_s22_a_host_that_takes_few_logins_at_once_is_not_asked_for_more(
    sshd: Start, dial: Dial
) -> None:
    server = sshd(options=["MaxStartups 9:100:9", VERBOSE])
    nodes = [server.node(f"n{number}") for number in range(20)]
    steps = await asyncio.gather(*map(dial, nodes))
    assert all(reached[-1] == "shell" for reached in steps)
    assert "MaxStartups" not in server.log.read_text()


async def test_s23_a_host_that_refuses_early_is_told_and_tried_again(
    sshd: Start, watching: Any
) -> None:
    server = sshd(options=["MaxStartups 1:100:1"])
    async with watching(server.node()) as watch:
        async with only_place(server):
            link = await watch.link("node", "lost")
        assert link.reason == f"127.0.0.1:{server.port} closed the connection before the login"
        assert link.hint == "too many logins at once (MaxStartups), or a firewall"
        await watch.sample("node", sequence=0)


@asynccontextmanager
async def only_place(server: Sshd) -> AsyncIterator[None]:
    """Hold the one place that a server has for those who have not logged in yet."""
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            if (await reader.readline()).startswith(b"SSH-"):
                yield
                return
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def test_logins_are_few_at_once_at_one_place_and_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpuwatch.transport.login_limits.JITTER_S", 0.0)
    gates = Gates()
    inside: list[str] = []
    most = {"bastion": 0, "all": 0}

    async def login(number: int, *ways: str) -> None:
        async with gates.through(f"host{number}", *ways):
            inside.append(ways[0] if ways else "direct")
            most["bastion"] = max(most["bastion"], inside.count("bastion"))
            most["all"] = max(most["all"], len(inside))
            await asyncio.sleep(0.001)
            inside.remove(ways[0] if ways else "direct")

    behind = [login(number, "bastion") for number in range(30)]
    direct = [login(number) for number in range(100, 160)]
    await asyncio.gather(*behind, *direct)
    assert most == {"bastion": LOGINS_A_HOST, "all": LOGINS}


async def test_s06_two_bastions_with_ports_each_are_logged_in_to_once(
    sshd: Start, cluster: Cluster, dial: Dial
) -> None:
    inner, nodes, _ = cluster(3)
    outer = sshd()
    outer.admit(inner)
    jump = f"root@127.0.0.1:{outer.port},root@127.0.0.1:{inner.port}"
    way = [
        Node(node.name, node.host, node.port, node.user, ssh=Ssh(
            node.ssh.identity, jump, node.ssh.known_hosts, node.ssh.config
        ))
        for node in nodes
    ]  # fmt: skip
    steps = await asyncio.gather(*map(dial, way))
    assert all(reached[-1] == "shell" for reached in steps)
    assert (outer.logins(), inner.logins()) == (1, 1)


async def test_s07_a_bastion_that_has_a_bastion(
    sshd: Start, cluster: Cluster, dial: Dial, tmp_path: Path
) -> None:
    """One that serves directly and at the end of another way is still one connection each."""
    inner, [node, _], _ = cluster(2)
    outer = sshd()
    outer.admit(inner)
    config = tmp_path / "config"
    config.write_text(
        f"Host gpu*\n HostName 127.0.0.1\n Port {node.port}\n ProxyJump inner\n"
        f"Host inner\n HostName 127.0.0.1\n Port {inner.port}\n ProxyJump outer\n"
        f"Host outer\n HostName 127.0.0.1\n Port {outer.port}\n"
        "Host a\n ProxyJump b\nHost b\n ProxyJump a\n"
    )
    ssh = Ssh(inner.identity, None, inner.known_hosts, config)
    for name in ("gpu1", "gpu2"):
        assert (await dial(Node(name, name, ssh=ssh)))[-1] == "shell"
    assert (outer.logins(), inner.logins()) == (1, 1)
    with pytest.raises(LinkError, match="the bastions go through each other"):
        await dial(Node("a", "a", ssh=ssh))


async def test_a_bastion_that_is_down_is_named(usual: Sshd, dial: Dial) -> None:
    with pytest.raises(LinkError) as caught:
        await dial(usual.node(jump="root@127.0.0.1:1"))
    assert caught.value.what == "bastion root@127.0.0.1:1: connection refused by 127.0.0.1:1"
    assert caught.value.heals


async def test_a_bastion_that_denies_is_asked_once_for_all_nodes_behind_it(
    cluster: Cluster, dial: Dial
) -> None:
    bastion, nodes, _ = cluster(4)
    (bastion.folder / "authorized_keys").write_bytes(b"")
    for node in nodes:
        with pytest.raises(LinkError, match=r"^bastion root@.*: permission denied for root"):
            await dial(node)
    assert bastion.log.read_text().count("Failed publickey for root") == 1


async def test_a_bastion_that_forwards_nothing_is_told(cluster: Cluster, dial: Dial) -> None:
    bastion, [node], _ = cluster(1, "AllowTcpForwarding no")
    with pytest.raises(LinkError) as caught:
        await dial(node)
    assert caught.value.what == (f"the bastion cannot reach 127.0.0.1:{node.port}: open failed")
    assert "AllowTcpForwarding" in caught.value.hint
    assert bastion.logins() == 1


async def test_a_bastion_that_breaks_is_logged_in_to_once_again(
    cluster: Cluster, watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.supervise.FIRST_PAUSE_S", 0.1)
    bastion, nodes, _ = cluster(3)
    async with watching(*nodes) as watch:
        for node in nodes:
            await watch.sample(node.name)
        bastion.drop_sessions()
        lost, back = set(), set()

        def are_back(event: Any) -> bool:
            if isinstance(event, Link) and event.state == "lost":
                lost.add(event.node)
            if isinstance(event, Link) and event.state == "streaming" and event.node in lost:
                back.add(event.node)
            return len(back) == len(nodes)

        await watch.until(are_back)
    assert bastion.logins() == 2


async def test_s15_a_bastion_that_falls_silent_is_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.login.KEEPALIVE_S", 0.1)
    bastion, [node], _ = cluster(1)
    dialer = Dialer()
    pipe = await dialer.open(node, new_marker(), lambda _: None)
    try:
        bastion.freeze()
        async with asyncio.timeout(10):
            while await pipe.read():
                pass
        assert pipe.status is None
    finally:
        bastion.stop()
        await pipe.close()
        await dialer.close()


async def test_a_host_that_opens_no_session_is_told(sshd: Start, dial: Dial) -> None:
    with pytest.raises(LinkError) as caught:
        await dial(sshd(options=["MaxSessions 0"]).node())
    assert caught.value.what == "127.0.0.1 opens no session: open failed"
    assert "MaxSessions" in caught.value.hint


class Narrow(asyncssh.SSHServer):
    """A bastion that opens two channels a connection, as some gateways do."""

    connections: int

    def __init__(self) -> None:
        self.channels = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        Narrow.connections += 1

    def begin_auth(self, username: str) -> bool:
        return False

    def connection_requested(self, host: str, port: int, *_: Any) -> Any:
        if self.channels == 2:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, "no more")
        self.channels += 1
        return True


@asynccontextmanager
async def narrow(known_hosts: Path) -> AsyncIterator[str]:
    """Run such a bastion; give its name."""
    Narrow.connections = 0
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen("127.0.0.1", 0, server_factory=Narrow, server_host_keys=[key])
    line = key.export_public_key("openssh").decode()
    with known_hosts.open("a") as file:
        file.write(f"[127.0.0.1]:{server.get_port()} {line}")
    async with server:
        yield f"root@127.0.0.1:{server.get_port()}"


async def test_a_bastion_that_is_full_gets_a_further_connection(
    sshd: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.bastions.MOST", 3)
    server = sshd()
    dialer = Dialer()
    async with narrow(server.known_hosts) as bastion:
        nodes = [server.node(f"n{number}", jump=bastion) for number in range(7)]
        opening: list[Awaitable[Pipe]] = [
            dialer.open(node, new_marker(), lambda _: None) for node in nodes
        ]
        pipes = await asyncio.gather(*opening, return_exceptions=True)
        try:
            [refused] = [pipe for pipe in pipes if isinstance(pipe, BaseException)]
            assert isinstance(refused, LinkError)
            assert refused.what == f"the bastion {bastion} opens no more channels: no more"
            assert "MaxSessions" in refused.hint
            assert Narrow.connections == 3
        finally:
            await asyncio.gather(*(pipe.close() for pipe in pipes if isinstance(pipe, Pipe)))
            await dialer.close()
