"""Runs `gpuwatch` as a process of its own, on job files for real nodes."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sshd import Sshd

ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, "-m", "gpuwatch")


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which `COMMAND` runs this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), **more}


def run_gpuwatch(
    *words: str | Path, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        cwd=cwd,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def job_file(folder: Path, nodes: Sequence[Sshd], *lines: str) -> Path:
    """Write a job file for some nodes, `n1` and so on, and return its path."""
    known = folder / "known_hosts"
    known.write_text("".join(node.known_hosts.read_text() for node in nodes))
    entries = [
        f"- {{name: n{place}, host: 127.0.0.1, port: {node.port}, user: {node.user}}}"
        for place, node in enumerate(nodes, 1)
    ]
    login = f"ssh: {{known_hosts: {known}, config: /dev/null, identity: {nodes[0].identity}}}"
    for node in nodes[1:]:
        (node.folder / "authorized_keys").write_bytes(
            (nodes[0].folder / "authorized_keys").read_bytes()
        )
    file = folder / "job.yaml"
    file.write_text("\n".join(["job: two-nodes", "nodes:", *entries, login, *lines, ""]))
    return file
