"""Nodes that cannot be watched, and a node that lies: each is shown as what it is, alone."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from gpuwatch.recording import open as open_recording
from gpuwatch_process import COMMAND, environment, job_file, run_gpuwatch
from sshd import NEEDS_SSHD, Sshd, free_port

pytestmark = [*NEEDS_SSHD, pytest.mark.timeout(120)]

SECRET = "hunter2-PLANTED-secret"
HOSTILE_RANK = "[/b]\x1b[31m\x1b]52;c;aGk=\x07\u202e\n0"
RANK = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, b"[/b]\\x1b[31m\\xff\\n", 0, 0, 0)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def hostile_rank(tmp_path: Path) -> Iterator[None]:
    """Run a rank of the job with a hostile name, and secrets in its arguments and environment."""
    script = tmp_path / "gpuwatch_test_rank.py"
    script.write_text(RANK)
    env = {
        "RANK": HOSTILE_RANK,
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "NCCL_DEBUG": "INFO",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "MASTER_ADDR": "[bold]\x1b[2J",
        "MASTER_PORT": "29500",
        "PATH": os.environ["PATH"],
    }
    process = subprocess.Popen(
        [sys.executable, str(script), f"--token={SECRET}", SECRET], env=env, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield
    process.kill()
    process.communicate()


@pytest.fixture
def odd_job(tmp_path: Path) -> Iterator[Path]:
    """A job of a good node, one without python, and one that is not there."""
    with Sshd(tmp_path / "good") as good, Sshd(tmp_path / "bare") as bare:
        job = job_file(tmp_path, (good, bare), "match: gpuwatch_test_rank")
        lost = f"- {{name: lost, host: 127.0.0.1, port: {free_port()}}}\n"
        text = job.read_text().replace("name: n1", "name: good")
        text = text.replace("name: n2", "name: bare, python: /nonexistent/python3")
        job.write_text(text.replace("ssh:", f"{lost}ssh:"))
        yield job


def recording(job: Path, out: Path) -> "subprocess.Popen[str]":
    """Start to record a job; it tells on stderr how far it is."""
    return subprocess.Popen(
        [*COMMAND, "record", str(job), "--out", str(out)],
        env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def until(process: "subprocess.Popen[str]", pattern: str) -> list[str]:
    """Return the lines that are told up to the one that is waited for."""
    assert process.stderr is not None
    lines: list[str] = []
    while not (lines and re.search(pattern, lines[-1])):
        lines.append(process.stderr.readline())
        assert lines[-1], lines
    return lines


def acknowledged(process: "subprocess.Popen[str]", number: int) -> list[str]:
    """Return the lines up to the one that tells that so many events are on disk, or more."""
    lines = until(process, "^event ")
    while int(lines[-1].split()[1]) < number:
        lines += until(process, "^event ")
    return lines


def all_text(recording: Path) -> str:
    """Return every word of every table, and every raw byte."""
    raw = b"".join(f.read_bytes() for f in recording.rglob("*") if f.is_file())
    words = [raw.decode("latin-1")]
    words += [
        pl.read_parquet(file).select(pl.col(pl.String)).write_csv()
        for file in recording.rglob("*.parquet")
    ]
    words += [repr(event) for event in open_recording(recording).events()]
    return "\n".join(words)


def test_each_odd_node_is_told_with_its_reason_and_the_others_stream(
    tmp_path: Path, odd_job: Path, hostile_rank: None
) -> None:
    out = tmp_path / "recording"
    process = recording(odd_job, out)
    told = "".join([*acknowledged(process, 12), *until(process, "1 of 3 nodes")])
    process.send_signal(signal.SIGINT)
    told += process.communicate()[1]
    assert process.returncode == 4
    assert "2 of 3 nodes could not be reached" in told
    assert "no python3: tried /nonexistent/python3" in told
    assert "Traceback" not in told
    text = all_text(out)
    assert "no libnvidia-ml.so.1" in text
    table = open_recording(out).table("thread_group").collect()
    assert set(table["node"]) == {"good"}
    assert all(rank.isprintable() for rank in table["rank"])
    assert all(group.isprintable() for group in table["group"])
    report = run_gpuwatch("report", out)
    assert report.returncode == 0
    assert "\x1b" not in told + report.stdout
    assert SECRET not in text + report.stdout + told


def test_a_killed_recorder_keeps_what_it_acknowledged_and_no_secret(
    tmp_path: Path, odd_job: Path, hostile_rank: None
) -> None:
    out = tmp_path / "recording"
    process = recording(odd_job, out)
    last = int(acknowledged(process, 12)[-1].split()[1])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    numbers = [event.event_no for event in open_recording(out).events()]
    assert numbers[: last + 1] == list(range(last + 1))
    assert SECRET not in all_text(out)
