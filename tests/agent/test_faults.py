"""Real agents one of whose sources misbehaves, or whose home does: they tick on, and say so."""

import itertools
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.kit import ROOT, Agent, agent, unpack
from agent.test_mounts import Ask, fuse  # noqa: F401 - a fixture
from debian import needs

INTERVAL_S = 0.1
CONFIG: dict[str, Any] = {"interval_s": INTERVAL_S, "silence_s": 60}
BENT = """
import sys; sys.path.insert(0, {src!r})
from gpuwatch.agent import crew, guard
from gpuwatch.agent.sources import memory
guard.REST_S, guard.STUCK_S, guard.SLOW_S, crew.WATCH_S = (0.3, 1.0), 0.3, 0.03, 0.1
import os, signal, time
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


def until_well(running: Agent) -> list[str]:
    """Wait until the bent source is read again; return the reason of each frame before."""
    told = []
    for count in itertools.count(1):
        running.wait_for("data", count)
        assert running.node()["cpu_user_ms"] is not None, "all others are read meanwhile"
        if running.node()["memory_total_bytes"] is not None:
            break
        told.append(running.reasons()["memory"])
    return told


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("raise ValueError('secret')", "failed: ValueError in __main__, line "),
        ("raise MemoryError", "failed: MemoryError in __main__, line "),
        ("return None", "failed: its reading was garbage"),
        ("return memory.Reading([('node', (), (1,))], {})", "failed: its reading was garbage"),
    ],
)
def test_a_source_that_misbehaves_rests_and_is_tried_again(fault: str, says: str) -> None:
    """What is wrong is on the wire; then it is well again."""
    prelude = BENT.format(src=str(ROOT / "src"), failures=2, fault=fault)
    with agent(CONFIG, prelude=prelude) as running:
        assert all(why.startswith(says) for why in until_well(running))
        running.wait_for("data", len(running.of("data")) + 4)
        assert "memory" not in running.reasons()


@pytest.mark.parametrize(
    ("fault", "held_up_s"),
    [
        ("os.read(os.pipe()[0], 1)", 0.05),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM}); time.sleep(0.6)", 0.05),
        ("while True: pass", 0.75),
    ],
    ids=["in the kernel", "in the kernel, out of a signal's reach", "in a loop"],
)
def test_a_source_that_hangs_holds_no_tick_up_and_is_tried_again(
    fault: str, held_up_s: float
) -> None:
    """One that hangs in a loop, which is our own fault, may hold one tick up."""
    prelude = BENT.format(src=str(ROOT / "src"), failures=2, fault=fault)
    with agent(CONFIG, prelude=prelude) as running:
        told = until_well(running)
        assert set(told) <= {"hangs: no answer", "failed: no answer in 0 s"}
        assert told[-1] == "failed: no answer in 0 s"
        assert worst_gap_s(running, len(told)) < held_up_s + 5 * INTERVAL_S
        running.wait_for("data", len(running.of("data")) + 4)
        assert "memory" not in running.reasons()


def test_what_hangs_before_the_clock_runs_is_ended_by_the_kernel(tmp_path: Path) -> None:
    unpack("ethernet", tmp_path)
    (tmp_path / "proc/sys/kernel/hostname").unlink()
    os.mkfifo(tmp_path / "proc/sys/kernel/hostname")
    soon = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import gpuwatch.agent.main as m; m.START_S = 1"
    with agent(CONFIG, root=str(tmp_path), prelude=soon) as running:
        running.rest()
        assert not running.messages
        assert running.process.wait(5) == -signal.SIGALRM


def test_a_source_that_takes_long_is_named_and_read_all_the_same() -> None:
    prelude = BENT.format(src=str(ROOT / "src"), failures=1000, fault="time.sleep(0.05)")
    with agent(CONFIG, prelude=prelude) as running:
        running.wait_for("data", 6)
        assert running.reasons()["memory.time"].startswith("slow: ")
        assert running.node()["memory_total_bytes"] is not None
        assert worst_gap_s(running, 5) < INTERVAL_S * 3


@needs("sshfs", "sshfs")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_k26_an_agent_ticks_on_while_its_home_and_the_jobs_data_do_not_answer(
    fuse: tuple[int, Ask],  # noqa: F811
    tmp_path: Path,
) -> None:
    """Started in a home whose server falls silent, with a process of the job stuck in it.

    And though a source looks there, which none should: no signal brings it back, but the server does.
    """
    pid, ask = fuse
    home = tmp_path / "mnt"
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nexec nsenter -t {pid} -m /bin/sh -c "
        f"'cd {home} && HOME={home} exec {shutil.which('python3', path='/usr/bin') or sys.executable}"
        ' "$@"\' sh "$@"\n'
    )
    python.chmod(0o755)
    look = f"os.path.exists('{home}/%f' % time.time())"
    prelude = BENT.format(src=str(ROOT / "src"), failures=10**9, fault=look)
    config = {**CONFIG, "match": f"{home}/file"}
    with agent(config, python=str(python), prelude=prelude) as running:
        running.wait_for("data", 5)
        assert "memory" not in running.reasons()
        told = ask("stop")
        while not told["mounts"][f"mount {home} fuse.sshfs here:{tmp_path}/data"]["waiting"]:
            told = ask("read")
        before = len(running.of("data"))
        running.wait_for("data", before + 20)
        assert worst_gap_s(running, 20) < INTERVAL_S * 3
        assert running.reasons()["memory"] == "hangs: no answer"
        assert not [why for why in running.reasons().values() if why.startswith("failed")]
        assert "threads" not in running.reasons(), "the process that is stuck was found"
        ask("go")
        while "memory" in running.reasons():
            running.wait_for("data", len(running.of("data")) + 1)
