"""The ways in which people tell ssh how to reach a host, each over a real sshd."""

import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from debian import needs
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Node, Ssh
from gpuwatch.transport.resolution import resolve
from gpuwatch.transport.settings import Target, settings_of
from sshd import NEEDS_SSHD, STRANGER, Sshd, processes_with, wait_until

SOURCE = Path(__file__).parents[2] / "src"
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
        ("ann@corp.example@bastion", Target("bastion", None, "ann@corp.example")),
        ("[2001:db8::28]:2222", Target("2001:db8::28", 2222)),
        ("2001:db8::28", Target("2001:db8::28")),
        ("[fe80::1%eth0]:2222", Target("fe80::1%eth0", 2222)),
        ("ssh://ann@bastion:2222/", Target("bastion", 2222, "ann")),
    ],
)
def test_s36_s37_s43_a_bastion_is_read_as_ssh_reads_it(text: str, target: Target) -> None:
    assert Target.parse(text) == target
    assert Target.parse(str(target)) == target


@given(st.text(max_size=30))
def test_no_name_of_a_bastion_makes_it_fail(text: str) -> None:
    assert isinstance(Target.parse(text), Target)


@given(st.text(max_size=60))
@example("/home/o'brien/known_hosts")
@example(".")
@example("~0")
def test_no_value_that_ssh_prints_makes_it_fail(value: str) -> None:
    for keyword in ("hostname", "user", "proxyjump", "proxycommand", "identityfile",
                    "identityagent", "userknownhostsfile", "addressfamily"):  # fmt: skip
        try:
            found = settings_of({keyword: [value]}, Target("gpu1"), Ssh())
        except LinkError:
            continue
        assert found.host


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], Path]:
    """Write an ssh configuration."""

    def written(text: str) -> Path:
        file = tmp_path / "config"
        file.write_text(text)
        return file

    return written


Config = Callable[[str], Path]


@CLIENT
async def test_what_the_job_file_says_goes_before_the_configuration(config: Config) -> None:
    file = config(
        "Host gpu*\n HostName %h.cluster\n Port 2222\n User bob\n ProxyJump gate,ann@door:23\n"
        " HostKeyAlias cluster\n IdentityAgent none\n UserKnownHostsFile /a /b\n"
        " GlobalKnownHostsFile none\n AddressFamily inet6\n StrictHostKeyChecking accept-new\n"
    )
    found = await resolve(Target("gpu001"), Ssh(config=file))
    assert (found.host, found.port, found.user) == ("gpu001.cluster", 2222, "bob")
    assert found.jumps == ("gate", "ann@door:23")
    assert (found.key_alias, found.agent) == ("cluster", None)
    assert found.known_hosts == (Path("/a"), Path("/b"))
    assert (found.family, found.accept_new) == (socket.AF_INET6, True)
    assert not (await resolve(Target("gpu001"), Ssh(config=file, host_keys="strict"))).accept_new
    told = await resolve(Target("gpu001", 24, "ann"), Ssh(config=file, jump="other"))
    assert (told.port, told.user, told.jumps) == (24, "ann", ("other",))


@CLIENT
async def test_tokens_and_variables_are_expanded(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYS", str(tmp_path))
    monkeypatch.setenv("MY_AGENT", "/run/agent")
    (tmp_path / "ann-10.0.0.1").touch()
    file = config(
        "Host gpu1\n HostName 10.0.0.1\n User ann\n ProxyCommand nc -x 100%% %r %n %h %p\n"
        " IdentityFile ${KEYS}/%r-%h\n IdentitiesOnly yes\n IdentityAgent $MY_AGENT\n"
    )
    found = await resolve(Target("gpu1"), Ssh(config=file))
    assert found.proxy_command == "nc -x 100% ann gpu1 10.0.0.1 22"
    assert found.identities == (tmp_path / "ann-10.0.0.1",)
    assert (found.identities_only, found.agent) == (True, "/run/agent")


@CLIENT
async def test_s01_what_asyncssh_cannot_parse_is_left_to_ssh(config: Config) -> None:
    file = config(
        "Host *\n ServerAliveInterval 1m # a note\nMatch localuser nobody final\n User bob\n"
        "Match originalhost gpu1\n User ann # another\n"
    )
    assert (await resolve(Target("gpu1"), Ssh(config=file))).user == "ann"


@CLIENT
async def test_s03_a_match_that_runs_a_command_decides_on_the_bastion(
    config: Config, tmp_path: Path
) -> None:
    on_site = tmp_path / "on-site"
    file = config(f'Match originalhost gpu1 !exec "test -e {on_site} && echo %h"\n ProxyJump out\n')
    assert (await resolve(Target("gpu1"), Ssh(config=file))).jumps == ("out",)
    on_site.touch()
    assert (await resolve(Target("gpu1"), Ssh(config=file))).jumps == ()


@CLIENT
async def test_s03_a_match_that_hangs_is_told_and_ended(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.resolution.ANSWER_S", 0.3)
    mark = f"MARK={uuid.uuid4().hex}"
    file = config(f'Match exec "env {mark} sleep 60"\n User bob\n')
    with pytest.raises(LinkError, match=r"`ssh -G gpu1` did not answer in 0 s") as caught:
        await resolve(Target("gpu1"), Ssh(config=file))
    assert caught.value.hint == "a `Match exec` of the ssh configuration may hang"
    wait_until(lambda: not processes_with(mark), "what the Match ran is left")


async def test_a_configuration_that_others_can_write_runs_nothing(
    config: Config, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    file = config(f'Match exec "touch {marker}"\n User bob\n')
    for mode, owner in ((0o666, 0), (0o644, STRANGER)):
        file.chmod(mode)
        os.chown(file, owner, owner)
        with pytest.raises(LinkError, match=f"others can write to {file}"):
            await resolve(Target("gpu1"), Ssh(config=file))
    assert not marker.exists()


@CLIENT
async def test_a_configuration_that_ssh_refuses_is_told(config: Config) -> None:
    file = config("Host *\n NoSuchThing yes\n")
    with pytest.raises(LinkError, match="config: line 2: Bad configuration option") as caught:
        await resolve(Target("gpu1"), Ssh(config=file))
    assert not caught.value.heals


@CLIENT
@pytest.mark.parametrize(
    "option", ["RevokedHostKeys", "KnownHostsCommand", "ProxyUseFdpass", "BindInterface"]
)
async def test_what_only_ssh_follows_is_left_to_it(option: str, config: Config) -> None:
    """A host whose key was revoked in a way that is not understood here is not logged in to."""
    value = "yes" if option == "ProxyUseFdpass" else "/bin/true"
    with pytest.raises(LinkError, match=f"{option} is followed by ssh alone") as caught:
        await resolve(Target("gpu1"), Ssh(config=config(f"{option} {value}\n")))
    assert caught.value.hint == "set ssh.transport: openssh"


@pytest.mark.parametrize(
    ("host", "user"),
    [("-oProxyCommand=x", None), ("a;touch x", None), ("a b", None), ("gpu1", "$(x)"),
     ("gpu1", "-x"), ("gpu1", "a`x`"), ("gpu1", "ann\\")],
)  # fmt: skip
async def test_a_name_that_a_command_would_take_for_more_is_refused(
    host: str, user: str | None
) -> None:
    with pytest.raises(LinkError, match=r"is no (host|user) name"):
        await resolve(Target(host, user=user), Ssh(config=Path("/dev/null")))


@CLIENT
@pytest.mark.parametrize("user", ["CORP\\alice", "ann@corp.example", "proxy:gpu"])
async def test_s36_s37_a_user_is_taken_as_written(user: str) -> None:
    found = await resolve(Target("gpu1", user=user), Ssh(config=Path("/dev/null")))
    assert found.user == user


RESOLVE_AT_HOME = """
import asyncio
from gpuwatch.transport.node import Node, Ssh
from gpuwatch.transport.resolution import resolve
from gpuwatch.transport.settings import Target, settings_of
found = asyncio.run(resolve(Target("gpu1"), Ssh()))
print(found.host, found.known_hosts[0])
"""


@over_sshd
def test_s05_an_include_is_relative_to_the_folder_of_ssh(tmp_path: Path) -> None:
    folder = tmp_path / ".ssh"
    (folder / "conf.d").mkdir(parents=True)
    (folder / "config").write_text("Include conf.d/*\n")
    (folder / "conf.d/hosts").write_text("Host gpu1\n HostName 10.0.0.7\n")
    (tmp_path / "passwd").write_text(f"root:x:0:0:root:{tmp_path}:/bin/sh\n")
    script = f'mount --bind {tmp_path}/passwd /etc/passwd; exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script, "sh", sys.executable, "-c", RESOLVE_AT_HOME],
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == f"10.0.0.7 {folder}/known_hosts\n"


@pytest.fixture
def without_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be on a machine that has no ssh program."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("without_ssh")
async def test_without_ssh_the_job_file_counts_first(config: Config, tmp_path: Path) -> None:
    (tmp_path / "id").touch()
    ssh = Ssh(
        identity=tmp_path / "id",
        jump="one, two:23",
        known_hosts=tmp_path / "known",
        config=config("Host gpu*\n User bob\n IdentitiesOnly yes\n HostName %h.cluster\n"),
    )
    found = await resolve(Target("gpu001", 2200), ssh)
    assert (found.host, found.port, found.user) == ("gpu001.cluster", 2200, "bob")
    assert (found.jumps, found.identities_only) == (("one", "two:23"), True)
    assert found.identities == (tmp_path / "id",)
    assert found.known_hosts == (tmp_path / "known",)


@pytest.mark.usefixtures("without_ssh")
async def test_s02_a_tag_is_understood_without_ssh(config: Config) -> None:
    file = config("Host gpu1\n Tag allow\nMatch tagged allow\n User ann\n ProxyCommand nc %h %p\n")
    found = await resolve(Target("gpu1"), Ssh(config=file))
    assert (found.user, found.proxy_command) == ("ann", "nc gpu1 22")


@pytest.mark.usefixtures("without_ssh")
async def test_s01_without_ssh_a_line_that_is_not_understood_is_told(config: Config) -> None:
    file = config("Host *\n User ann\nMatch weekday monday\n User bob\n")
    with pytest.raises(LinkError, match=f"{file} line 3: Invalid match condition") as caught:
        await resolve(Target("gpu1"), Ssh(config=file))
    assert not caught.value.heals


Dial = Callable[[Node], Any]


@over_sshd
async def test_the_names_of_a_configuration_file_count(
    usual: Sshd, dial: Dial, config: Config, tmp_path: Path
) -> None:
    """S25: a port that is not the usual one comes from there."""
    (tmp_path / "more").write_text(f"Host gpu001\n  HostName 127.0.0.1\n  Port {usual.port}\n")
    file = config(
        f"Include {tmp_path}/more\nMatch originalhost gpu* exec true\n  User root # a note\n"
        f"  ServerAliveInterval 1m\n  IdentityFile {usual.identity}\n"
    )
    node = usual.node(host="gpu001", port=None, user=None, identity=None, config=file)
    assert (await dial(node))[-1] == "shell"


@over_sshd
async def test_s40_a_proxy_command_needs_no_shell_of_the_user(
    usual: Sshd, dial: Dial, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/nonexistent/nu")
    file = config("ProxyCommand bash -c 'exec 3<>/dev/tcp/127.0.0.1/%p; cat <&3 & exec cat >&3'\n")
    assert (await dial(usual.node(config=file)))[-1] == "shell"


@over_sshd
async def test_a_proxy_command_that_ends_is_named(usual: Sshd, dial: Dial, config: Config) -> None:
    with pytest.raises(LinkError) as caught:
        await dial(usual.node(config=config("ProxyCommand sh -c 'echo no token >&2'\n")))
    place = f"127.0.0.1:{usual.port}"
    assert caught.value.what == f"the ProxyCommand towards {place} ended before the login: no token"
    assert caught.value.heals


@over_sshd
async def test_a_proxy_command_that_hangs_is_named(
    usual: Sshd, dial: Dial, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.login.CONNECT_S", 0.5)
    file = config("ProxyCommand sh -c 'echo no answer from the gate >&2; sleep 60'\n")
    with pytest.raises(LinkError) as caught:
        await dial(usual.node(config=file))
    assert caught.value.what == (
        f"the ProxyCommand towards 127.0.0.1:{usual.port} gave no SSH answer in time:"
        " no answer from the gate"
    )


@over_sshd
@pytest.mark.parametrize("host", ["a..b", ".", "x" * 300])
async def test_what_can_be_no_host_is_told(host: str, usual: Sshd, dial: Dial) -> None:
    with pytest.raises(LinkError, match="is no host name"):
        await dial(usual.node(host=host))


@over_sshd
async def test_s43_an_ipv6_address(sshd: Callable[..., Sshd], dial: Dial) -> None:
    server = sshd(options=["ListenAddress ::1"])
    key = server.known_hosts.read_text().split(" ", 1)[1]
    server.known_hosts.write_text(f"[::1]:{server.port} {key}")
    assert (await dial(server.node(host="::1")))[-1] == "shell"
    zoned = await resolve(Target("fe80::1%lo"), Ssh(config=Path("/dev/null")))
    assert (zoned.host, zoned.place) == ("fe80::1%lo", "[fe80::1%lo]:22")


@over_sshd
@pytest.mark.parametrize("user", ["CORP\\alice", "ann@corp.example"])
async def test_s37_such_a_user_logs_in(user: str, sshd: Callable[..., Sshd], dial: Dial) -> None:
    server = sshd(user=user)
    assert (await dial(server.node()))[-1] == "shell"
    assert f"Accepted publickey for {user}" in server.log.read_text().replace("\\\\", "\\")
