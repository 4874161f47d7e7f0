"""The log's child beside a real agent: lines on the wire, a hang that costs nothing, a clean end."""

import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from agent.kit import Agent, agent
from gpuwatch.agent import catalogue
from gpuwatch.agent.frame import FLEETING
from gpuwatch.agent.log import NAME

IMPATIENT = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from gpuwatch.agent.sources import progress; progress.PATIENCE_S = 0.2"
)


def config(log: Path) -> dict[str, Any]:
    return {"interval_s": 0.2, "silence_s": 20, "log": str(log), "log_texts": [["step", "step "]]}


def line_of(running: Agent) -> Any:
    """Return what the newest frame says of the log's steps."""
    rows = running.of("data")[-1][8][catalogue.SCOPES.index("progress")]
    return rows[0][1] if rows else None


def until(running: Agent, holds: Callable[[], object]) -> None:
    for _ in range(60):
        running.wait_for("data", len(running.of("data")) + 1)
        if holds():
            return
    raise AssertionError(f"{line_of(running)}, {running.reasons()}")


def _tells(running: Agent, line: str) -> bool:
    return bool(line_of(running) == line)


def children(running: Agent) -> list[int]:
    pid = running.process.pid
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(c) for c in found if Path(f"/proc/{c}/comm").read_bytes().strip() == NAME]


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_new_lines_come_without_new_names_and_nothing_else_does(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("token hunter2\nstep 1\n")
    with agent(config(log)) as running:
        until(running, lambda: line_of(running) == "step 1")
        assert "progress" not in running.reasons()
        for step in range(2, 5):
            append(log, f"step {step}\ntoken hunter2\n")
            until(running, partial(_tells, running, f"step {step}"))
        assert running.node()["log_lines"] == 8
        places = [catalogue.SCOPES.index(scope) for scope in FLEETING]
        assert not any(names[3][place] for names in running.of("names") for place in places)
        assert "hunter2" not in json.dumps(running.messages)


def test_a_missing_log_is_told_with_its_path(tmp_path: Path) -> None:
    log = tmp_path / "none"
    with agent(config(log)) as running:
        reason = f"{log}: No such file or directory"
        until(running, lambda: running.reasons().get("progress") == reason)


def test_a_child_that_hangs_costs_no_tick_and_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1\n")
    with agent(config(log), prelude=IMPATIENT) as running:
        until(running, lambda: line_of(running) == "step 1")
        (first,) = children(running)
        os.kill(first, signal.SIGSTOP)
        began, frames = time.monotonic(), len(running.of("data"))
        until(running, lambda: "progress" in running.reasons())
        assert running.reasons()["progress"] == f"{log}: its file system does not answer"
        assert len(running.of("data")) - frames > (time.monotonic() - began) / 0.2 - 3
        append(log, "step 2\n")
        until(running, lambda: line_of(running) == "step 2")
        assert first not in children(running)
        assert len(children(running)) == 1


def test_without_a_log_there_is_no_child_and_no_reason() -> None:
    with agent({"interval_s": 0.2, "silence_s": 20}) as running:
        running.wait_for("data", 3)
        assert children(running) == []
        assert "progress" not in running.reasons()


def test_the_child_goes_with_the_agent_however_it_ends(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1\n")
    for number in (signal.SIGTERM, signal.SIGKILL):
        with agent(config(log)) as running:
            until(running, lambda: line_of(running) == "step 1")
            (child,) = children(running)
            running.process.send_signal(number)
            running.process.wait(10)
            deadline = time.monotonic() + 10
            while Path(f"/proc/{child}").exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
