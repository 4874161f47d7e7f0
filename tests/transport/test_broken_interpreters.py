"""Interpreters that start and cannot take the agent: told as what keeps them from it."""

from pathlib import Path
from typing import Any

import pytest

from gpuwatch.transport.node import Node

NO_LIBRARY = "python3: error while loading shared libraries: libpython3.9.so.1.0: cannot open"


def by(script: str) -> Node:
    """Return a node whose start command is what a script makes of it."""
    return Node("n", "h", transport="command", command=("sh", "-c", script, "{agent}"))


@pytest.mark.parametrize("stdin", ["<&-", "</dev/null"])
async def test_a_stdin_that_is_not_the_sessions_is_told(stdin: str, watching: Any) -> None:
    async with watching(by(f'exec sh -c "$0" {stdin}')) as watch:
        link = await watch.link("n", "refused", "lost")
    assert link.step == "python"
    assert link.reason == (
        "the agent cannot be sent: the interpreter's stdin is not that of the session"
    )
    assert "rc files must not redirect stdin" in link.hint


async def test_an_interpreter_that_lacks_a_library_is_there(watching: Any) -> None:
    """Its loader ends with the status that a shell has for a program that is not there."""
    async with watching(by(f"echo '{NO_LIBRARY}' >&2; exit 127")) as watch:
        link = await watch.link("n", "refused", "lost")
    assert (link.step, link.reason) == ("shell", f"python cannot be run: {NO_LIBRARY}")


async def test_a_signal_that_ends_a_shell_is_told_as_one(watching: Any, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -9 $$\n")
    python.chmod(0o755)
    async with watching(Node("n", "h", python=str(python), transport="local")) as watch:
        link = await watch.link("n", "refused", "lost")
    assert link.reason == "the login shell ended with signal 9 before python started"
