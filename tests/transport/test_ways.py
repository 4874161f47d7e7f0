"""Ways to a node through a program of this machine: real children, the real ssh and sshd."""

import asyncio
import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debian import needs
from gpuwatch.errors import InputError
from gpuwatch.model.event import Link, Sample
from gpuwatch.transport import kubectl, openssh, srun
from gpuwatch.transport.bootstrap import start_command
from gpuwatch.transport.link import Pipe
from gpuwatch.transport.node import Node, Ssh
from gpuwatch.transport.transports import Transports
from sshd import NEEDS_SSHD, Sshd, processes_with, wait_until

Start = Callable[..., Sshd]
HERE = ("/bin/sh", "-c", "{agent}")
RELAY = """\
#!/bin/sh
printf '%s\\n' "$@" > "$0.words"
while [ "$1" != /bin/sh ]; do shift; done
exec "$@"
"""


def over_sshd(test: Any) -> Any:
    for mark in (*NEEDS_SSHD, needs("ssh", "openssh-client")):
        test = mark(test)
    return test


def program(folder: Path, name: str, text: str) -> Path:
    """Write a program, and return its path."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose programs are found before all others."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def ran(*words: str | Path) -> None:
    """Run a program, and wait until it has ended well."""
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
    assert await process.wait() == 0


async def told(watching: Any, node: Node) -> Link:
    async with watching(node) as watch:
        link: Link = await watch.link(node.name, "lost", "refused")
    return link


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (Node("n", "gpu001", transport="srun", slurm_id="123456"),
         ["--jobid=123456", "--overlap", "-N1", "-n1", "-w", "gpu001", "--unbuffered", "--chdir=/",
          "--export=NONE", "--mpi=none"]),
        (Node("n", "worker-0", transport="kubectl"), ["exec", "--stdin", "worker-0", "--"]),
        (Node("n", "x", transport="kubectl", pod="train/w-0", container="main"),
         ["exec", "--stdin", "--namespace=train", "--container=main", "w-0", "--"]),
    ],
)  # fmt: skip
async def test_srun_and_kubectl_carry_the_stream(
    node: Node, words: list[str], on_path: Path, watching: Any
) -> None:
    relay = program(on_path, node.transport, RELAY)
    async with watching(node) as watch:
        await watch.sample("n", sequence=2)
    given_words = relay.with_suffix(".words").read_text().splitlines()
    assert given_words[:-1] == [*words, "/bin/sh", "-c"]
    marker = given_words[-1].rpartition(" ")[2].rstrip('"')
    assert given_words[-1] == start_command(node, marker)


async def test_any_command_reaches_a_node_and_leaves_no_process(watching: Any) -> None:
    """What it started in the background ends with it, as does what it left behind."""
    mark = f"MARK={uuid.uuid4().hex}"
    words = ("env", mark, "AT={node}", "sh", "-c", 'sleep 1000 & exec sh -c "$0"', "{agent}")
    node = Node("n", "gpu001", transport="command", command=words, env={"X": "1"})
    async with watching(node) as watch:
        sample = await watch.sample("n", sequence=2)
        assert sample.rows("node")
        pids = processes_with(mark)
        assert len(pids) >= 2
        assert set(pids) & set(processes_with("AT=gpu001")) & set(processes_with("X=1"))
    wait_until(lambda: not processes_with(mark), "a process is left")


async def test_a_stuck_command_is_killed_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpuwatch.transport.transports.SETTLED_S", 0.1)
    monkeypatch.setattr("gpuwatch.transport.child.GRACE_S", 0.1)
    mark = f"MARK={uuid.uuid4().hex}"
    words = ("env", mark, "sh", "-c", "trap '' TERM HUP PIPE; sleep 1000; : {agent}", "{agent}")
    transports = Transports()
    pipe = await transports.open(Node("n", "h", transport="command", command=words), "m", print)
    wait_until(lambda: len(processes_with(mark)) == 2, "the command did not start")
    await pipe.close()
    wait_until(lambda: not processes_with(mark), "a process is left")


async def test_a_command_that_is_missing_is_told_and_given_up(watching: Any) -> None:
    link = await told(watching, Node("n", "h", transport="command", command=("/no/x", "{agent}")))
    assert (link.state, link.reason) == (
        "refused", "/no/x cannot be run: No such file or directory",
    )  # fmt: skip


async def test_a_flood_on_stderr_is_bounded_and_its_end_is_told(watching: Any) -> None:
    words = ("sh", "-c", "yes no such container | head -c 3000000 >&2; printf '\\n\\033[31mgone\\n' >&2; exit 7", "{agent}")  # fmt: skip
    link = await told(watching, Node("n", "h", transport="command", command=words))
    assert link.reason == "sh ended with status 7: ␛[31mgone"
    pipe = await Transports().open(
        Node("n", "h", transport="command", command=words), "marker", print
    )
    assert await pipe.read() == b""
    assert len(pipe.errors) <= Pipe.ERROR_CAPACITY
    await pipe.close()


async def test_where_there_is_no_python_it_is_the_interpreter_that_is_told(watching: Any) -> None:
    node = Node("n", "h", python="/none/python3", transport="command", command=HERE)
    link = await told(watching, node)
    assert (link.reason, link.hint) == (
        "no python3: tried /none/python3", "set python: for this node in the job file",
    )  # fmt: skip


async def test_few_programs_log_in_at_once(
    watching: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S22: each counts those that started before it and were not let in yet."""
    monkeypatch.setattr("gpuwatch.transport.transports.SETTLED_S", 20.0)
    monkeypatch.setattr("gpuwatch.transport.transports.STARTS", 3)
    script = (
        'cd "$0"; mkdir waits; : > waits/$$; ls waits | wc -l >> seen; '
        'while [ $(cat seen | wc -l) -lt 3 ]; do sleep 0.02; done; rm waits/$$; exec sh -c "$1"'
    )
    words = ("sh", "-c", script, str(tmp_path), "{agent}")
    nodes = [Node(f"n{i}", "h", transport="command", command=words) for i in range(6)]
    async with watching(*nodes, interval_s=1.0) as watch:
        missing = {node.name for node in nodes}
        while missing:
            sample = await watch.until(lambda e: isinstance(e, Sample) and e.node in missing)
            missing.discard(sample.node)
    seen = [int(text) for text in (tmp_path / "seen").read_text().split()]
    assert len(seen) == 6
    assert max(seen) == 3


@pytest.mark.parametrize(
    ("transport", "errors", "reason", "state"),
    [
        ("srun", "srun: error: Unable to confirm allocation for job 1: Invalid job id specified",
         "srun: Unable to confirm allocation for job 1: Invalid job id specified", "refused"),
        ("srun", "srun: error: Unable to create step for job 1: Requested nodes are busy",
         "srun: Unable to create step for job 1: Requested nodes are busy", "lost"),
        ("kubectl", 'Error from server (NotFound): pods "h" not found',
         'kubectl ended with status 1: Error from server (NotFound): pods "h" not found', "lost"),
        ("kubectl", 'Error from server (Forbidden): pods "h" is forbidden: User "u" cannot create',
         'kubectl: Error from server (Forbidden): pods "h" is forbidden: User "u" cannot create', "refused"),
        ("kubectl", "sh: 1: python: not found\ncommand terminated with exit code 127",
         "no python3: tried /usr/bin/python3, /usr/libexec/platform-python, python3 and python on PATH", "refused"),
    ],
)  # fmt: skip
async def test_what_srun_and_kubectl_complain_of_is_told(
    transport: Any, errors: str, reason: str, state: str, on_path: Path, watching: Any
) -> None:
    status = 127 if "127" in errors else 1
    program(on_path, transport, f"#!/bin/sh\ncat >&2 <<'END'\n{errors}\nEND\nexit {status}\n")
    link = await told(watching, Node("n", "h", transport=transport, slurm_id="1"))
    assert (link.state, link.reason) == (state, reason)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def openssh_node(server: Sshd, **changes: Any) -> Node:
    """Return a node that the system's ssh reaches by a configuration of its own."""
    return replace(server.node(), transport="openssh", **changes)


@over_sshd
async def test_openssh_logs_in_as_its_own_configuration_says(
    sshd: Start, watching: Any, tmp_path: Path, short: Path
) -> None:
    """A ControlMaster that a person has opened serves both nodes, and outlives them."""
    server = sshd()
    config = tmp_path / "config"
    config.write_text(
        f"Host gpu00*\n HostName 127.0.0.1\n Port {server.port}\n User root\n"
        f" IdentityFile {server.identity}\n UserKnownHostsFile {server.known_hosts}\n"
        f" ControlMaster auto\n ControlPath {short}/%C\n ControlPersist 60\n"
    )
    await ran("ssh", "-F", config, "-fN", "gpu001")
    ssh = Ssh(config=config)
    one, two = (Node(f"n{i}", "gpu001", transport="openssh", ssh=ssh) for i in (1, 2))
    async with watching(one) as watch:
        await watch.sample("n1", sequence=1)
    async with watching(two) as watch:
        await watch.sample("n2", sequence=1)
    await ran("ssh", "-F", config, "-O", "exit", "gpu001")
    assert server.logins() == 1
    async with watching(one) as watch:
        await watch.sample("n1", sequence=1)
        assert names_in(short) == [], "it became a master itself"
    assert server.logins() == 2


@over_sshd
async def test_what_keeps_openssh_out_is_told(sshd: Start, watching: Any, tmp_path: Path) -> None:
    server = sshd()
    login = f"-p {server.port} -l root 127.0.0.1"
    authorized = server.folder / "authorized_keys"
    keys = authorized.read_bytes()
    authorized.write_bytes(b"")
    link = await told(watching, openssh_node(server))
    assert (link.state, link.step) == ("refused", "host key")
    assert (link.reason or "").startswith("ssh: root@127.0.0.1: Permission denied (publickey")
    assert login in (link.hint or "")
    authorized.write_bytes(keys)

    known = server.known_hosts.read_text()
    server.known_hosts.write_text("")
    link = await told(watching, openssh_node(server))
    assert (link.state, link.step, link.reason) == ("refused", "connect", "unknown host key")

    server.stop()
    server.new_host_key()
    server.known_hosts.write_text(known)
    link = await told(watching, openssh_node(server))
    assert (link.state, link.step) == ("lost", "resolve")
    assert f"port {server.port}: Connection refused" in (link.reason or "")
    server.start()
    link = await told(watching, openssh_node(server))
    assert (link.state, link.reason) == ("refused", "the host key CHANGED")
    assert link.hint == f"if that is right: ssh-keygen -R '[127.0.0.1]:{server.port}'"


@over_sshd
@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("ProxyCommand sh -c 'echo no token for the gate >&2; exit 1'",
         "the ProxyCommand ended before the login: no token for the gate", "try: ssh"),
        ("ControlPath /tmp/" + "x" * 120, "ssh failed: ControlPath too long", "try: ssh"),
        ("Port 99999", "line 1: Bad port '99999'.", "correct the ssh configuration"),
        ("NoSuchThing yes", "line 1: Bad configuration option: nosuchthing", "correct the ssh"),
        ('Match exec "sleep 60"', "no python started within 1 s", "go the same way by hand"),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_a_configuration_of_openssh_is_told(
    text: str,
    reason: str,
    hint: str,
    watching: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpuwatch.transport.bootstrap.GREETING_S", 1.0)
    monkeypatch.setattr("gpuwatch.transport.transports.SETTLED_S", 0.1)
    config = tmp_path / "config"
    config.write_text(f"{text}\n")
    link = await told(watching, Node("n", "h", transport="openssh", ssh=Ssh(config=config)))
    assert reason in (link.reason or "")
    assert (link.hint or "").startswith(hint)


@over_sshd
@pytest.mark.parametrize("left", ["a file", "a socket that nobody serves"])
async def test_a_control_path_that_is_stale_is_passed_over(
    left: str, usual: Sshd, watching: Any, tmp_path: Path, short: Path
) -> None:
    path, config = short / "control", tmp_path / "config"
    with socket.socket(socket.AF_UNIX) as master:
        path.touch() if left == "a file" else master.bind(str(path))
    config.write_text(f"ControlMaster auto\nControlPath {path}\n")
    node = usual.node("n", config=config)
    async with watching(replace(node, transport="openssh")) as watch:
        await watch.sample("n")


@pytest.mark.parametrize(
    "changes",
    [
        {"user": "$(touch x)"}, {"user": "a;b"}, {"user": "`a`"}, {"user": "-oProxyCommand=x"},
        {"ssh": Ssh(jump="-oProxyCommand=touch x")}, {"ssh": Ssh(jump="a,-oProxyCommand=x")},
        {"ssh": Ssh(jump="$(touch x)@bastion")}, {"ssh": Ssh(jump="a b")},
    ],
)  # fmt: skip
def test_no_login_of_a_job_file_becomes_a_command(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="cannot be passed to ssh"):
        openssh.line(Node("n", "h", transport="openssh", **changes), "m")


@pytest.mark.parametrize("user", ["ann", "CORP\\ann", "proxy:gpu", "ann@EXAMPLE.ORG"])
def test_s36_s37_users_of_every_kind_reach_openssh_as_they_are(user: str) -> None:
    ssh = Ssh(jump="ann@bastion:2222,[2001:db8::1]:22")
    words = openssh.line(Node("n", "::1", 2222, user, ssh=ssh), "m")
    assert words[words.index("-l") + 1] == user
    assert words[words.index("-J") + 1] == ssh.jump
    assert words[-3:-1] == ["--", "::1"]


@given(st.integers(-64, 255), st.text(max_size=200))
def test_whatever_a_program_writes_is_one_safe_line(status: int, errors: str) -> None:
    node = Node("n", "h")
    seen = [openssh.explained(node, status, errors), srun.explained(status, errors)]
    for error in (*seen, kubectl.explained(status, errors)):
        assert error is None or str(error).isprintable()


def test_the_ssh_of_this_machine_knows_every_option() -> None:
    if not shutil.which("ssh"):
        pytest.skip("needs the Debian package openssh-client")
    words = openssh.line(Node("n", "h", ssh=Ssh(config=Path("/dev/null"))), "m")
    assert os.system(f"ssh -G {openssh.login(Node('n', 'h'))[4:]} >/dev/null") == 0
    with_options = " ".join(f"'{word}'" for word in words[1:-3])
    assert os.system(f"ssh -G {with_options} h >/dev/null") == 0
