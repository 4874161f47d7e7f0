"""Two nodes over real sshd, from /proc to a verdict, a recording and a report."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import jsonschema
import polars as pl
import pytest

from end_to_end.conftest import at, gpuwatch, job_file
from sshd import NEEDS_SSHD, Sshd

pytestmark = [*NEEDS_SSHD, pytest.mark.timeout(120)]
SCHEMA = Path(__file__).parents[2] / "docs/report.schema.json"
SECONDS = 20
LEAST_TICKS = 18


@pytest.fixture
def recording(tmp_path: Path, sshds: Callable[[str], Sshd]) -> Path:
    nodes = [sshds("gpu01"), sshds("gpu02")]
    job = job_file(tmp_path, nodes, [at("gpu01", nodes[0]), at("gpu02", nodes[1])])
    out = tmp_path / "recording"
    done = gpuwatch("record", job, "--out", out, "--for", f"{SECONDS}s")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(out)
    return out


def test_two_nodes_are_recorded_without_a_gap_and_reported(recording: Path) -> None:
    files = sorted((recording / "seg").rglob("*node.parquet"))
    frame = pl.concat([pl.read_parquet(f) for f in files], how="diagonal_relaxed")
    for name in ("gpu01", "gpu02"):
        sequence = frame.filter(pl.col("node") == name)["sequence"].sort().to_list()
        assert len(sequence) >= LEAST_TICKS
        assert sequence == list(range(len(sequence)))
    by_duckdb = duckdb.sql(
        f"select node, count(*) from read_parquet({[str(f) for f in files]}, union_by_name=true)"
        " group by node order by node"
    ).fetchall()
    assert by_duckdb == frame.group_by("node").len().sort("node").rows()

    report = gpuwatch("report", recording, "--json")
    assert report.returncode == 0, report.stderr
    document = json.loads(report.stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["gaps"] == []
    assert {v["node"] for v in document["verdicts"] if v["scope"] == "node"} == {"gpu01", "gpu02"}

    judged_anew = gpuwatch("report", recording, "--rejudge", "--json")
    assert json.loads(judged_anew.stdout)["verdicts"] == document["verdicts"]
    shutil.rmtree(recording / "wal")
    without_wal = gpuwatch("report", recording, "--rejudge", "--json")
    assert json.loads(without_wal.stdout)["verdicts"] == document["verdicts"]
