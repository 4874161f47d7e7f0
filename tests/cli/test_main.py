"""The command line as a person meets it: real processes, one line for every mistake, exit codes."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpuwatch.cli.commands import COMMANDS, EXIT_CODES, usage
from gpuwatch_process import COMMAND, environment, run_gpuwatch
from sshd import wait_until


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of a command that refused."""
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_help_names_every_command_and_every_exit_code() -> None:
    done = run_gpuwatch("--help")
    assert done.returncode == 0
    assert all(
        f"gpuwatch {c.name}" in done.stdout and c.help in done.stdout
        for c in COMMANDS.values()
        if c.name
    )
    assert all(f"{code} {meaning}" in done.stdout for code, meaning in EXIT_CODES.items())


@pytest.mark.parametrize("name", [name for name in COMMANDS if name])
def test_every_command_has_its_help(name: str) -> None:
    done = run_gpuwatch(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: gpuwatch {name}")
    assert usage(COMMANDS[name]).startswith(f"gpuwatch {name}")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["record", "--fro", "x"], "unrecognized arguments: --fro"),
        (["replay"], "REC"),
        (["a", "b"], "unrecognized arguments: b"),
        (["init", "@all"], "'@all' is a group"),
        (["a", "--slurm", "1"], "one of the two is wanted"),
        ([""], "the node set '' is empty"),
        (["gpu1,gpu1"], "gpu1 is here twice"),
    ],
)
def test_wrong_usage_is_one_line(words: list[str], told: str) -> None:
    line = refused(run_gpuwatch(*words))
    assert line.startswith("gpuwatch: ")
    assert told in line


@pytest.mark.parametrize("command", [[], ["record"], ["snapshot"]])
def test_a_wrong_job_file_is_one_line_before_anything_else(
    tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "wrong.yaml").write_text("nodes: gpu[1-30000000]\n")
    line = refused(run_gpuwatch(*command, "wrong.yaml", cwd=tmp_path))
    assert line.startswith("gpuwatch: wrong.yaml:1: nodes: 'gpu[1-30000000]' is 30,000,000 nodes")
    assert (
        refused(run_gpuwatch(*command, "none.yaml", cwd=tmp_path))
        == "gpuwatch: none.yaml: no such file or directory"
    )


def test_without_a_terminal_the_screen_refuses_and_names_what_works(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("nodes: gpu1\n")
    line = refused(run_gpuwatch("job.yaml", cwd=tmp_path))
    assert "gpuwatch snapshot" in line
    assert "gpuwatch record" in line


def test_debug_brings_the_traceback() -> None:
    done = run_gpuwatch("none.yaml", "--debug")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_an_error_cannot_steer_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(b"nodes: a\n\xe2\x80\xae\xc2\x9b: b\n")
    line = refused(run_gpuwatch("job.yaml", cwd=tmp_path))
    assert line.isprintable()


def test_an_error_is_short_whatever_a_file_holds(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(f"nodes: a\ninterval: {'9' * 5000}\n")
    line = refused(run_gpuwatch("job.yaml", cwd=tmp_path))
    assert line.startswith("gpuwatch: job.yaml:2: interval: '999")
    assert line.endswith("is not a number with a unit")
    assert len(line) < 1100


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"'{sys.executable}' -m gpuwatch init 'gpu[1-9]' | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_full_disk_behind_stdout_is_no_fault_of_gpuwatch() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpuwatch", "init", "gpu1"],
            env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "gpuwatch: No space left on device; --debug shows where\n"


def test_a_recording_is_no_job(tmp_path: Path) -> None:
    (tmp_path / "R").mkdir()
    (tmp_path / "R" / "session.json").write_text("{}")
    line = refused(run_gpuwatch("R", cwd=tmp_path))
    assert line == "gpuwatch: R: is a recording; gpuwatch replay R"


def test_init_writes_a_file_once(tmp_path: Path) -> None:
    assert run_gpuwatch("init", "gpu[1-2]", "--out", "job.yaml", cwd=tmp_path).returncode == 0
    text = (tmp_path / "job.yaml").read_text()
    assert "is there already" in refused(
        run_gpuwatch("init", "gpu[3-4]", "--out", "job.yaml", cwd=tmp_path)
    )
    assert (tmp_path / "job.yaml").read_text() == text
    assert "no such file" in refused(
        run_gpuwatch("init", "gpu1", "--out", "none/job.yaml", cwd=tmp_path)
    )


SQUEUE = '#!/bin/sh\necho asked > "$0.asked"\nexec sleep 60\n'


@pytest.mark.parametrize("command", ["doctor", "snapshot"])
@pytest.mark.parametrize("phase", ["squeue", "login"])
def test_an_interrupt_ends_a_start_that_waits(command: str, phase: str, tmp_path: Path) -> None:
    """For whatever it waits: no traceback, no word, and at once."""
    squeue, job = tmp_path / "squeue", tmp_path / "job.yaml"
    squeue.write_text(SQUEUE)
    squeue.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as silent, ExitStack() as caller:
        silent.settimeout(20)
        port = silent.getsockname()[1]
        job.write_text(f"nodes: [{{name: n, host: 127.0.0.1, port: {port}}}]\n")
        given = ["--slurm", "1"] if phase == "squeue" else [str(job)]
        with subprocess.Popen(
            [*COMMAND, command, *given], env=environment(PATH=f"{tmp_path}:{os.environ['PATH']}"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            if phase == "squeue":
                wait_until(Path(f"{squeue}.asked").exists, "squeue was not asked")
            else:
                caller.enter_context(silent.accept()[0])
            os.killpg(process.pid, signal.SIGINT)
            out, told = process.communicate(timeout=20)
    assert (process.returncode, out, told) == (130, "", "")
