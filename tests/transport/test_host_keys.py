"""Host keys: the same decision as OpenSSH's, and words for what is wrong with one."""

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from debian import needs
from gpuwatch.transport.known_hosts import KnownHosts, name_of
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Node
from sshd import NEEDS_SSHD, Sshd

Dial = Callable[[Node], Any]
Start = Callable[..., Sshd]
CLIENT = needs("ssh-keygen", "openssh-client")


def over_sshd(test: Any) -> Any:
    for mark in (*NEEDS_SSHD, CLIENT):
        test = mark(test)
    return test


def run(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True)


def public(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key("openssh").decode().split()[:2])


KEY = public(asyncssh.generate_private_key("ssh-ed25519"))
PORTS = (22, 2222)
HOSTS = ("gpu1", "gpu2", "gpu1.cluster", "10.0.0.1", "2001:db8::1", "GPU1")
PATTERNS = (
    "gpu1", "gpu1,10.0.0.1", "gpu*", "gpu?", "*.cluster", "[*.cluster]:2222", "[gpu1]:2222",
    "[10.0.0.1]:*", "!gpu2,gpu*", "gpu*,!gpu2", "*", "2001:db8::1", "[2001:db8::1]:2222", "GPU1",
    "10.0.0.0/8", "[gpu1]", "gpu[12]",
)  # fmt: skip


@CLIENT
def test_s10_a_line_is_for_the_hosts_that_openssh_takes_it_for(tmp_path: Path) -> None:
    """S09 as well: hashed lines, with and without a port; the oracle is `ssh-keygen -F`."""
    file = tmp_path / "known_hosts"
    lines = [f"{pattern} {KEY}" for pattern in PATTERNS]
    lines += [f"@cert-authority *.cluster {KEY}", f"@revoked gpu* {KEY} # why"]
    lines += [f"# gpu1 {KEY}", "", "  ", f"\t gpu1  {KEY} a comment"]
    hashed = tmp_path / "hashed"
    hashed.write_text(f"gpu1,gpu1.cluster {KEY}\n[gpu1]:2222 {KEY}\n")
    run("ssh-keygen", "-q", "-H", "-f", hashed)
    lines += hashed.read_text().splitlines()
    file.write_text("\n".join(lines) + "\n")
    known = KnownHosts([file])
    assert known.strange == []
    for host in HOSTS:
        for port in PORTS:
            name = name_of(host, port, None)
            said = subprocess.run(
                ["ssh-keygen", "-F", name, "-f", file], capture_output=True, text=True, check=False
            )
            expected = [
                int(line.split("line ")[1].split()[0])
                for line in said.stdout.splitlines()
                if line.startswith("# Host")
            ]
            assert sorted(entry.line or 0 for entry in known.find(name)) == expected, name


@given(st.lists(st.sampled_from([b" ", b"\n", b"@revoked", b"|1|", b"a|b", b"!", b"*", b"gpu1",
       b"ssh-ed25519", KEY.split()[1].encode(), b"\xff", b"AAAA", b"\r", b"[", b","])))  # fmt: skip
@settings(max_examples=60)
def test_no_file_of_known_hosts_makes_it_fail(pieces: list[bytes]) -> None:
    file = Path(f"/dev/shm/gpuwatch-test-{os.getpid()}")
    file.write_bytes(b"".join(pieces))
    try:
        known = KnownHosts([file])
        for entry in known.find("gpu1"):
            assert entry.key is not None
    finally:
        file.unlink()


def test_a_line_that_is_garbage_is_named_and_spoils_no_other(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(b"rubbish\n\xff\xfe\nhost 1024 35 123\n@new gpu1 x y\n|2|a|b " + KEY.encode()
                     + b"\nssh-ed25519 AAAA= x\ngpu1 " + KEY.encode() + b"\n")  # fmt: skip
    known = KnownHosts([file, tmp_path / "missing"])
    assert known.strange == [f"{file}:{number}" for number in range(1, 7)]
    assert [entry.place for entry in known.find("gpu1")] == [f"{file}:7"]


async def refused(dial: Dial, node: Node) -> LinkError:
    with pytest.raises(LinkError) as caught:
        await dial(node)
    assert caught.value.step == "connect"
    assert not caught.value.heals
    return caught.value


class Hosts:
    """A file of known hosts of a test's own, for an sshd that is not."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def keygen(self, *words: str) -> None:
        run("ssh-keygen", *words, "-f", self.path)

    @property
    def text(self) -> str:
        return self.path.read_text()


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path / "known_hosts")


@over_sshd
async def test_s11_an_unknown_host_key_is_told_while_others_run(
    usual: Sshd, watching: Any, hosts: Hosts
) -> None:
    hosts.write("rubbish\n")
    strange = usual.node("strange", known_hosts=hosts.path)
    async with watching(strange, usual.node("well")) as watch:
        link = await watch.link("strange", "refused")
        fingerprint = usual.host_key.get_fingerprint()
        assert fingerprint.startswith("SHA256:")
        assert link.reason == (
            f"unknown host key: [127.0.0.1]:{usual.port} shows {fingerprint};"
            f" not in {hosts.path} (not understood: {hosts.path}:1)"
        )
        assert f"UserKnownHostsFile={hosts.path} -p {usual.port}" in link.hint
        await watch.sample("well", sequence=0)


@over_sshd
@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256"])
async def test_a_changed_host_key_is_told_with_both_fingerprints(
    kind: str, usual: Sshd, dial: Dial, hosts: Hosts
) -> None:
    """Of whatever kind the old key was, whether or not new ones are accepted."""
    old = asyncssh.generate_private_key(kind)
    name = f"[127.0.0.1]:{usual.port}"
    hosts.write(f"# known\n{name} {public(old)}\n")
    for how in ("strict", "accept-new"):
        error = await refused(dial, usual.node(known_hosts=hosts.path, host_keys=how))
        assert error.what == (
            f"the host key CHANGED: {name} shows {usual.host_key.get_fingerprint()},"
            f" but {hosts.path}:2 has another ({old.get_fingerprint()})"
        )
        assert error.hint == (
            f"if the node was reinstalled: ssh-keygen -R '{name}' -f {hosts.path}"
        )
    hosts.keygen("-R", name)
    assert (await refused(dial, usual.node(known_hosts=hosts.path))).what.startswith("unknown")


@over_sshd
async def test_s09_a_key_that_is_known_without_the_port_counts_where_none_is_with_it(
    usual: Sshd, dial: Dial, hosts: Hosts
) -> None:
    """It lets in, but another key than that one is not a changed one, as ssh has it."""
    hosts.write(f"127.0.0.1 {public(usual.host_key)}\n")
    assert (await dial(usual.node(known_hosts=hosts.path)))[-1] == "shell"
    hosts.write(f"127.0.0.1 {KEY}\n")
    error = await refused(dial, usual.node(known_hosts=hosts.path))
    assert error.what.startswith("unknown host key: ")
    hosts.write(f"127.0.0.1 {public(usual.host_key)}\n[127.0.0.1]:{usual.port} {KEY}\n")
    error = await refused(dial, usual.node(known_hosts=hosts.path))
    assert error.what.startswith("the host key CHANGED: ")


@over_sshd
async def test_a_changed_key_behind_a_wildcard_is_mended_by_hand(
    usual: Sshd, dial: Dial, hosts: Hosts
) -> None:
    hosts.write(f"[127.0.0.*]:* {KEY}\n")
    error = await refused(dial, usual.node(known_hosts=hosts.path))
    assert error.hint == f"if the node was reinstalled: have {hosts.path}:1 corrected"


@over_sshd
async def test_the_kind_of_key_that_is_known_is_asked_for(
    sshd: Start, dial: Dial, hosts: Hosts
) -> None:
    """A host that has keys of several kinds, of which only one is known, is not a changed one."""
    server = sshd(options=["HostKey /mnt/another_key"])
    server.stop()
    another = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    (server.folder / "another_key").write_bytes(another.export_private_key("openssh"))
    (server.folder / "another_key").chmod(0o600)
    server.start()
    hosts.write(f"[127.0.0.1]:{server.port} {public(another)}\n")
    assert (await dial(server.node(known_hosts=hosts.path)))[-1] == "shell"


@over_sshd
async def test_a_new_host_key_is_accepted_where_asked_for_and_kept_in_our_own_file(
    usual: Sshd, dial: Dial, hosts: Hosts, own_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.write("rubbish\nbroken line without end")
    assert (await dial(usual.node(known_hosts=hosts.path, host_keys="accept-new")))[-1] == "shell"
    assert (await dial(usual.node(known_hosts=hosts.path)))[-1] == "shell"
    assert hosts.text == "rubbish\nbroken line without end"
    own = own_state / "known_hosts"
    assert own.read_text() == f"[127.0.0.1]:{usual.port} {public(usual.host_key)}\n"
    assert own.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    error = await refused(dial, usual.node(known_hosts=hosts.path, host_keys="accept-new"))
    assert error.what.endswith("cannot be written to /dev/null/gpuwatch/known_hosts")


@over_sshd
async def test_what_the_users_own_configuration_accepts_is_accepted(
    usual: Sshd, dial: Dial, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "StrictHostKeyChecking accept-new\nUserKnownHostsFile /dev/null\nGlobalKnownHostsFile none\n"
    )
    strict = usual.node(known_hosts=None, config=config, host_keys="strict")
    assert "unknown host key" in (await refused(dial, strict)).what
    assert (await dial(usual.node(known_hosts=None, config=config)))[-1] == "shell"


@over_sshd
async def test_s09_hashed_names(usual: Sshd, dial: Dial, hosts: Hosts) -> None:
    hosts.write(usual.known_hosts.read_text())
    hosts.keygen("-q", "-H")
    assert "127.0.0.1" not in hosts.text
    assert (await dial(usual.node(known_hosts=hosts.path)))[-1] == "shell"


@over_sshd
async def test_a_host_certificate(sshd: Start, dial: Dial) -> None:
    server = sshd(options=["HostCertificate /mnt/host_key-cert.pub"])
    authority = asyncssh.generate_private_key("ssh-ed25519")
    certificate = authority.generate_host_certificate(server.host_key, "n", principals="127.0.0.1")
    server.stop()
    (server.folder / "host_key-cert.pub").write_bytes(certificate.export_certificate())
    server.known_hosts.write_text(f"@cert-authority [127.0.0.1]:* {public(authority)}\n")
    server.start()
    assert (await dial(server.node()))[-1] == "shell"
    server.known_hosts.write_text(f"@cert-authority [127.0.0.1]:* {KEY}\n")
    error = await refused(dial, server.node())
    assert error.what == (
        f"the certificate of [127.0.0.1]:{server.port} is signed by {authority.get_fingerprint()},"
        f" not as {server.known_hosts}:1 says"
    )


@over_sshd
async def test_s10_a_revoked_host_key(usual: Sshd, dial: Dial, hosts: Hosts) -> None:
    trusted = usual.known_hosts.read_text()
    hosts.write(f"{trusted}@revoked * {public(usual.host_key)}\n")
    for how in ("strict", "accept-new"):
        error = await refused(dial, usual.node(known_hosts=hosts.path, host_keys=how))
        assert error.what.startswith(f"the host key is REVOKED by {hosts.path}:2: ")


@over_sshd
async def test_the_alias_of_a_host_key(
    usual: Sshd, dial: Dial, hosts: Hosts, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    hosts.write(f"cluster {public(usual.host_key)}\n")
    config.write_text("HostKeyAlias Cluster\n")
    assert (await dial(usual.node(known_hosts=hosts.path, config=config)))[-1] == "shell"


def test_thousands_of_known_hosts_are_read_at_once(tmp_path: Path) -> None:
    """Each login looks its host up: hashed lines are compared, plain ones are found by name."""
    file = tmp_path / "known_hosts"
    names = [f"gpu{number:04},10.0.{number // 256}.{number % 256}" for number in range(5000)]
    random.Random(1).shuffle(names)
    file.write_text("".join(f"{name} {KEY}\n" for name in names))
    known = KnownHosts([file])
    assert all(len(known.find(f"gpu{number:04}")) == 1 for number in range(5000))
