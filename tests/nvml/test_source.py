"""The GPU source against the simulation: what it reads, and what it does when NVML misbehaves."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nvml.sim import Sim

SRC = str(Path(__file__).parents[2] / "src")
LOOP = str(Path(__file__).with_name("reader_loop.py"))
NOT_SUPPORTED, LOST, MISMATCH, NO_FUNCTION = 3, 15, 18, 13


class Loop:
    """A running reader_loop.py."""

    def __init__(self, env: dict[str, str], interval_s: float = 0.1, first_s: float = 10) -> None:
        self._process = subprocess.Popen(
            [sys.executable, LOOP, str(interval_s), str(first_s)],
            env={**env, "PYTHONPATH": SRC},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def until(self, holds: Callable[[dict[str, Any]], object], within_s: float = 20) -> Any:
        """Return the first reading for which something holds."""
        deadline = time.monotonic() + within_s
        assert self._process.stdout is not None
        line = ""
        while time.monotonic() < deadline:
            line = self._process.stdout.readline()
            assert line, "the reader ended"
            reading = json.loads(line)
            assert reading["took_s"] < 1, "the reader waited"
            if holds(reading):
                return reading
        pytest.fail(f"never came; last: {line}")

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def loop(sim: Sim, sim_env: dict[str, str]) -> Iterator[Loop]:
    running = Loop(sim_env)
    yield running
    running.end()


def state(pid: int) -> str:
    """State letter of a process, "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def wait_for(holds: Callable[[], object], within_s: float = 10) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "never came"
        time.sleep(0.01)


def live(reading: dict[str, Any]) -> bool:
    return "gpu" in reading


def test_all_metrics_of_a_computing_gpu(sim: Sim, loop: Loop) -> None:
    sim.phase(0, "compute", at=time.monotonic() - 60)
    sim.fix(0, memory_used=40 << 30, temperature_c=61)
    sim.process(0, os.getpid(), 39 << 30)
    sim.process(0, 2**22 + 1, 1 << 30)  # above every pid_max: lists of drivers hold dead ones
    reading = loop.until(lambda r: live(r) and r["gpu"][0]["util_pct"] == 99 and r["pids"])
    [gpu] = reading["gpu"]
    throttled, energy = gpu.pop("throttle_power_cap_ns"), gpu.pop("energy_mj")
    assert throttled >= 60e9
    assert energy >= 1e9 + 59 * 630_000
    assert gpu == {
        "gpu": 0,
        "uuid": "GPU-00000000-0000-0000-0000-000000000000",
        "model": "NVIDIA H100 80GB HBM3",
        "util_pct": 99,
        "memory_util_pct": 45,
        "memory_used_bytes": 40 << 30,
        "memory_total_bytes": 85520809984,
        "power_w": 630.0,
        "power_limit_w": 700.0,
        "sm_clock_mhz": 1841,
        "sm_clock_max_mhz": 1980,
        "temperature_c": 61,
        "event_reasons": 4,
        "throttle_sync_boost_ns": 0,
        "throttle_sw_thermal_ns": 0,
        "throttle_hw_thermal_ns": 0,
        "throttle_hw_brake_ns": 0,
        "pcie_gen": 5,
        "pcie_gen_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
    }
    assert reading["node"] == [{"gpu_count": 1}]
    held = {"gpu": 0, "pid": os.getpid(), "gpu_memory_bytes": 39 << 30}
    assert reading["gpu_process"] == [held]
    assert reading["pids"] == {str(os.getpid()): [0]}
    assert reading["util"] == {"0": 99}
    assert reading["missing"] == {}
    assert reading["child"] in reading["own"]


def test_one_failing_call_costs_its_metric_only(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.count = 2
    sim.phase(0, "spin", at=time.monotonic() - 60)
    sim.phase(1, "spin", at=time.monotonic() - 60)
    sim.fault("nvmlDeviceGetPowerUsage", f"error {NOT_SUPPORTED}")
    sim.fault("nvmlDeviceGetTemperature", f"error {NOT_SUPPORTED}", gpu=1)
    sim.fault("nvmlDeviceGetEnforcedPowerLimit", f"error {NOT_SUPPORTED}")
    sim.fault("nvmlDeviceGetCurrentClocksEventReasons", f"error {NO_FUNCTION}")
    sim.fault("nvmlDeviceGetMemoryInfo_v2", f"error {NO_FUNCTION}", gpu=0)
    sim.fix(0, memory_used=1 << 30, **{"field_error 271": NOT_SUPPORTED, "field_error 83": 3})
    sim.fix(0, temperature_c=40)
    sim.fix(1, util=808334905)
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(live)
    first, second = reading["gpu"]
    assert (first["util_pct"], first["power_w"], first["temperature_c"]) == (100, None, 40)
    assert (second["util_pct"], second["temperature_c"]) == (None, None)
    assert first["power_limit_w"] == 700  # the management limit
    assert first["event_reasons"] == 0
    assert first["memory_used_bytes"] == (1 << 30) + 538_000_000  # version 1
    assert first["energy_mj"] > 0  # by the call of its own
    assert second["throttle_hw_brake_ns"] == 0
    assert reading["util"] == {"0": 100, "1": None}
    assert reading["missing"] == {
        "nvml.power_w": "Not Supported",
        "nvml.temperature_c": "Not Supported (GPU 1)",
        "nvml.throttle_hw_brake_ns": "Not Supported (GPU 0)",
        "nvml.util_pct": "bad sample (GPU 1)",
    }


def test_mig_mode_is_the_reason_for_no_utilisation(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.count = 2
    sim.fix(1, mig=1)
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(live)
    assert [gpu["util_pct"] for gpu in reading["gpu"]] == [0, None]
    told = "not reported in MIG mode (GPU 1)"
    assert reading["missing"] == {"nvml.util_pct": told, "nvml.memory_util_pct": told}


def test_memory_that_does_not_add_up_is_missing(sim: Sim, loop: Loop) -> None:
    sim.fix(0, memory_total=128_500_000_000, memory_used=6_900_000_000, memory_free=8_000_000_000)
    reading = loop.until(lambda r: live(r) and r["gpu"][0]["memory_total_bytes"] is None)
    assert reading["gpu"][0]["memory_used_bytes"] is None
    assert "add up" in reading["missing"]["nvml.memory_used_bytes"]


def test_a_lost_gpu_leaves_the_others_live(sim: Sim, loop: Loop) -> None:
    sim.count = 3
    sim.write()
    loop.until(lambda r: live(r) and len(r["gpu"]) == 3)
    sim.fault("*", f"error {LOST}", gpu=1)
    reading = loop.until(lambda r: live(r) and r["gpu"][1]["util_pct"] is None)
    lost = reading["gpu"][1]
    assert lost.pop("gpu") == 1
    assert lost.pop("uuid") == "GPU-00000000-0000-0000-0000-000000000001"
    assert lost.pop("model")
    assert set(lost.values()) == {None}
    assert reading["gpu"][0]["util_pct"] == reading["gpu"][2]["util_pct"] == 0
    assert reading["missing"] == {"nvml.gpu1": "GPU is lost"}


def test_a_gpu_lost_from_the_start_has_its_row(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.count = 2
    sim.fault("nvmlDeviceGetHandleByIndex_v2", f"error {LOST}", gpu=0)
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(live)
    assert [g["power_w"] for g in reading["gpu"]] == [None, 70]
    assert reading["missing"] == {"nvml.gpu0": "GPU is lost"}


def test_a_smaller_count_is_told(sim: Sim, loop: Loop) -> None:
    sim.count = 8
    sim.write()
    loop.until(lambda r: live(r) and len(r["gpu"]) == 8)
    sim.count = 7
    sim.write()
    reading = loop.until(lambda r: live(r) and len(r["gpu"]) == 7)
    assert reading["node"] == [{"gpu_count": 7}]
    assert reading["missing"] == {"nvml.gpu_count": "7 of 8 GPUs first seen"}


def test_a_hung_call_is_a_silence_then_recovers(sim: Sim, loop: Loop) -> None:
    first = loop.until(live)["child"]
    sim.fault("nvmlDeviceGetUtilizationRates", "hang")
    reading = loop.until(lambda r: not live(r))
    assert reading["missing"] == {"nvml": "no answer for 0 s"}
    assert reading["util"] == {}
    assert reading["pids"] == {}
    wait_for(lambda: state(first) == "")
    sim.heal()
    reading = loop.until(live)
    assert reading["child"] not in (0, first)


def test_a_crash_of_the_library_is_told_and_survived(sim: Sim, loop: Loop) -> None:
    loop.until(live)
    sim.fault("nvmlDeviceGetPowerUsage", "crash")
    reading = loop.until(lambda r: "crashed" in r["missing"].get("nvml", ""))
    assert reading["missing"]["nvml"] == "the NVIDIA library crashed (signal 11)"
    sim.heal()
    assert loop.until(live)["missing"] == {}


def test_slow_start_of_the_driver_is_awaited(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.fault("nvmlInitWithFlags", "sleep 1.5")
    with ended(Loop(sim_env)) as loop:
        first = loop.until(lambda r: r["child"])["child"]
        assert loop.until(live)["child"] == first


def test_driver_and_library_that_differ_are_told_in_words(
    sim: Sim, sim_env: dict[str, str]
) -> None:
    sim.fault("nvmlInitWithFlags", f"error {MISMATCH}")
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(lambda r: r["missing"].get("nvml", "starting") != "starting")
        assert "driver was updated" in reading["missing"]["nvml"]
        assert "reboot" in reading["missing"]["nvml"]
        sim.heal()
        loop.until(live)


def test_no_library_is_absence(tmp_path: Path) -> None:
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    with ended(Loop(env)) as loop:
        reading = loop.until(lambda r: r["absent"] or live(r))
        if live(reading):
            pytest.skip("this machine has a GPU")
        assert reading["absent"].startswith("no libnvidia-ml.so.1")
        assert loop.until(lambda r: not r["dying"])["child"] == 0


def test_an_old_driver_without_process_list_3(sim: Sim, loop: Loop) -> None:
    sim.fault("nvmlDeviceGetComputeRunningProcesses_v3", f"error {NO_FUNCTION}")
    sim.process(0, os.getpid(), 1 << 30)
    assert loop.until(lambda r: r["pids"])["pids"] == {str(os.getpid()): [0]}


def test_the_child_dies_with_the_agent(sim: Sim, loop: Loop) -> None:
    child = loop.until(live)["child"]
    os.kill(loop.pid, signal.SIGKILL)
    wait_for(lambda: state(child) in ("", "Z"))


def test_a_hung_child_dies_with_the_agent(sim: Sim, loop: Loop) -> None:
    sim.fault("nvmlDeviceGetCount_v2", "hang")
    child = loop.until(lambda r: r["child"])["child"]
    os.kill(loop.pid, signal.SIGKILL)
    wait_for(lambda: state(child) in ("", "Z"))


def test_the_child_holds_nothing_but_its_pipe(sim: Sim, loop: Loop) -> None:
    child = loop.until(live)["child"]
    links = [str(entry.readlink()) for entry in Path(f"/proc/{child}/fd").iterdir()]
    others = [link for link in links if link != os.devnull]
    assert len(others) == 1
    assert others[0].startswith("pipe:")
    assert Path(f"/proc/{child}/comm").read_text() == "gpuwatch-nvml\n"


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Make a process that even SIGKILL does not end: frozen by a version 1 cgroup."""
    root = Path("/sys/fs/cgroup/freezer")
    folder = root / f"gpuwatch-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "cgroup.procs").write_text(str(pid))
        (folder / "freezer.state").write_text("FROZEN")
        wait_for(lambda: (folder / "freezer.state").read_text() == "FROZEN\n")
    except OSError as error:
        pytest.skip(f"no freezer of cgroup version 1: {error}")
    try:
        yield
    finally:
        (folder / "freezer.state").write_text("THAWED")
        wait_for(lambda: (folder / "cgroup.procs").read_text() == "")
        folder.rmdir()


def test_a_child_that_cannot_die_is_left_alone(sim: Sim, sim_env: dict[str, str]) -> None:
    with ended(Loop(sim_env)) as loop:
        child = loop.until(live)["child"]
        with frozen(child):
            stuck = loop.until(lambda r: r["dying"])
            assert (stuck["child"], stuck["dying"]) == (0, child)
            later = loop.until(lambda r: r["missing"]["nvml"] == "no answer for 2 s")
            assert (later["child"], later["dying"]) == (0, child)  # no second one
            with ended(Loop(sim_env)) as another:  # nor from another agent
                told = another.until(lambda r: "hangs" in r["missing"].get("nvml", ""))
                assert f"pid {child}" in told["missing"]["nvml"]
                assert told["child"] == 0
        loop.until(live)


@contextlib.contextmanager
def ended(loop: Loop) -> Iterator[Loop]:
    try:
        yield loop
    finally:
        loop.end()
