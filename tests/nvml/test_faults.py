"""What the GPU source does when NVML or a GPU misbehaves: the agent goes on without it."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvml.loop import Loop, ended, live, state, wait_for
from nvml.sim import Sim

LOST, MISMATCH = 15, 18


def test_a_lost_gpu_leaves_the_others_live(sim: Sim, loop: Loop) -> None:
    """E18, while it is watched; it may come back."""
    sim.count = 3
    sim.write()
    loop.until(lambda r: live(r) and len(r["gpu"]) == 3)
    sim.fault("*", f"error {LOST}", gpu=1)
    reading = loop.until(lambda r: live(r) and r["gpu"][1]["util_pct"] is None)
    lost = reading["gpu"][1]
    assert lost.pop("gpu") == 1
    assert lost.pop("uuid") == "GPU-00000000-0000-0000-0000-000000000001"
    assert lost.pop("model")
    assert lost.pop("gpu_lost") == 1
    assert (lost.pop("xid"), lost.pop("xids")) == (0, 0)
    assert set(lost.values()) == {None}
    assert reading["gpu"][0]["util_pct"] == reading["gpu"][2]["util_pct"] == 0
    assert reading["missing"] == {"nvml.gpu1": "GPU is lost"}
    sim.heal()
    assert loop.until(lambda r: live(r) and r["gpu"][1]["gpu_lost"] == 0)["missing"] == {}


def test_a_gpu_lost_from_the_start_has_its_row(sim: Sim, sim_env: dict[str, str]) -> None:
    """E18, at its handle."""
    sim.count = 2
    sim.fault("nvmlDeviceGetHandleByIndex_v2", f"error {LOST}", gpu=0)
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(live)
    assert [g["power_w"] for g in reading["gpu"]] == [None, 70]
    assert [g["gpu_lost"] for g in reading["gpu"]] == [1, 0]
    assert reading["missing"] == {"nvml.gpu0": "GPU is lost"}


def test_a_smaller_count_is_told(sim: Sim, loop: Loop) -> None:
    """E20: 8, then 7."""
    sim.count = 8
    sim.write()
    loop.until(lambda r: live(r) and len(r["gpu"]) == 8)
    sim.count = 7
    sim.write()
    reading = loop.until(lambda r: live(r) and r["node"] == [{"gpu_count": 7}])
    assert [gpu["gpu_lost"] for gpu in reading["gpu"]] == [0] * 7 + [1]
    assert reading["gpu"][7]["uuid"] == "GPU-00000000-0000-0000-0000-000000000007"
    assert reading["missing"] == {
        "nvml.gpu_count": "7 of 8 GPUs first seen",
        "nvml.gpu7": "no longer listed by the driver",
    }


def test_a_hung_call_is_a_silence_then_recovers(sim: Sim, loop: Loop) -> None:
    """E22, E23: what was told before counts no more."""
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
    """E14, and E26: it recovers."""
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
    """E22: SIGKILL has no effect."""
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


def test_a_driver_slow_under_load_is_told_and_not_started_again(
    sim: Sim, sim_env: dict[str, str]
) -> None:
    """E25, E27: one child, however long a call takes."""
    with ended(Loop(sim_env, deadline_s=30)) as loop:
        child = loop.until(live)["child"]
        sim.fault("nvmlDeviceGetPowerUsage", "sleep 1.2")
        reading = loop.until(lambda r: "nvml.driver" in r["missing"])
        assert reading["missing"]["nvml.driver"] == "slow: over 1 s a look"
        silent = loop.until(lambda r: "nvml" in r["missing"])
        assert (silent["missing"], silent["child"]) == ({"nvml": "no answer for 0 s"}, child)
        assert silent["util"] == {}
        sim.heal()
        again = loop.until(lambda r: live(r) and "nvml.driver" not in r["missing"])
        assert (again["missing"], again["child"]) == ({}, child)
