"""Jobs of real sshd nodes, and the real command beside them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from sshd import Sshd

SRC = Path(__file__).parents[2] / "src"


def gpuwatch(*words: str | Path, src: Path = SRC, timeout_s: float = 50) -> "Done":
    """Run the command as a person would, without a terminal."""
    return subprocess.run(
        command(*words), env=environment(src), capture_output=True, text=True, timeout=timeout_s,
        check=False,
    )  # fmt: skip


Done = subprocess.CompletedProcess[str]


def command(*words: str | Path) -> list[str]:
    """Return the command line of `gpuwatch WORDS`."""
    return [sys.executable, "-m", "gpuwatch", *map(str, words)]


def environment(src: Path = SRC) -> dict[str, str]:
    """Return an environment that imports the package from `src`."""
    return {**os.environ, "PYTHONPATH": str(src)}


@pytest.fixture
def sshds(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Start named sshd nodes that one key opens; they end with the test."""
    with ExitStack() as stack:
        started: list[Sshd] = []

        def start(name: str) -> Sshd:
            sshd = stack.enter_context(Sshd(tmp_path / name))
            started.append(sshd)
            key = (started[0].folder / "authorized_keys").read_text()
            (sshd.folder / "authorized_keys").write_text(key)
            return sshd

        yield start


def job_file(
    folder: Path, sshds: Sequence[Sshd], nodes: Sequence[Mapping[str, object]], more: str = ""
) -> Path:
    """Write a job file for these nodes; each mapping is a node of the file."""
    known_hosts = folder / "known_hosts"
    known_hosts.write_text("".join(s.known_hosts.read_text() for s in sshds))
    listing = "\n".join(
        "  - {" + ", ".join(f"{key}: {value}" for key, value in node.items()) + "}"
        for node in nodes
    )
    job = folder / "job.yaml"
    job.write_text(
        f"job: end-to-end\nnodes:\n{listing}\n"
        f"ssh: {{user: root, identity: {sshds[0].identity}, known_hosts: {known_hosts},"
        f" config: /dev/null}}\n{more}"
    )
    return job


def at(name: str, sshd: Sshd) -> dict[str, object]:
    """Return a node of a job file that is this sshd."""
    return {"name": name, "host": "127.0.0.1", "port": sshd.port}
