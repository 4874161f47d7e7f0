"""From the login shell to the agent: what may go wrong in between, on this machine's own shells."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.transport.bootstrap import FLAGS, PROGRAM
from gpuwatch.transport.node import Node
from gpuwatch.transport.payload import Payload, payload

OLD = Path("~/.pyenv/versions").expanduser()


async def refused(watching: Any, node: Node) -> tuple[str, str]:
    async with watching(node) as watch:
        link = await watch.link(node.name, "refused", "lost")
    return link.step, link.reason


def script(path: Path, text: str) -> str:
    """Write a program that stands in for an interpreter."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def local(python: str) -> Node:
    return Node("here", "localhost", python=python, transport="local")


async def test_this_machine_streams_without_ssh(watching: Any) -> None:
    async with watching(Node("here", "localhost", transport="local")) as watch:
        sample = await watch.sample("here", sequence=2)
    assert sample.rows("node")


async def test_a_local_interpreter_that_is_missing(watching: Any) -> None:
    assert await refused(watching, local("/nonexistent")) == (
        "resolve",
        "/nonexistent cannot be run: No such file or directory",
    )


async def test_python_2_is_told_in_words(watching: Any, tmp_path: Path) -> None:
    python = script(tmp_path / "python2", "echo 'Unknown option: -I' >&2; exit 2")
    assert await refused(watching, local(python)) == (
        "shell",
        f"{python} is Python 2; 3.6 or newer is needed",
    )


async def test_an_old_python_3_is_told_in_words(watching: Any, tmp_path: Path) -> None:
    python = script(
        tmp_path / "python3",
        f'exec {sys.executable} -c "import sys; sys.version_info = (3, 5, 2); $5" "$6"',
    )
    step, reason = await refused(watching, local(python))
    assert step == "python"
    assert reason.startswith("the agent did not start: python 3.5 at ")
    assert reason.endswith(" is older than 3.6")


async def test_a_shell_that_never_answers(
    watching: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.transport.bootstrap.GREETING_S", 0.5)
    python = script(tmp_path / "python", "printf 'Press \\033[1mENTER\\033[0m\\n'; exec sleep 60")
    assert await refused(watching, local(python)) == (
        "shell",
        "no python started within 0 s; it printed: Press ␛[1mENTER␛[0m",
    )


async def test_what_waits_without_end_may_say_why(
    watching: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As srun does, for a step that has to wait for the job's nodes."""
    monkeypatch.setattr("gpuwatch.transport.bootstrap.GREETING_S", 0.5)
    python = script(tmp_path / "python", "echo 'srun: Requested nodes are busy' >&2; exec sleep 60")
    assert await refused(watching, local(python)) == (
        "shell",
        "no python started within 0 s; it printed: srun: Requested nodes are busy",
    )


async def test_a_shell_that_prints_without_end(watching: Any, tmp_path: Path) -> None:
    step, reason = await refused(watching, local(script(tmp_path / "python", "exec yes noise")))
    assert step == "shell"
    assert reason.startswith("the login shell printed over 1 MB; it printed: noise noise")


async def test_a_shell_that_echoes_the_command_does_not_fake_the_marker(
    watching: Any, tmp_path: Path
) -> None:
    python = script(tmp_path / "python", f'echo "run: $*"; exec {sys.executable} "$@"')
    async with watching(local(python)) as watch:
        await watch.sample("here", sequence=0)


async def test_a_payload_that_arrives_damaged_is_refused(
    watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = payload()
    middle = len(sound.bundle) // 2
    flipped = bytes([sound.bundle[middle] ^ 1])
    damaged = sound.bundle[:middle] + flipped + sound.bundle[middle + 1 :]

    def message(self: Payload, config: dict[str, Any]) -> bytes:
        return original(self, config).replace(sound.bundle, damaged)

    original = Payload.message
    monkeypatch.setattr(Payload, "message", message)
    assert await refused(watching, local(sys.executable)) == (
        "python",
        "the agent did not start: the payload arrived damaged",
    )


@pytest.mark.parametrize("version", ["3.6.15", "3.8.18", "3.13.0"])
def test_modules_come_from_memory_and_only_from_there(version: str) -> None:
    python = OLD / version / "bin/python"
    if not python.exists():
        pytest.skip(f"needs Python {version}")
    look = (
        b"import gpuwatch.agent.catalogue, pynvml\n"
        b"print(gpuwatch.agent.catalogue.SCHEMA, pynvml.__loader__.__class__.__name__,"
        b" sys.flags.isolated, sys.dont_write_bytecode)\n"
        b"raise SystemExit"
    )
    sound = payload()
    starter = sound.starter.replace(
        b"main = importlib", look.replace(b"\n", b";") + b"\n    main = importlib"
    )
    changed = replace(sound, starter=starter)
    done = subprocess.run(
        [python, *FLAGS, "-c", PROGRAM, "olleh"],
        input=changed.message({}),
        capture_output=True,
        check=True,
        timeout=30,
    )
    from gpuwatch.agent.catalogue import SCHEMA

    assert done.stdout.decode().split() == ["hello" + SCHEMA, "Importer", "1", "True"]


async def test_a_traceback_of_the_agent_is_the_reason(
    watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = payload()
    starter = sound.starter.replace(b"main.run(", b"main.no_such_thing(")
    monkeypatch.setattr("gpuwatch.feed.live.payload", lambda: replace(sound, starter=starter))
    step, reason = await refused(watching, local(sys.executable))
    assert step == "python"
    assert reason.startswith(
        "the agent did not start: AttributeError: module 'gpuwatch.agent.main'"
    )
