"""Real agents one of whose sources misbehaves, or whose home does: they tick on, and say so."""

import itertools
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.kit import ROOT, Agent, agent
from agent.test_mounts import Ask, fuse  # noqa: F401 - a fixture
from debian import needs

INTERVAL_S = 0.1
CONFIG: dict[str, Any] = {"interval_s": INTERVAL_S, "silence_s": 60}
BENT = """
import sys; sys.path.insert(0, {src!r})
from gpuwatch.agent import guard, main
from gpuwatch.agent.sources import memory
guard.REST_S, guard.STUCK_S, guard.SLOW_S, main.WATCH_S = (0.3, 1.0), 0.3, 0.03, 0.1
import time
read, times = memory.Reader.read, []
def bent(self):
    times.append(0)
    if len(times) <= {failures}:
        {fault}
    return read(self)
memory.Reader.read = bent
"""


def worst_gap_s(running: Agent, frames: int) -> float:
    """Return the longest time between two of the last frames."""
    times = [float(frame[4]) / 1e6 for frame in running.of("data")[-frames:]]
    return max(b - a for a, b in itertools.pairwise(times))


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("raise ValueError('secret')", "failed: ValueError in __main__, line "),
        ("raise MemoryError", "failed: MemoryError in __main__, line "),
        ("return None", "failed: its reading was garbage"),
        ("return memory.Reading([('node', (), (1,))], {})", "failed: its reading was garbage"),
        ("open('/proc/self/fd/0').read()", "failed: no answer in 0 s"),
        ("while True: pass", "failed: no answer in 0 s"),
    ],
)
def test_a_source_that_misbehaves_rests_and_is_tried_again(fault: str, says: str) -> None:
    """All others are read meanwhile; what is wrong is on the wire; then it is well again."""
    prelude = BENT.format(src=str(ROOT / "src"), failures=2, fault=fault)
    with agent(CONFIG, prelude=prelude) as running:
        told = []
        for count in itertools.count(1):
            running.wait_for("data", count)
            assert running.node()["cpu_user_ms"] is not None
            if running.node()["memory_total_bytes"] is not None:
                break
            told.append(running.reasons()["memory"])
        assert told[0].startswith(says)
        assert worst_gap_s(running, count) < 0.3 + 3 * INTERVAL_S
        running.wait_for("data", count + 4)
        assert "memory" not in running.reasons()
        assert worst_gap_s(running, 4) < INTERVAL_S * 2


def test_a_source_that_takes_long_is_named_and_read_all_the_same() -> None:
    prelude = BENT.format(src=str(ROOT / "src"), failures=1000, fault="time.sleep(0.05)")
    with agent(CONFIG, prelude=prelude) as running:
        running.wait_for("data", 6)
        assert running.reasons()["memory.time"].startswith("slow: ")
        assert running.node()["memory_total_bytes"] is not None
        assert worst_gap_s(running, 5) < INTERVAL_S * 2


@needs("sshfs", "sshfs")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_k26_an_agent_ticks_on_while_its_home_and_the_jobs_data_do_not_answer(
    fuse: tuple[int, Ask],  # noqa: F811
    tmp_path: Path,
) -> None:
    """Started in a home whose server then falls silent; a process of the job is stuck in it."""
    pid, ask = fuse
    home = tmp_path / "mnt"
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nexec nsenter -t {pid} -m /bin/sh -c "
        f"'cd {home} && HOME={home} exec {shutil.which('python3', path='/usr/bin') or sys.executable}"
        ' "$@"\' sh "$@"\n'
    )
    python.chmod(0o755)
    with agent({**CONFIG, "match": f"{home}/file"}, python=str(python)) as running:
        running.wait_for("data", 5)
        told = ask("stop")
        while not told["mounts"][f"mount {home} fuse.sshfs here:{tmp_path}/data"]["waiting"]:
            told = ask("read")
        before = len(running.of("data"))
        running.wait_for("data", before + 20)
        assert worst_gap_s(running, 20) < INTERVAL_S * 3
        failed = [why for why in running.reasons().values() if why.startswith("failed")]
        assert not failed
        assert "threads" not in running.reasons(), "the process that is stuck was found"
