"""The ways in which people tell ssh how to reach a host, each over a real sshd."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from debian import needs
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Ssh
from gpuwatch.transport.settings import Settings, Target, resolve
from sshd import NEEDS_SSHD, Sshd, write_secret

Start = Callable[..., Sshd]
HOME = Path.home()
CLIENT = needs("ssh", "openssh-client")


def over_sshd(test: Any) -> Any:
    for mark in (*NEEDS_SSHD, CLIENT):
        test = mark(test)
    return test


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("bastion", Target("bastion")),
        ("ann@bastion:2222", Target("bastion", 2222, "ann")),
        ("proxy:gpu@bastion:22", Target("bastion", 22, "proxy:gpu")),
        ("DOMAIN\\ann@bastion", Target("bastion", None, "DOMAIN\\ann")),
        ("[2001:db8::28]:2222", Target("2001:db8::28", 2222)),
        ("2001:db8::28", Target("2001:db8::28")),
        ("ssh://ann@bastion:2222/", Target("bastion", 2222, "ann")),
    ],
)
def test_a_bastion_is_read_as_ssh_reads_it(text: str, target: Target) -> None:
    assert Target.parse(text) == target


@given(st.text(max_size=30))
def test_no_name_of_a_bastion_makes_it_fail(text: str) -> None:
    assert isinstance(Target.parse(text), Target)


async def test_without_ssh_the_job_file_alone_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ssh = Ssh(identity=tmp_path / "id", jump="one, two:23", known_hosts=tmp_path / "known")
    assert await resolve(Target("gpu001", 2200, "ann"), ssh) == Settings(
        "gpu001",
        2200,
        "ann",
        jumps=("one", "two:23"),
        identities=(tmp_path / "id",),
        known_hosts=(tmp_path / "known",),
    )
    usual = await resolve(Target("gpu001"), Ssh())
    assert usual.port == 22
    assert usual.known_hosts[0] == HOME / ".ssh/known_hosts"


@CLIENT
async def test_what_the_job_file_says_goes_before_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "Host gpu*\n HostName %h.cluster\n Port 2222\n User bob\n ProxyJump gate,ann@door:23\n"
        " HostKeyAlias cluster\n IdentityAgent none\n UserKnownHostsFile /a /b\n"
        " GlobalKnownHostsFile none\n"
    )
    found = await resolve(Target("gpu001"), Ssh(config=config))
    assert (found.host, found.port, found.user) == ("gpu001.cluster", 2222, "bob")
    assert found.jumps == ("gate", "ann@door:23")
    assert (found.key_alias, found.agent) == ("cluster", None)
    assert found.known_hosts == (Path("/a"), Path("/b"))
    told = await resolve(Target("gpu001", 24, "ann"), Ssh(config=config, jump="other"))
    assert (told.port, told.user, told.jumps) == (24, "ann", ("other",))


@CLIENT
async def test_tokens_of_a_proxy_command_are_expanded(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "Host gpu1\n HostName 10.0.0.1\n User ann\n ProxyCommand nc -x 100%% %r %n %h %p\n"
    )
    found = await resolve(Target("gpu1"), Ssh(config=config))
    assert found.proxy_command == "nc -x 100% ann gpu1 10.0.0.1 22"


@CLIENT
async def test_a_configuration_that_ssh_refuses_is_told(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n NoSuchThing yes\n")
    with pytest.raises(LinkError, match="config: line 2: Bad configuration option") as caught:
        await resolve(Target("gpu1"), Ssh(config=config))
    assert not caught.value.heals


@CLIENT
async def test_a_host_that_looks_like_an_option_is_none(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with pytest.raises(LinkError):
        await resolve(Target(f"-oProxyCommand=touch {marker}"), Ssh(config=Path("/dev/null")))
    assert not marker.exists()


def run(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True)


async def streams(watching: Any, server: Sshd, **changes: Any) -> None:
    async with watching(server.node(**changes)) as watch:
        await watch.sample("node")


@over_sshd
async def test_a_proxy_command_carries_the_link(sshd: Start, watching: Any, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "ProxyCommand bash -c 'exec 3<>/dev/tcp/127.0.0.1/%p; cat <&3 & exec cat >&3'\n"
    )
    await streams(watching, sshd(), config=config)


@over_sshd
async def test_a_proxy_command_that_ends_is_named(
    sshd: Start, watching: Any, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("ProxyCommand true\n")
    server = sshd()
    async with watching(server.node(config=config)) as watch:
        link = await watch.link("node", "lost")
    place = f"127.0.0.1:{server.port}"
    assert link.reason == f"the ProxyCommand towards {place} ended before the login"


@over_sshd
async def test_hashed_names_in_known_hosts(sshd: Start, watching: Any) -> None:
    server = sshd()
    run("ssh-keygen", "-q", "-H", "-f", server.known_hosts)
    assert b"127.0.0.1" not in server.known_hosts.read_bytes()
    await streams(watching, server)


@over_sshd
async def test_a_host_certificate(sshd: Start, watching: Any) -> None:
    server = sshd(options=["HostCertificate /mnt/host_key-cert.pub"])
    authority = asyncssh.generate_private_key("ssh-ed25519")
    certificate = authority.generate_host_certificate(server.host_key, "n", principals="127.0.0.1")
    server.stop()
    (server.folder / "host_key-cert.pub").write_bytes(certificate.export_certificate())
    public = authority.export_public_key("openssh").decode()
    server.known_hosts.write_text(f"@cert-authority [127.0.0.1]:* {public}")
    server.start()
    await streams(watching, server)


@over_sshd
async def test_a_revoked_host_key(sshd: Start, watching: Any) -> None:
    server = sshd()
    server.known_hosts.write_text("@revoked * " + server.known_hosts.read_text().split(" ", 1)[1])
    async with watching(server.node()) as watch:
        link = await watch.link("node", "refused")
    assert link.reason.startswith("Host key is revoked")


@over_sshd
async def test_the_name_of_a_key_in_known_hosts(sshd: Start, watching: Any, tmp_path: Path) -> None:
    server = sshd()
    server.known_hosts.write_text("cluster " + server.known_hosts.read_text().split(" ", 1)[1])
    config = tmp_path / "config"
    config.write_text("HostKeyAlias cluster\n")
    await streams(watching, server, config=config)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run an ssh-agent that ssh and asyncssh find in the environment."""
    socket = tmp_path / "agent"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", socket], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        yield socket
        process.terminate()


@over_sshd
async def test_a_key_that_only_the_agent_can_unlock(
    sshd: Start, watching: Any, agent: Path
) -> None:
    server = sshd()
    run("ssh-add", "-q", server.identity)
    key = asyncssh.read_private_key(str(server.identity))
    write_secret(server.identity, key.export_private_key("pkcs8-pem", "secret"))
    await streams(watching, server)


@over_sshd
async def test_a_user_certificate_beside_the_key(sshd: Start, watching: Any) -> None:
    server = sshd(options=["TrustedUserCAKeys /mnt/authority.pub"])
    authority = asyncssh.generate_private_key("ssh-ed25519")
    (server.folder / "authority.pub").write_bytes(authority.export_public_key("openssh"))
    (server.folder / "authorized_keys").write_bytes(b"")
    key = asyncssh.read_private_key(str(server.identity))
    certificate = authority.generate_user_certificate(key, "ann", principals="root")
    server.identity.with_name("identity-cert.pub").write_bytes(certificate.export_certificate())
    await streams(watching, server)
