"""What a checker on its own cannot see: what an import brings along, sizes, leftovers, the lock."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gpuwatch"
HEAVY = {"textual", "rich", "polars", "asyncssh", "asyncio", "matplotlib"}

# For each room: which of the heavy packages its import may bring along.
MAY_BRING = {
    "cli": HEAVY - {"textual", "rich", "matplotlib"},
    "errors": set(),
    "agent": set(),
    "errand": set(),
    "model": set(),
    "verdict": set(),
    "job": set(),
    "report": {"asyncio"},
    "preflight": {"asyncio", "asyncssh"},
    "engine": {"asyncio"},
    "recording": {"asyncio", "polars"},
    "transport": {"asyncio", "asyncssh"},
    "feed": {"asyncio", "asyncssh", "polars"},
    "tui": HEAVY - {"asyncssh", "matplotlib"},
}


def loaded_by(code: str, *options: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has after running `code`."""
    ask = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", *options, "-c", ask], stdout=subprocess.PIPE, text=True, check=True
    )
    return set(done.stdout.split())


def modules_of(room: str) -> list[str]:
    """Return the import names of all modules of one room."""
    single = SOURCE / f"{room}.py"
    files = [single] if single.exists() else sorted((SOURCE / room).rglob("*.py"))
    names = (".".join(f.relative_to(ROOT / "src").with_suffix("").parts) for f in files)
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def files_of_the_project() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return [p for name in listed.stdout.splitlines() if (p := ROOT / name).is_file()]


def test_every_room_is_listed() -> None:
    rooms = {p.parent.name for p in SOURCE.glob("*/__init__.py")} | {
        p.stem for p in SOURCE.glob("*.py") if not p.stem.startswith("__")
    }
    assert rooms == set(MAY_BRING)


@pytest.mark.parametrize("room", MAY_BRING)
def test_a_room_brings_along_only_what_it_may(room: str) -> None:
    code = "\n".join(f"import {name}" for name in modules_of(room))
    assert loaded_by(code) & HEAVY <= MAY_BRING[room]


def test_the_command_line_loads_nothing_heavy_before_it_knows_the_command() -> None:
    assert not loaded_by("import gpuwatch.cli") & HEAVY


def test_the_agent_needs_nothing_but_the_standard_library_and_itself() -> None:
    code = "\n".join(f"import {name}" for name in modules_of("agent"))
    brought = loaded_by(code, "-I", "-S") - loaded_by("", "-I", "-S")
    own = {m for m in brought if m == "gpuwatch" or m.startswith("gpuwatch.agent")}
    foreign = {m.partition(".")[0] for m in brought - own} - set(sys.stdlib_module_names)
    assert own
    assert not foreign


def test_files_stay_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in files_of_the_project()
        if path.suffix == ".py" and (lines := path.read_text("utf-8").count("\n")) >= 400
    }
    assert not long


def test_nothing_is_left_for_later() -> None:
    mark = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
    left = [
        str(path.relative_to(ROOT))
        for path in files_of_the_project()
        if path.suffix in {".py", ".md", ".toml", ".sh", ".c", ".tcss", ""}
        and mark.search(path.read_text("utf-8", errors="replace"))
    ]
    assert not left


def test_the_lock_pins_and_hashes_all_that_the_project_asks_for() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    asked = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    pinned = set(re.findall(r"^([a-z0-9-]+)==\S+", lock, re.MULTILINE))
    names = {re.split(r"[^A-Za-z0-9-]", entry)[0].lower() for entry in asked}
    assert names <= pinned
    assert "://" not in lock
    entries = re.split(r"\n(?=[a-z0-9])", lock.strip())
    assert all("--hash=sha256:" in entry for entry in entries)
