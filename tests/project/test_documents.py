"""Documents follow from code: a row that is added anywhere is in them."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import COUNTER, Metric
from gpuwatch.cli.commands import COMMANDS
from gpuwatch.verdict.thresholds import Thresholds

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_new_row_of_a_source_is_documented(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Metric("sighs", "nic", COUNTER, "int", "1", "statistics/sighs", "Sighs | heard.")
    monkeypatch.setattr(catalogue, "ROWS", (*catalogue.ROWS, row))
    assert r"| `sighs` | counter | 1 | Sighs \| heard. | `statistics/sighs` |" in generate.metrics()


def test_every_row_command_and_threshold_is_in_its_document(generate: ModuleType) -> None:
    assert all(f"| `{row.name}` |" in generate.metrics() for row in catalogue.ROWS)
    assert all(f"## `gpuwatch {name}".rstrip() in generate.commands() for name in COMMANDS)
    assert all(f"| `{name}` |" in generate.verdicts() for name in Thresholds.__struct_fields__)


@pytest.mark.parametrize(
    "name",
    ["metrics.md", "commands.md", "verdicts.md", "report.schema.json", "compare.schema.json"],
)
def test_the_committed_document_is_up_to_date(generate: ModuleType, name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == generate.DOCUMENTS[name](), "run make docs"
