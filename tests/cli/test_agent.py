"""`gpuwatch agent --print` shows what is sent: every module, as the node gets it."""

import hashlib
import re
import sys
from pathlib import Path

from gpuwatch.transport.payload import payload
from gpuwatch_process import ROOT, run_gpuwatch


def test_what_is_printed_is_what_is_sent(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("nodes: gpu001\nmatch: torchrun\nenv: {X: y}\n")
    done = run_gpuwatch("agent", "--print", "job.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    titles = re.findall(r"^##### (.*)$", done.stdout, re.MULTILINE)
    sums = dict(title.rsplit(", sha256 ", 1) for title in titles if "sha256" in title)
    assert {name for name, _, _ in payload().modules} == sums.keys() - {"the starter"}
    file = ROOT / "src/gpuwatch/agent/main.py"
    assert sums["gpuwatch.agent.main"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert file.read_text() in done.stdout
    assert "export LC_ALL=C X=y; test -x /usr/bin/python3" in done.stdout
    assert '"match": "torchrun"' in done.stdout
    assert titles[-1].startswith("that is all: ")


def test_of_this_machine_too_what_runs_is_printed() -> None:
    done = run_gpuwatch("agent", "--print")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].startswith(f"{sys.executable} -I -S -B -c '")


def test_it_prints_only_when_told_to() -> None:
    done = run_gpuwatch("agent")
    assert done.returncode == 2
    assert "--print" in done.stderr
