"""A counter added to one file is found on the wire, in Parquet, on the screen and in the docs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from gpuwatch_process import ROOT, run_gpuwatch

ROW = (
    '    Metric("tcp_active_opens", "node", COUNTER, "int", "1", "snmp Tcp ActiveOpens",'
    ' "Connections opened."),\n'
)
ON_THE_WIRE = """
import asyncio
from gpuwatch.agent.catalogue import INDEX
from gpuwatch.feed.live import Live
from gpuwatch.model.event import Sample
from gpuwatch.transport.node import Node

async def main():
    live = Live([Node("here", "localhost", transport="local")])
    async for event in live:
        if isinstance(event, Sample):
            print(event.rows("node")[0].values[INDEX["node"]["tcp_active_opens"]])
            break
    await live.close()

asyncio.run(main())
"""

ON_THE_SCREEN = """
import asyncio
from gpuwatch.tui.paint.detail import detail
from gpuwatch.tui.paint.spans import plain
from tui.scenarios import storage
from tui.test_paint import scene_of

scene = asyncio.run(scene_of(storage()))
for line in detail(scene, scene.view.nodes[0], 120):
    print(plain(line))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the project whose TCP source has one row more."""
    tree = tmp_path / "tree"
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("src", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=ignore)
    source = tree / "src/gpuwatch/agent/sources/tcp.py"
    text = source.read_text()
    source.write_text(text.replace("ROWS = (\n", "ROWS = (\n" + ROW, 1))
    return tree


def python(tree: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": f"{tree / 'src'}:{ROOT / 'tests'}"},
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=40,
        check=True,
    )
    return done.stdout


def test_a_counter_added_to_one_file_is_found_everywhere(tree: Path, tmp_path: Path) -> None:
    assert int(python(tree, "-c", ON_THE_WIRE)) >= 0

    out = tmp_path / "recording"
    done = run_gpuwatch("record", "--out", out, "--for", "4s", PYTHONPATH=str(tree / "src"))
    assert done.returncode == 0, done.stderr
    (file,) = (out / "seg").rglob("*node.parquet")
    column = pl.read_parquet(file)["tcp_active_opens"]
    assert column.dtype == pl.Int64
    assert column.null_count() == 0

    # The scene's node does not have it: its name stands among those without a value.
    assert "tcp_active_opens" in python(tree, "-c", ON_THE_SCREEN).split()

    python(tree, "docs/generate.py")
    assert "tcp_active_opens" in (tree / "docs/metrics.md").read_text()
