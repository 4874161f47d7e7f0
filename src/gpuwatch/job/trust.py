"""Trust in a job file, asked for once: what it makes this machine run, it may then run.

Kept is one empty file a trusted job file, named by a digest of where the file lies, what it holds,
and what the programs and configurations that it names hold: whatever changes is asked for again.
"""

import hashlib
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from gpuwatch.errors import InputError
from gpuwatch.job.types import Job
from gpuwatch.model.text import sanitize

__all__ = ["require"]

MAX_SHOWN = 300
"""Characters of a command that are shown; one that is longer is refused, as nobody has read it."""


def require(file: Path, job: Job) -> None:
    """Return if this job file runs nothing here or is trusted; ask if there is somebody to ask.

    Args:
        file: of the job.
        job: as read from it.

    Raises:
        InputError: it is not trusted.
    """
    runs = dict(_runs(job))
    if not runs:
        return
    mark = _folder() / _digest(file, job)
    if mark.exists():
        return
    told = f"{file}: not trusted, and names what runs on this machine: {', '.join(runs)}"
    if any(len(text) > MAX_SHOWN for text in runs.values()):
        raise InputError(told, f"shorten what has over {MAX_SHOWN} characters")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(
            told, f"read it, then: gpuwatch doctor {shlex.quote(str(file))}, in a terminal"
        )
    if not _agreed(file, runs):
        raise InputError(told)
    _folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    mark.touch(mode=0o600)


def _runs(job: Job) -> Iterator[tuple[str, str]]:
    """Yield each key by which the file has something run on this machine, and what."""
    if job.ssh.command:
        yield "ssh.command", shlex.join(job.ssh.command)
    if job.ssh.config and str(job.ssh.config) != os.devnull:
        yield "ssh.config", f"{job.ssh.config} (its ProxyCommand, Match exec and the like)"
    if job.alerts.exec:
        yield "alerts.exec", str(job.alerts.exec)


def _agreed(file: Path, runs: dict[str, str]) -> bool:
    sys.stderr.write(f"{sanitize(str(file))} has this machine run:\n")
    for key, text in runs.items():
        sys.stderr.write(f"  {key}: {sanitize(text, MAX_SHOWN)}\n")
    sys.stderr.write("Trust it as it is now? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _digest(file: Path, job: Job) -> str:
    named = [job.ssh.config, job.alerts.exec, *map(Path, job.ssh.command)]
    parts = [str(file.resolve()), str(job.sha256), *(_content(path) for path in named if path)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _content(path: Path) -> str:
    """Return a digest of a file; of one that cannot be read, or is looked for on PATH, none."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def _folder() -> Path:
    return platformdirs.user_state_path("gpuwatch") / "trusted"
