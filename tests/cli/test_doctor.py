"""`gpuwatch doctor` on real nodes: how far it got, what is readable, what to do, exit codes."""

import re
import sys
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

from gpuwatch.agent import catalogue
from gpuwatch.cli.doctor import NodeReport, Reached, Report, Signal, _Patient
from gpuwatch.model.event import Hello, Sample
from gpuwatch.transport.bootstrap import BY_HAND
from gpuwatch.transport.node import Node
from gpuwatch_process import job_file, run_gpuwatch
from sshd import NEEDS_SSHD, Sshd, free_port

KEYS = {
    "node", "address", "link", "python", "clock_offset_s", "clock_error_s", "signals",
}  # fmt: skip


def over_sshd(test: Any) -> Any:
    for mark in NEEDS_SSHD:
        test = mark(test)
    return test


def examined(*words: str | Path, code: int) -> dict[str, dict[str, Any]]:
    """Return what is told of each node, as JSON."""
    done = run_gpuwatch("doctor", *words, "--json")
    assert done.returncode == code, done.stderr
    document = msgspec.json.decode(done.stdout)
    assert document["format"] == 1
    assert all(node.keys() == KEYS for node in document["nodes"])
    return {node["node"]: node for node in document["nodes"]}


@over_sshd
def test_each_node_is_told_with_the_step_and_what_to_do(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as server:
        file = job_file(tmp_path, [server], "interval: 200ms")
        down, login = free_port(), f"host: 127.0.0.1, port: {server.port}, user: root"
        text = file.read_text().replace(
            "ssh:",
            f"- {{name: down, host: 127.0.0.1, port: {down}, user: root}}\n"
            f"- {{name: bare, python: /none/python3, {login}}}\nssh:",
        )
        file.write_text(text)
        nodes = examined(file, code=4)
    well = nodes["n1"]
    assert well["address"] == f"root@127.0.0.1:{server.port}"
    assert well["link"] == {
        "ok": True, "error": None, "step": "streaming", "hint": None, "seconds": well["link"]["seconds"],
    }  # fmt: skip
    assert 0 < well["link"]["seconds"] < 20
    assert well["python"].startswith("3.")
    assert abs(well["clock_offset_s"]) <= well["clock_error_s"] + 0.001
    signals = {signal["source"]: signal for signal in well["signals"]}
    assert list(signals) == list(catalogue.SOURCES)
    assert (signals["cpu"]["ok"], signals["cpu"]["reason"]) == (True, None)
    assert (signals["threads"]["ok"], signals["threads"]["hint"]) == (
        False, "once the job runs; else name its processes with match: in the job file",
    )  # fmt: skip
    assert nodes["down"]["link"] == {
        "ok": False, "error": f"connection refused by 127.0.0.1:{down}", "step": "resolve",
        "hint": "check that sshd runs there, and the port", "seconds": None,
    }  # fmt: skip
    assert nodes["bare"]["link"]["step"] == "shell"
    assert nodes["bare"]["link"]["error"] == "no python3: tried /none/python3"
    assert nodes["bare"]["signals"] == []


@over_sshd
def test_a_node_that_prints_into_the_stream_is_a_fault(tmp_path: Path) -> None:
    noise = b"(while sleep 0.05; do echo still here; done) &\n"
    with Sshd(tmp_path / "sshd", files={".bashrc": noise}) as server:
        file = job_file(tmp_path, [server], "interval: 200ms")
        (node,) = examined(file, code=1).values()
    assert node["link"]["ok"]
    wire = node["signals"][-1]
    assert wire["source"] == "wire"
    assert wire["reason"].startswith("runs of bytes that are no frame: ")
    assert "rc files" in wire["hint"]


def test_no_node_reached_is_told_in_plain_lines(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "nodes: gpu[1-2]\nssh: {transport: openssh, config: /dev/null, user: ann}\n"
    )
    done = run_gpuwatch("doctor", "job.yaml", cwd=tmp_path, PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines() == [
        *(
            f"gpu{n}  ann@gpu{n}:22: got as far as 'resolve': ssh cannot be run: No such file or directory"
            " -> install it, or correct its path"
            for n in (1, 2)
        ),
        "0 of 2 nodes stream",
    ]


def test_this_machine_needs_no_ssh() -> None:
    done = run_gpuwatch("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, last = done.stdout.splitlines()
    assert re.search(r"this machine: streams after \d+\.\d\d s, python ", first)
    assert f"python {sys.version_info[0]}.{sys.version_info[1]}" in first
    assert last == "1 of 1 nodes stream"


def test_of_a_node_that_says_nothing_it_is_told_what_to_do() -> None:
    link = _Patient(Node("n", "h")).report("h").link
    assert (link.ok, link.step, link.error) == (False, "resolve", "no answer in 40 s")
    assert link.hint == BY_HAND


def test_a_python_on_a_network_mount_is_a_warning() -> None:
    patient = _Patient(Node("n", "h"))
    told: dict[str, Any] = {"python": "3.11.7 /nfs/bin/python3", "python_mount": "nfs4 /nfs"}
    at = {"event_no": 0, "arrived_us": 0, "wall_us": 0}
    patient.take(Hello(node="n", boot_id="b", agent_id="a", facts=told, **at))
    patient.take(cast("Any", Mock(Sample, rows=lambda _: (), offset_us=0, offset_error_us=0)))
    last = patient.report("h").signals[-1]
    assert (last.source, last.ok) == ("python", True)
    assert last.reason == "its files are on nfs4 /nfs: it hangs when that does"
    assert last.hint == "set python: to one on a disk of the node"


def report(*reached: bool, fault: bool = False) -> Report:
    link = {ok: Reached(ok, None, "streaming", None, None) for ok in (True, False)}
    wire = (Signal("wire", False, "noise", None),) if fault else ()
    return Report(
        nodes=tuple(NodeReport("n", "a", link[ok], None, None, None, wire) for ok in reached)
    )


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (report(True, True), 0), (report(True, False), 4), (report(False, False), 3),
        (report(True, False, fault=True), 1), (report(False, fault=True), 3),
    ],
)  # fmt: skip
def test_exit_codes_keep_their_order(told: Report, code: int) -> None:
    assert told.exit_code() == code
