"""Who is let in: keys, the ssh-agent, certificates; and what is told else."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from debian import needs
from gpuwatch.model.event import Link
from gpuwatch.transport.bootstrap import new_marker
from gpuwatch.transport.keys import KeyFiles
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Node, Ssh
from gpuwatch.transport.resolution import resolve
from gpuwatch.transport.settings import Target
from gpuwatch.transport.ssh import Dialer
from sshd import NEEDS_SSHD, Sshd, children

pytestmark = [*NEEDS_SSHD, needs("ssh", "openssh-client")]
Dial = Callable[[Node], Any]
Start = Callable[..., Sshd]
Lay = Callable[..., Path]


def run(*words: str | Path, **env: str) -> None:
    subprocess.run(words, check=True, capture_output=True, env=env or None)


def key_of(server: Sshd) -> asyncssh.SSHKey:
    return asyncssh.read_private_key(str(server.identity))


class Agent:
    """A running ssh-agent that ssh and asyncssh find in the environment."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        words = ["ssh-agent", "-D", "-a", str(socket)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def add(self, *paths: Path) -> None:
        run("ssh-add", "-q", *paths, SSH_AUTH_SOCK=str(self.socket), PATH="/usr/bin:/bin")

    def stop(self) -> None:
        with self._process:
            self._process.terminate()
        self.socket.unlink(missing_ok=True)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    running = Agent(tmp_path / "agent")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(running.socket))
    yield running
    running.stop()


async def denied(dial: Dial, node: Node) -> LinkError:
    with pytest.raises(LinkError) as caught:
        await dial(node)
    assert caught.value.step == "host key"
    assert not caught.value.heals
    return caught.value


async def test_s25_a_key_that_is_not_authorized(usual: Sshd, dial: Dial, lay: Lay) -> None:
    stranger = lay("id_stranger")
    error = await denied(dial, usual.node(identity=stranger))
    assert error.what == "permission denied for root: publickey refused (id_stranger)"
    assert f"-i {stranger}" in error.hint


async def test_a_key_that_only_the_agent_can_unlock(
    usual: Sshd, dial: Dial, agent: Agent, lay: Lay
) -> None:
    agent.add(usual.identity)
    locked = lay("id_locked", key_of(usual), "pkcs8-pem", "secret")
    assert (await dial(usual.node(identity=locked)))[-1] == "shell"


async def test_a_key_of_which_only_the_public_half_is_here(
    usual: Sshd, dial: Dial, agent: Agent, tmp_path: Path
) -> None:
    agent.add(usual.identity)
    public = tmp_path / "id.pub"
    key_of(usual).write_public_key(str(public))
    assert (await dial(usual.node(identity=public)))[-1] == "shell"


async def test_s31_an_agent_full_of_keys_does_not_use_up_the_tries(
    sshd: Start, dial: Dial, agent: Agent, lay: Lay, tmp_path: Path
) -> None:
    """What the configuration names comes first; nothing else comes with IdentitiesOnly."""
    server = sshd(options=["MaxAuthTries 4"])
    agent.add(*(lay(f"id_{number}") for number in range(7)), server.identity)
    assert (await dial(server.node()))[-1] == "shell"

    def configured(name: str, text: str) -> Node:
        config = tmp_path / name
        config.write_text(text)
        return server.node(identity=None, config=config)

    only = f"IdentityFile {server.identity}\nIdentitiesOnly yes\n"
    assert (await dial(configured("only", only)))[-1] == "shell"
    assert (await dial(configured("none", only + "IdentityAgent none\n")))[-1] == "shell"
    wrong = configured("wrong", f"IdentityFile {tmp_path}/id_1\nIdentitiesOnly yes\n")
    assert (await denied(dial, wrong)).what.count(" of the ssh-agent") == 1
    error = await denied(dial, configured("all", "IdentityFile none\n"))
    assert "too many keys were tried" in error.what


@pytest.mark.parametrize("where", ["beside the key", "in the configuration"])
async def test_a_user_certificate(
    where: str, sshd: Start, dial: Dial, lay: Lay, tmp_path: Path, agent: Agent
) -> None:
    """For a key in a file, and for one that only the agent holds; one that is over is told."""
    authority, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    server = sshd(options=["TrustedUserCAKeys /mnt/authority.pub"])
    authority.write_public_key(str(server.folder / "authority.pub"))
    identity, config = lay("id", key), tmp_path / "config"
    if where == "beside the key":
        certificate = tmp_path / "id-cert.pub"
        config.write_text("")
    else:
        certificate = tmp_path / "certificate"
        config.write_text(f"CertificateFile {certificate}\n")
        agent.add(identity)
        key.write_public_key(str(identity))
    node = server.node(identity=identity, config=config)

    def certify(**when: int) -> None:
        signed = authority.generate_user_certificate(key, "ann", principals="root", **when)  # type: ignore[arg-type]
        certificate.write_bytes(signed.export_certificate())

    certify()
    assert (await dial(node))[-1] == "shell"
    certify(valid_after=1, valid_before=2)
    error = await denied(dial, node)
    assert error.what.endswith(f"; the certificate {certificate} is over or not yet valid")
    assert error.hint == f"get a new certificate in place of {certificate}"


async def test_a_locked_key_is_named_where_nobody_can_be_asked(
    usual: Sshd, dial: Dial, lay: Lay
) -> None:
    locked = lay("id_locked", key_of(usual), "openssh", "secret")
    error = await denied(dial, usual.node(identity=locked))
    assert error.what == "permission denied for root: there was no key to offer"
    assert error.hint == f"unlock the key with: ssh-add {locked}"


async def test_an_agent_that_is_gone_is_told_once_and_fails_no_more_logins(
    sshd: Start, watching: Any, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a tmux that outlives the login which it was started from."""
    monkeypatch.setattr("gpuwatch.transport.supervise.FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr("gpuwatch.transport.supervise.LONGEST_PAUSE_S", 0.1)
    server = sshd()
    agent.add(server.identity)
    config = tmp_path / "config"
    config.write_text("IdentityFile none\n")
    reason = (
        "permission denied for root: there was no key to offer;"
        f" the ssh-agent at {agent.socket} is gone"
    )

    def lost(event: Any) -> bool:
        return isinstance(event, Link) and event.state == "lost" and event.reason == reason

    async with watching(server.node(identity=None, config=config)) as watch:
        await watch.sample("node", sequence=0)
        agent.stop()
        server.drop_sessions()
        for _ in range(5):
            link = await watch.until(lost)
        assert "`ssh-add -l` lists your keys" in link.hint
        log = server.log.read_text()
        assert log.count("authenticating user root") == 1, log
        again = Agent(agent.socket)
        again.add(server.identity)
        try:
            await watch.sample("node", sequence=0)
        finally:
            again.stop()


async def test_an_agent_that_hangs_holds_up_no_login(
    usual: Sshd, dial: Dial, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.keys.AGENT_S", 0.1)
    agent._process.send_signal(19)
    try:
        assert (await dial(usual.node()))[-1] == "shell"
    finally:
        agent._process.send_signal(18)


async def test_nothing_of_the_viewer_is_forwarded(
    sshd: Start, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S44: no locale; and no agent, no display."""
    monkeypatch.setenv("LC_NUMERIC", "de_DE.UTF-8")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("DISPLAY", ":0")
    server = sshd(options=["AcceptEnv LANG LC_*", "AllowAgentForwarding yes", "X11Forwarding yes"])
    agent.add(server.identity)
    dialer = Dialer()
    pipe = await dialer.open(server.node(), new_marker(), lambda _: None)
    try:
        await pipe.read()
        [program] = python_of(server)
        names = set(program)
        assert program["LC_ALL"] == "C"
        assert not names & {"LANG", "LC_NUMERIC", "SSH_AUTH_SOCK", "DISPLAY"}
    finally:
        await pipe.close()
        await dialer.close()


def python_of(server: Sshd) -> list[dict[str, str]]:
    """Return the environment of what runs in the sessions of an sshd."""

    def leaves(pid: int) -> list[int]:
        below = children(pid)
        return [leaf for child in below for leaf in leaves(child)] if below else [pid]

    found = []
    for pid in leaves(server.pid):
        text = Path(f"/proc/{pid}/environ").read_text()
        found.append(dict(part.split("=", 1) for part in text.split("\0") if "=" in part))
    return [environment for environment in found if "LC_ALL" in environment]


async def test_the_order_of_keys_is_that_of_ssh(tmp_path: Path, lay: Lay, agent: Agent) -> None:
    """Named and in the agent, then the agent's others, then those that are only in files."""
    only_file, named, other = lay("id_file"), lay("id_named"), lay("id_other")
    agent.add(other, named)
    config = tmp_path / "config"
    config.write_text(f"IdentityFile {only_file}\nIdentityFile {named}\n")
    settings = await resolve(Target("gpu1"), Ssh(config=config))
    async with KeyFiles().offer(settings, None) as offer:
        keys = [pair.public_data for pair in offer.pairs]
    expected = [
        asyncssh.read_private_key(str(path)).public_data for path in (named, other, only_file)
    ]
    assert keys == expected
