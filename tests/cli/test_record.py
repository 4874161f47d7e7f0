"""Recording real nodes over real sshd, and what the recording tells afterwards."""

import os
import re
import shutil
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import msgspec
import polars as pl
import pytest

import gpuwatch.recording
from gpuwatch.model.event import Sample, Tick
from gpuwatch_process import COMMAND, environment, job_file, run_gpuwatch
from sshd import NEEDS_SSHD, Sshd, free_port

SCHEMA = msgspec.json.decode(
    (Path(__file__).parents[2] / "docs" / "report.schema.json").read_bytes()
)

pytestmark = list(NEEDS_SSHD)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sshd, Sshd]]:
    with Sshd(tmp_path_factory.mktemp("n1")) as one, Sshd(tmp_path_factory.mktemp("n2")) as two:
        yield one, two


@pytest.fixture(scope="module")
def recorded(
    nodes: tuple[Sshd, Sshd], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Ten seconds of two nodes, twice a second."""
    folder = tmp_path_factory.mktemp("job")
    out, file = folder / "R", job_file(folder, nodes, "interval: 500ms")
    return out, run_gpuwatch("record", file, "--out", out, "--for", "10s")


def stopped(told: str, number: int, *words: str | Path) -> tuple[int, str, str]:
    """Record until that is told on stderr, then send a signal; return how it ended and the rest."""
    with subprocess.Popen(
        [*COMMAND, "record", *map(str, words)], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if told in line:
                break
        os.kill(process.pid, number)
        out, rest = process.communicate(timeout=20)
    return process.returncode, out, rest


def report(recording: Path, *words: str) -> dict[str, Any]:
    done = run_gpuwatch("report", recording, "--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = msgspec.json.decode(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


def test_it_tells_how_it_goes_and_where_the_recording_lies(
    recorded: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    out, done = recorded
    assert (done.returncode, done.stdout) == (0, f"{out}\n")
    last = done.stderr.splitlines()[-1]
    told = re.match(r"event (\d+) on disk, 2 of 2 nodes, (\d+) s, [A-Z]", last)
    assert told, last
    assert int(told[1]) > 40
    assert 8 <= int(told[2]) <= 11


def test_no_tick_and_no_frame_is_missing(
    recorded: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    sequences: dict[str, list[int]] = defaultdict(list)
    ticks = 0
    for event in gpuwatch.recording.open(recorded[0]).events():
        if isinstance(event, Sample):
            sequences[event.node].append(event.sequence)
        ticks += isinstance(event, Tick)
    assert sorted(sequences) == ["n1", "n2"]
    for seen in sequences.values():
        assert len(seen) >= 14
        assert seen == list(range(seen[0], seen[0] + len(seen)))
    assert ticks >= 16


def test_the_files_open_without_gpuwatch(
    recorded: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    files = str(recorded[0] / "seg" / "*" / "node.parquet")
    by_polars = pl.scan_parquet(files).select("node", "cpu_idle_ms").collect()
    by_duckdb = duckdb.sql(f"select node, cpu_idle_ms from '{files}'").fetchall()
    assert sorted(by_polars.rows()) == sorted(by_duckdb)
    assert len(by_duckdb) >= 28
    assert all(idle > 0 for _, idle in by_duckdb)


def test_the_report_is_valid_without_gaps_and_the_same_when_judged_anew(
    recorded: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    shown = report(recorded[0])
    assert shown["gaps"] == []
    assert {row["node"] for row in shown["verdicts"] if row["scope"] == "node"} == {"n1", "n2"}
    assert report(recorded[0], "--rejudge") == shown
    copy = tmp_path / "copy"
    shutil.copytree(recorded[0], copy)
    shutil.rmtree(copy / "wal")
    assert report(copy, "--rejudge") == shown
    text = run_gpuwatch("report", recorded[0])
    assert text.stdout.startswith("two-nodes: ")


def test_a_report_of_a_part(recorded: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    whole = report(recorded[0])
    part = report(recorded[0], "--from", "+3s", "--to=-3s")
    assert whole["from"] < part["from"] < part["to"] < whole["to"]
    done = run_gpuwatch("report", recorded[0], "--from", "yesterday")
    assert done.returncode == 2
    assert "--from: 'yesterday' is no time" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: int) -> None:
    out = tmp_path / "R"
    code, told, rest = stopped("1 of 1 nodes", number, "--out", out)
    assert (code, told) == (0, f"{out}\n"), rest
    assert any(isinstance(event, Sample) for event in gpuwatch.recording.open(out).events())
    assert not list((out / "wal").glob("*"))


def test_a_node_that_never_came_is_named_and_changes_the_exit_code(
    nodes: tuple[Sshd, Sshd], tmp_path: Path
) -> None:
    file = job_file(tmp_path, nodes[:1])
    entry = f"- {{name: gone, host: 127.0.0.1, port: {free_port()}}}"
    file.write_text(file.read_text().replace("nodes:\n", f"nodes:\n{entry}\n"))
    code, _, rest = stopped("1 of 2 nodes", signal.SIGINT, file, "--out", tmp_path / "R")
    assert code == 4
    assert "1 of 2 nodes could not be reached: gone: connection refused" in rest
    alone = tmp_path / "alone.yaml"
    alone.write_text(f"nodes:\n{entry}\n")
    done = run_gpuwatch("record", alone, "--out", tmp_path / "R2", "--for", "2s")
    assert done.returncode == 3
    assert "no node could be reached: gone: connection refused" in done.stderr.splitlines()[-1]


def test_a_snapshot_is_a_short_report(nodes: tuple[Sshd, Sshd], tmp_path: Path) -> None:
    file = job_file(tmp_path, nodes, "interval: 200ms", "cost: {gpu_hour: 2}")
    done = run_gpuwatch("snapshot", file, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = msgspec.json.decode(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert (document["job"], document["ledger"]["currency"]) == ("two-nodes", "USD")
    assert run_gpuwatch("snapshot", file).stdout.startswith("two-nodes: ")


def test_a_folder_that_holds_a_recording_is_refused(
    recorded: tuple[Path, subprocess.CompletedProcess[str]],
    nodes: tuple[Sshd, Sshd],
    tmp_path: Path,
) -> None:
    done = run_gpuwatch("record", job_file(tmp_path, nodes), "--out", recorded[0], "--for", "1s")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "holds a recording already" in done.stderr


def test_a_disk_that_stays_full_is_told_at_the_end(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48k,mode=700", "gpuwatch-test", str(disk)]
    subprocess.run(mount, check=True)
    try:
        done = run_gpuwatch("record", "--out", disk / "R", "--for", "5s")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert done.returncode == 1
    told = done.stderr.splitlines()[-1]
    assert f"gpuwatch: {disk}/R: not recorded to the end, only up to event" in told
    assert told.endswith("No space left on device")


def test_it_ends_by_itself_when_no_node_will_ever_come(
    nodes: tuple[Sshd, Sshd], tmp_path: Path
) -> None:
    file = job_file(tmp_path, nodes)
    (tmp_path / "known_hosts").write_text("")
    done = run_gpuwatch("record", file, "--out", tmp_path / "R")
    assert done.returncode == 3
    assert "no node could be reached: n1: " in done.stderr.splitlines()[-1]
    assert "host key" in done.stderr.splitlines()[-1]
