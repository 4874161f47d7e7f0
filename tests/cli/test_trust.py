"""A job file that has this machine run something: nothing runs until a person trusted that file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.errors import InputError
from gpuwatch.job import trust
from gpuwatch.job.file import read
from gpuwatch.verdict.thresholds import parse
from gpuwatch_process import COMMAND, environment, run_gpuwatch
from terminal import Terminal

RELAY = '#!/bin/sh\n: > "${0%/*}/ran"\nexec sh -c "$1"\n'
JOB = """\
nodes: gpu001
interval: 200ms
ssh: {transport: command, command: [./relay, "{agent}", "{node}"]}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job file whose command leaves a trace beside it."""
    (tmp_path / "relay").write_text(RELAY)
    (tmp_path / "relay").chmod(0o755)
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path / "job.yaml"


@pytest.fixture
def asked(tmp_path: Path) -> Callable[[Path, bytes], tuple[int, str]]:
    """Run a snapshot in a terminal, answer its question, and return how it ended and what it said."""

    def run(job: Path, answer: bytes) -> tuple[int, str]:
        words = (*COMMAND, "snapshot", str(job))
        with Terminal(words, environment(XDG_STATE_HOME=str(tmp_path / "state"))) as terminal:
            terminal.wait_for(b"[y/N]")
            assert not (tmp_path / "ran").exists()
            terminal.press(answer + b"\n")
            return terminal.exit_code(), terminal.words()

    return run


def headless(job: Path) -> tuple[int, str]:
    done = run_gpuwatch("snapshot", job, XDG_STATE_HOME=str(job.parent / "state"))
    return done.returncode, done.stderr


def test_without_a_terminal_nothing_runs_and_what_to_do_is_told(job: Path) -> None:
    code, told = headless(job)
    assert code == 2
    assert told == (
        f"gpuwatch: {job}: not trusted, and names what runs on this machine: ssh.command;"
        f" read it, then: gpuwatch doctor {job}, in a terminal\n"
    )
    assert not (job.parent / "ran").exists()


def test_no_is_the_answer_that_is_meant_by_default(
    job: Path, asked: Callable[[Path, bytes], tuple[int, str]]
) -> None:
    room = trust.MAX_SHOWN - len(f"{job.parent}/relay '{{agent}}' '{{node}}' ")
    job.write_text(JOB.replace('"{node}"', f'"{{node}}", {"x" * room}'))
    code, told = asked(job, b"")
    assert code == 2
    assert f"ssh.command: {job.parent}/relay '{{agent}}' '{{node}}' {'x' * room} Trust" in told
    assert not (job.parent / "ran").exists()
    assert not (job.parent / "state").exists()


def test_yes_holds_until_the_file_or_what_it_names_changes(
    job: Path, asked: Callable[[Path, bytes], tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(job, b"y")[0] == 0
    assert (job.parent / "ran").exists()
    (kept,) = (job.parent / "state/gpuwatch/trusted").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700

    monkeypatch.setenv("XDG_STATE_HOME", str(job.parent / "state"))
    trust.require(job, read(job, parse))
    copy = job.with_name("copy.yaml")
    copy.write_text(JOB)
    with pytest.raises(InputError, match="not trusted"):
        trust.require(copy, read(copy, parse))
    for changed, text in ((job.with_name("relay"), RELAY), (job, JOB)):
        changed.write_text(text + "# changed\n")
        with pytest.raises(InputError, match="not trusted"):
            trust.require(job, read(job, parse))
        changed.write_text(text)


def test_a_script_that_a_shell_is_given_is_part_of_what_is_trusted(job: Path) -> None:
    script = job.with_name("relay")
    job.write_text(JOB.replace("./relay", f"sh, {script}"))
    trusted = trust._digest(job, read(job, parse))
    assert trust._digest(job, read(job, parse)) == trusted
    script.write_text(RELAY + "# changed\n")
    assert trust._digest(job, read(job, parse)) != trusted


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("ssh: {config: mine}", "ssh.config"),
        ("alerts: {exec: ./relay}", "alerts.exec"),
        ("ssh: {transport: openssh, config: mine}\nalerts: {exec: ./relay}", "ssh.config, alerts.exec"),
    ],
)  # fmt: skip
def test_whatever_can_run_is_asked_about(job: Path, text: str, key: str) -> None:
    job.write_text(f"nodes: 127.0.0.1\n{text}\n")
    with pytest.raises(InputError, match=f"names what runs on this machine: {key}; read it"):
        trust.require(job, read(job, parse))


def test_what_is_too_long_to_be_read_is_refused(job: Path) -> None:
    job.write_text(JOB.replace('"{node}"', f'"{{node}}", {"x" * 300}'))
    with pytest.raises(InputError, match="shorten what has over 300 characters"):
        trust.require(job, read(job, parse))


def test_a_file_that_runs_nothing_is_not_asked_about(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("nodes: gpu001\nssh: {config: /dev/null}\n")
    done = run_gpuwatch(tmp_path / "job.yaml", XDG_STATE_HOME=str(tmp_path / "state"))
    assert done.stderr.startswith("gpuwatch: the screen needs a terminal")
    assert not (tmp_path / "state").exists()
