"""The simulation behaves as NVML does, seen through the real pynvml in a process of its own."""

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from nvml.sim import Sim

READ = """
import json, sys
import pynvml as n
def ask(call):
    try:
        answer = call()
    except n.NVMLError as error:
        return "error %d" % error.value
    return answer.decode() if isinstance(answer, bytes) else answer
n.nvmlInit()
device = n.nvmlDeviceGetHandleByIndex(int(sys.argv[1]))
def gpm(device, seconds):
    import time
    request = n.c_nvmlGpmMetricsGet_t(version=1, numMetrics=len(GPM))
    request.sample1, request.sample2 = n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()
    n.nvmlGpmSampleGet(device, request.sample1)
    time.sleep(seconds)
    n.nvmlGpmSampleGet(device, request.sample2)
    for place, number in enumerate(GPM):
        request.metrics[place].metricId = number
    n.nvmlGpmMetricsGet(request)
    return [(m.nvmlReturn, round(m.value, 3)) for m in request.metrics[:len(GPM)]]
GPM = [2, 3, 5, 10, 20, 21, 60, 61]
names = dict(vars(n), device=device, gpm=gpm, ask=ask)
print(json.dumps(ask(lambda: eval(sys.argv[2], names))))
"""


def read(env: dict[str, str], expression: str, gpu: int = 0, expect: int = 0) -> Any:
    """Evaluate one pynvml expression; None where the process died as expected."""
    command = [sys.executable, "-c", READ, str(gpu), expression]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == expect, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def field(number: int) -> str:
    """Value of one field, or its error."""
    return f"[(f.nvmlReturn, f.value.ullVal) for f in nvmlDeviceGetFieldValues(device, [{number}])]"


@pytest.mark.parametrize(
    ("kind", "util", "watts"),
    [("compute", 99, 630), ("spin", 100, 154), ("copy", 100, 245), ("idle", 0, 133)],
)
def test_phase_becomes_readings(
    sim: Sim, sim_env: dict[str, str], kind: str, util: int, watts: int
) -> None:
    sim.phase(0, kind, at=time.monotonic() - 60)
    both = "[nvmlDeviceGetUtilizationRates(device).gpu, nvmlDeviceGetPowerUsage(device)]"
    assert read(sim_env, both) == [util, watts * 1000]


def test_power_is_an_average_over_a_second(sim: Sim, sim_env: dict[str, str]) -> None:
    began = time.monotonic()
    for step in range(40):
        sim.phase(0, "compute" if step % 2 else "spin", at=began - 4 + step * 0.1)
    watts = read(sim_env, "nvmlDeviceGetPowerUsage(device)") / 1000
    waited = time.monotonic() - began
    # half a second of each before the present, and the last phase (compute) ever since
    assert 154 + 0.4 * 476 <= watts <= 154 + (0.6 + waited) * 476


def test_share_scales_utilisation(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.phase(0, "spin", share=0.4, at=time.monotonic() - 60)
    assert read(sim_env, "nvmlDeviceGetUtilizationRates(device).gpu") == 40


def test_energy_is_the_integral_of_power_over_folded_phases(
    sim: Sim, sim_env: dict[str, str]
) -> None:
    began = time.monotonic()
    sim.fix(0, energy_mj=1000)
    sim.phase(0, "compute", at=began - 100)
    sim.phase(0, "idle", at=began - 60)
    [[status, energy]] = read(sim_env, field(83))
    known = 1000 + 40 * 630_000 + 60 * 133_000
    assert status == 0
    assert known - 0.1 * 133_000 <= energy <= known + (time.monotonic() - began) * 133_000


def test_event_reasons_have_times(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.phase(0, "throttled", at=time.monotonic() - 30)
    sim.phase(0, "idle", at=time.monotonic() - 20)
    [[status, thermal_ns]] = read(sim_env, field(270))
    assert (status, round(thermal_ns / 1e9)) == (0, 10)
    assert read(sim_env, field(74)) == [[0, 0]]


def test_fixed_readings_win(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.fix(0, util=808334905, power_mw=180000, name="NVIDIA A100 [red]", memory_used=5 << 30)
    expression = """[nvmlDeviceGetUtilizationRates(device).gpu, nvmlDeviceGetPowerUsage(device),
        nvmlDeviceGetName(device), nvmlDeviceGetMemoryInfo(device, nvmlMemory_v2).used,
        nvmlDeviceGetMemoryInfo(device).used]"""
    reserved = 538_000_000
    expected = [808334905, 180000, "NVIDIA A100 [red]", 5 << 30, (5 << 30) + reserved]
    assert read(sim_env, expression) == expected


def test_process_list(sim: Sim, sim_env: dict[str, str]) -> None:
    pairs = "[(p.pid, p.usedGpuMemory) for p in nvmlDeviceGetComputeRunningProcesses(device)]"
    assert read(sim_env, pairs) == []
    sim.process(0, 4242, 7 << 30)
    assert read(sim_env, pairs) == [[4242, 7 << 30]]


@pytest.mark.parametrize("code", [3, 4, 13, 15, 18, 999])
def test_any_call_fails_with_any_code(sim: Sim, sim_env: dict[str, str], code: int) -> None:
    sim.count = 2
    sim.fault("nvmlDeviceGetPowerUsage", f"error {code}", gpu=1)
    assert read(sim_env, "nvmlDeviceGetPowerUsage(device)", gpu=1) == f"error {code}"
    assert read(sim_env, "nvmlDeviceGetPowerUsage(device)") == 70_000


def test_one_field_fails_alone(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.fix(0, **{"field_error 271": 3})
    both = "[f.nvmlReturn for f in nvmlDeviceGetFieldValues(device, [271, 270])]"
    assert read(sim_env, both) == [3, 0]


def test_a_slow_call_answers_late(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.fault("nvmlDeviceGetPowerUsage", "sleep 0.5")
    began = time.monotonic()
    assert read(sim_env, "nvmlDeviceGetPowerUsage(device)") == 70_000
    assert time.monotonic() - began >= 0.5


def test_a_crash_is_a_crash(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.fault("nvmlDeviceGetPowerUsage", "crash")
    assert read(sim_env, "nvmlDeviceGetPowerUsage(device)", expect=-11) is None


def test_a_hang_lasts(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.fault("nvmlInitWithFlags", "hang")
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, "-c", READ, "0", "1"], env=sim_env, timeout=1.5, check=False
        )


def test_phases_without_a_time_are_remembered(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.path.write_text("gpu 0 phase compute\n")
    watch = """[(nvmlDeviceGetPowerUsage(device), __import__("pathlib").Path(
        __import__("os").environ["GPUWATCH_SIM_STATE"]).write_text("gpu 0 phase spin\\n"),
        nvmlDeviceGetPowerUsage(device))[i] for i in (0, 2)]"""
    before, after = read(sim_env, watch)
    assert before == 630_000
    assert after > 400_000  # the second before was compute
