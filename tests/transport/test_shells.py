"""The start command is read alike by every login shell, past whatever its rc files print."""

import shutil
import string
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debian import needs
from gpuwatch.errors import InputError
from gpuwatch.model.event import Fault, Hello
from gpuwatch.transport import bootstrap
from gpuwatch.transport.bootstrap import new_marker, start_command
from gpuwatch.transport.node import Node
from sshd import NEEDS_SSHD, Sshd

SHELLS = [
    pytest.param(shell, marks=needs(shell, package))
    for shell, package in {
        "sh": "dash", "bash": "bash", "dash": "dash", "zsh": "zsh", "csh": "tcsh", "tcsh": "tcsh",
        "fish": "fish",
    }.items()
]  # fmt: skip
ENV = {"LD_LIBRARY_PATH": "/opt/a:/opt/b", "X": "a,b=c@d%e+f-g"}
SHOW = (
    b"import os;o.write(os.environ['LC_ALL']+' '+os.environ['LD_LIBRARY_PATH']+' '+os.environ['X'])"
)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("python", [None, "/usr/bin/python3", "python3"])
def test_s27_s29_each_shell_runs_the_start_command(shell: str, python: str | None) -> None:
    marker = new_marker()
    command = start_command(Node("n", "h", python=python, env=ENV), marker)
    done = subprocess.run(
        [shell, "-c", command],
        input=b"%d\n" % len(SHOW) + SHOW,
        capture_output=True,
        check=True,
        timeout=20,
    )
    assert done.stdout.decode() == f"{marker[::-1]}C {ENV['LD_LIBRARY_PATH']} {ENV['X']}"
    assert done.stderr == b""


@pytest.mark.parametrize("name", ["python3", "python"])
def test_k37_either_name_of_the_interpreter_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node may have `python3` alone, or `python` alone, and none of its distribution's own."""
    monkeypatch.setattr(bootstrap, "INTERPRETERS", ())
    (tmp_path / name).symlink_to(sys.executable)
    marker = new_marker()
    done = subprocess.run(
        ["/bin/sh", "-c", start_command(Node("n", "h", env=ENV), marker)],
        input=b"%d\n" % len(SHOW) + SHOW,
        capture_output=True,
        check=True,
        timeout=20,
        env={"PATH": str(tmp_path)},
    )
    assert done.stdout.decode().startswith(marker[::-1])


def test_the_start_command_has_nothing_that_a_shell_expands() -> None:
    command = start_command(Node("n", "h", env=ENV), new_marker())
    assert not set(command) & set("$!\\`\n#*?~{}|<")
    assert command.count('"') == 2


@given(st.text(max_size=20), st.text(max_size=20))
def test_what_a_shell_could_change_is_refused(name: str, value: str) -> None:
    node = Node("n", "h", env={name: value})
    plain = set(string.ascii_letters + string.digits + "_./:,=@%+-")
    if name.isidentifier() and name.isascii() and set(value) <= plain:
        assert f"export LC_ALL=C {name}={value};" in start_command(node, "m")
    else:
        with pytest.raises(InputError, match=r"; allowed are letters, digits"):
            start_command(node, "m")


@pytest.mark.parametrize("python", ["a b", "-c", "", "$(x)", "x;y", "p\n", "/a/`b`", "~root/p"])
def test_an_interpreter_that_a_shell_could_change_is_refused(python: str) -> None:
    with pytest.raises(InputError, match=r"is not a plain path"):
        start_command(Node("n", "h", python=python), "m")


NOISE = b"printf 'Welcome \\033[31mto \\033]0;title\\007 gpu\\351001\\n'\n"
LATER = b"(while sleep 0.1; do printf 'still here\\n\\365gw1\\n'; done) &\n"
RC: dict[str, Mapping[str, bytes]] = {
    "bash": {".bashrc": NOISE + LATER},
    "zsh": {".zshenv": NOISE + LATER},
    "tcsh": {".cshrc": b"printf 'Welcome \\033[31m\\n'\nsh -c 'while sleep 0.1; do echo x; done' &\n"},
    "fish": {".config/fish/config.fish": b"printf 'Welcome \\e[31m\\n'\nsh -c 'while sleep 0.1; do echo x; done' &\n"},
}  # fmt: skip


@pytest.mark.parametrize(
    "shell",
    [pytest.param(*p.values, marks=[*p.marks, *NEEDS_SSHD]) for p in SHELLS if p.values[0] in RC],
)
async def test_noise_before_and_in_the_middle_costs_only_itself(
    shell: str, sshd: Callable[..., Sshd], watching: Any, tmp_path: Path
) -> None:
    """S17, S19, S38, S39: whatever a banner or an rc file says, and in whatever encoding."""
    banner = tmp_path / "banner"
    banner.write_bytes(b"Acc\xe8s r\xe9serv\xe9 \x1b[2J\n")
    server = sshd(shell=shutil.which(shell), files=RC[shell], options=[f"Banner {banner}"])
    async with watching(server.node()) as watch:
        for sequence in range(4):
            await watch.sample("node", sequence=sequence)
        fault = await watch.until(lambda e: isinstance(e, Fault) and e.source == "wire")
        assert fault.text.startswith("runs of bytes that are no frame: ")


@needs("fish", "fish")
@NEEDS_SSHD[0]
@NEEDS_SSHD[1]
async def test_s30_a_profile_that_becomes_another_shell_is_told(
    sshd: Callable[..., Sshd], watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "GREETING_S", 1.0)
    server = sshd(files={".bashrc": b"exec fish -l\n"})
    async with watching(server.node()) as watch:
        link = await watch.link("node", "lost")
    assert link.reason == "no python started within 1 s"
    assert "start another shell when there is no terminal" in link.hint


@NEEDS_SSHD[0]
@NEEDS_SSHD[1]
async def test_s46_names_that_are_not_ascii_arrive_though_a_node_has_no_locale(
    sshd: Callable[..., Sshd], watching: Any
) -> None:
    server = sshd(user="jürgen")
    async with watching(server.node()) as watch:
        hello = await watch.until(lambda e: isinstance(e, Hello))
    assert hello.facts["user"] == "jürgen"
