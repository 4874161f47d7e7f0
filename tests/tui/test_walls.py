"""What is drawn depends on the scene alone: no widget reads a clock, does I/O or knows a replay."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuwatch.tui

ROOM = Path(gpuwatch.tui.__file__).parent
DRAWN = sorted(
    [*(path for room in ("paint", "screens", "widgets") for path in (ROOM / room).glob("*.py"))]
    + [ROOM / f"{name}.py" for name in ("scene", "sink", "history", "filter")]
)
FORBIDDEN = {
    "asyncio", "io", "logging", "os", "pathlib", "random", "shutil", "socket", "subprocess", "tempfile",
    "threading", "time", "gpuwatch.cli", "gpuwatch.engine", "gpuwatch.feed", "gpuwatch.job",
    "gpuwatch.recording", "gpuwatch.transport",
}  # fmt: skip
DATA = {"gpuwatch.job.types"}
"""Only says what a job file holds."""
CALLS = {"now", "open", "print", "set_interval", "set_timer", "today", "utcnow"}
"""What reads a clock or a file without an import that says so."""


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def called(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(name) | ast.Attribute(attr=name):
                    yield name


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)
def test_what_draws_reads_no_clock_does_no_io_and_knows_no_replay(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    names = [name for name in imported(tree) if name not in DATA]
    rooms = {".".join(name.split(".")[:parts]) for name in names for parts in (1, 2)}
    assert not rooms & FORBIDDEN
    assert not CALLS & set(called(tree))
