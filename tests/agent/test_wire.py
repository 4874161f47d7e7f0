"""Real agents: processes of their own that read a machine, speak the wire, and end."""

import itertools
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from agent.kit import ROOT, Agent, agent, unpack
from gpuwatch.agent import catalogue

FAST = {"interval_s": 0.2, "silence_s": 20}
EVERYWHERE = {"clock", "cpu", "memory", "tcp", "own", "softnet", "placement"}
"""Sources that any Linux machine has."""
VERSIONS = ("3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13")


def interpreter(version: str) -> str:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    python = str(found[-1]) if found else shutil.which(f"python{version}")
    if python is None:
        pytest.skip(f"there is no python{version} on this machine")
    return python


def well(running: Agent) -> bool:
    """Tell whether no source failed, and none is absent that any machine has."""
    reasons = running.reasons()
    failed = [why for why in reasons.values() if why.startswith("failed")]
    return not failed and not EVERYWHERE & set(reasons)


def ended(running: Agent, seconds: float = 5.0) -> int:
    return running.process.wait(timeout=seconds)


def close_stdin(running: Agent) -> None:
    assert running.process.stdin
    running.process.stdin.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_it_runs_under_each_python(version: str) -> None:
    """All sources, with a job, for as many ticks as the rarest of them need."""
    config = {**FAST, "interval_s": 0.05, "match": "gpuwatch", "agent_id": "ab" * 8}
    with agent(config, interpreter(version)) as running:
        running.wait_for("data", 12)
        hello = running.of("hello")[0]
        assert hello[1:3] == [catalogue.SCHEMA, "ab" * 8]
        assert hello[4]["python"].startswith(version + ".")
        assert well(running), running.reasons()
        close_stdin(running)
        running.rest()
        assert running.messages[-1] == ["bye", catalogue.SCHEMA, "the viewer closed the line"]
        assert ended(running) == 0
        assert running.process.stderr
        assert running.process.stderr.read() == b""


def test_what_it_says_of_this_machine() -> None:
    nice = max(5, os.getpriority(os.PRIO_PROCESS, 0))
    with agent({**FAST, "version": "1.2.3"}) as running:
        running.wait_for("data", 3)
        hello = running.of("hello")[0]
        facts = hello[4]
        assert hello[3] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert facts["hostname"] == os.uname().nodename
        assert facts["kernel"] == os.uname().release
        assert facts["uid"] == os.getuid()
        assert facts["cpus"] == len(os.sched_getaffinity(0))
        assert (facts["nice"], facts["interval_s"], facts["version"]) == (nice, 0.2, "1.2.3")
        assert running.messages[1][0] == "names"
        frames = running.of("data")
        assert [frame[2] for frame in frames] == list(range(len(frames)))
        node = running.node()
        assert node["cpu_user_ms"] > 0
        assert node["memory_total_bytes"] == facts["memory_bytes"]
        assert 5 < node["agent_descriptors"] < 600
        status = Path(f"/proc/{running.process.pid}/stat").read_text().rsplit(")")[1].split()
        assert int(status[16]) == nice
        assert Path(f"/proc/{running.process.pid}/cwd").readlink() == Path("/")


def test_the_schedule_is_absolute() -> None:
    with agent({**FAST, "interval_s": 0.25}) as running:
        running.wait_for("data", 8)
        times = [frame[4] for frame in running.of("data")]
        steps = [(t - times[0]) / 250000 for t in times]
        assert all(abs(step - round(step)) < 0.4 for step in steps)
        assert times == sorted(set(times))


def test_a_stopped_agent_does_not_make_up_for_lost_ticks() -> None:
    with agent(FAST) as running:
        running.wait_for("data", 2)
        os.kill(running.process.pid, signal.SIGSTOP)
        before = len(running.of("data"))
        gone = time.monotonic() + 1.5
        while time.monotonic() < gone:
            running._take(gone)
        os.kill(running.process.pid, signal.SIGCONT)
        running.wait_for("data", before + 4)
        times = [frame[4] for frame in running.of("data")]
        assert min(b - a for a, b in itertools.pairwise(times)) > 50000
        assert running.of("data")[-1][2] == len(times) - 1


def test_frames_tell_the_last_heartbeat() -> None:
    with agent(FAST) as running:
        first = running.wait_for("data")[0]
        assert first[6:8] == [-1, -1]
        running.say(b"\xff garbage \0\n" + b"x" * 5000 + b"\nbeat 41\nbeat nonsense\n")
        frames = running.wait_for("data", len(running.of("data")) + 4)
        assert frames[-1][6] == 41
        assert first[4] < frames[-1][7] <= frames[-1][4]


def test_silence_ends_it() -> None:
    with agent({**FAST, "silence_s": 1.0}) as running:
        running.wait_for("data")
        began = time.monotonic()
        running.rest()
        assert running.messages[-1][2] == "no word from the viewer for 1 s"
        assert ended(running) == 0
        assert time.monotonic() - began < 3


def test_heartbeats_keep_it() -> None:
    with agent({**FAST, "silence_s": 1.0}) as running:
        until = time.monotonic() + 2.5
        beats = 0
        while time.monotonic() < until:
            running.say(b"beat %d\n" % beats)
            beats += 1
            running.wait_for("data", len(running.of("data")) + 1)
        assert running.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_with_a_word(number: signal.Signals) -> None:
    with agent({**FAST, "interval_s": 30}) as running:
        running.wait_for("data")
        began = time.monotonic()
        running.process.send_signal(number)
        running.rest()
        assert running.messages[-1] == ["bye", catalogue.SCHEMA, f"signal {number.name}"]
        assert ended(running) == 0
        assert time.monotonic() - began < 1.5


def test_a_viewer_that_reads_no_more_ends_it() -> None:
    with agent({**FAST, "interval_s": 30}) as running:
        running.wait_for("data")
        assert running.process.stdout
        os.close(os.dup(running.process.stdout.fileno()))
        running.process.stdout.close()
        assert ended(running) == 0


def test_a_slow_viewer_loses_old_frames_and_is_told_how_many() -> None:
    with agent({**FAST, "interval_s": 0.1}) as running:
        assert running.process.stdout
        import fcntl

        fcntl.fcntl(running.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        running.wait_for("data", 1)
        time.sleep(3)  # the fault itself: nobody reads for so long
        running.wait_for("data", len(running.of("data")) + 25)
        sequences = [frame[2] for frame in running.of("data")]
        lost = sequences[-1] + 1 - len(sequences)
        assert lost > 5
        assert running.node()["agent_dropped_frames"] == lost
        assert sequences == sorted(sequences)


def test_a_reader_that_never_returns_costs_its_own_source_only(tmp_path: Path) -> None:
    unpack("ethernet", tmp_path)
    (tmp_path / "proc/pressure/io").unlink()
    os.mkfifo(tmp_path / "proc/pressure/io")
    with agent({**FAST, "silence_s": 60}, root=str(tmp_path)) as running:
        running.wait_for("data", 3)
        assert running.reasons()["pressure"] == "hangs: no answer"
        assert running.node()["cpu_user_ms"] == 4000
        assert running.node()["pressure_cpu_some_us"] is None


def test_it_ends_in_time_though_a_reader_never_returns(tmp_path: Path) -> None:
    unpack("ethernet", tmp_path)
    (tmp_path / "proc/uptime").unlink()
    os.mkfifo(tmp_path / "proc/uptime")
    with agent(FAST, root=str(tmp_path)) as running:
        running.wait_for("hello")
        close_stdin(running)
        began = time.monotonic()
        ended(running)
        assert time.monotonic() - began < 1.5


def test_few_descriptors_are_enough() -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))"
    with agent(FAST, prelude=limit) as running:
        running.wait_for("data", 3)
        assert running.node()["agent_descriptors"] <= 48
        assert well(running), running.reasons()


def test_it_writes_nothing_and_needs_no_home(tmp_path: Path) -> None:
    unpack("virtio", tmp_path)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with agent(FAST, root=str(tmp_path)) as running:
        running.wait_for("data", 3)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_it_is_python_3_6_throughout() -> None:
    command = ["-t=3.6-", "--no-tips", "--violations", str(ROOT / "src/gpuwatch/agent")]
    vermin = shutil.which("vermin", path=str(ROOT / ".venv/bin")) or shutil.which("vermin")
    assert vermin, "vermin is among the development tools"
    done = subprocess.run([vermin, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
