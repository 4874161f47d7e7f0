"""GPM, sample buffers, errors and links of the simulation, seen through the real pynvml."""

import itertools
import time

import pytest

from nvml.sim import Sim
from nvml.test_sim import read

HELD = 0.25
"""Seconds between two GPM samples: they are taken each 100 ms."""


@pytest.mark.parametrize(
    ("kind", "sm", "tensor", "dram", "wire"),
    [("compute", 91, 47, 52, 0), ("spin", 18, 0, 1, 0), ("copy", 22, 0, 12, 8000)],
)
def test_gpm_tells_work_from_waiting(
    sim: Sim, sim_env: dict[str, str], kind: str, sm: int, tensor: int, dram: int, wire: int
) -> None:
    sim.phase(0, kind, at=time.monotonic() - 60)
    metrics = read(sim_env, f"gpm(device, {HELD})")
    assert {status for status, _ in metrics} == {0}
    values = [value for _, value in metrics]
    assert [values[0], values[2], values[3], values[6], values[7]] == [sm, tensor, dram, wire, wire]


def test_gpm_is_the_mean_between_its_samples(sim: Sim, sim_env: dict[str, str]) -> None:
    began = time.monotonic()
    sim.phase(0, "spin", at=began - 60)
    for step in range(120):  # 50 ms of each, for as long as the process may take to start
        sim.phase(0, "spin" if step % 2 else "compute", at=began + step * 0.05)
    [_, _, (_, tensor), *_] = read(sim_env, "gpm(device, 1)")
    assert tensor == pytest.approx(47 / 2, abs=1.2)  # an odd step at the end


def test_gpm_needs_time_between_its_samples(sim: Sim, sim_env: dict[str, str]) -> None:
    both = "[gpm(device, 0) for _ in range(3)]"
    no_data = [[21, 0]] * 8
    assert no_data in read(sim_env, both)


def test_gpm_is_hoppers_or_as_the_switch_says(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.count = 4
    sim.fix(1, name="NVIDIA A100-SXM4-80GB")
    sim.fix(2, gpm=0)
    sim.fix(3, gpm_sm=250, nvlink_links=0)
    expression = f"""[(nvmlGpmQueryDeviceSupport(d).isSupportedDevice, ask(lambda: gpm(d, {HELD})))
        for d in map(nvmlDeviceGetHandleByIndex, range(4))]"""
    (has, metrics), a100, switched, odd = read(sim_env, expression)
    assert has == 1
    assert metrics == [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert a100 == switched == [0, "error 3"]
    assert odd[1][0] == [0, 250]
    assert [status for status, _ in odd[1]] == [0] * 6 + [3, 3]


def test_power_samples_show_phases_that_the_average_hides(
    sim: Sim, sim_env: dict[str, str]
) -> None:
    began = time.monotonic()
    for step in range(60):
        sim.phase(0, "compute" if step % 4 else "spin", at=began - 4 + step * 0.2)
    samples = (
        """[(s.timeStamp, s.sampleValue.uiVal) for s in nvmlDeviceGetSamples(device, 0, 0)[1]]"""
    )
    found = read(sim_env, samples)
    assert len(found) == 120
    times = [at for at, _ in found]
    assert {round(b - a, -4) for a, b in itertools.pairwise(times)} == {100_000}
    assert abs(times[-1] / 1e6 - time.time()) < 5
    recent = [milliwatts for _, milliwatts in found[-16:]]
    assert (min(recent), max(recent)) == (154_000, 630_000)


def test_samples_since_the_last_seen(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.phase(0, "spin", share=0.4, at=time.monotonic() - 60)
    expression = """(lambda kind, samples: [kind, len(samples), samples[-1].sampleValue.uiVal,
        len(nvmlDeviceGetSamples(device, 1, samples[-4].timeStamp)[1]),
        ask(lambda: nvmlDeviceGetSamples(device, 1, samples[-1].timeStamp + 10**7))])(
        *nvmlDeviceGetSamples(device, 1, 0))"""
    kind, count, value, later, none = read(sim_env, expression)
    assert (kind, count, value) == (1, 120, 40)
    assert later in (3, 4)  # another may have come meanwhile
    assert none == "error 6"


def test_no_samples_of_a_gpu_in_mig_mode(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.fix(0, mig=1)
    expression = "[ask(lambda: nvmlDeviceGetSamples(device, 1, 0)), nvmlDeviceGetMigMode(device)]"
    assert read(sim_env, expression) == ["error 3", [1, 1]]


def test_errors_links_and_modes(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.fix(0, nvlink_down=2, ecc_uncorrected=3, compute_mode=3, decoder=17)
    sim.field(0, 52, 9)
    sim.field(0, 144, 1)
    expression = """[
        sum(nvmlDeviceGetNvLinkState(device, link) for link in range(18)),
        ask(lambda: nvmlDeviceGetNvLinkState(device, 18)),
        nvmlDeviceGetNvLinkRemoteDeviceType(device, 0), nvmlDeviceGetNvLinkErrorCounter(device, 0, 0),
        nvmlDeviceGetTotalEccErrors(device, 1, 0), nvmlDeviceGetTotalEccErrors(device, 0, 0),
        nvmlDeviceGetComputeMode(device), nvmlDeviceGetDecoderUtilization(device)[0],
        nvmlDeviceGetEncoderUtilization(device)[0],
        [(f.nvmlReturn, f.value.ullVal) for f in nvmlDeviceGetFieldValues(device, [52, 144, 91, 94, 16])]]"""
    assert read(sim_env, expression) == [
        16, "error 2", 2, 9, 3, 0, 3, 17, 0, [[0, 9], [0, 1], [0, 18], [0, 0], [3, 0]],
    ]  # fmt: skip


def test_bytes_are_counted_by_link_and_for_all(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.phase(0, "copy", at=time.monotonic() - 30)
    sim.phase(0, "spin", at=time.monotonic() - 20)
    expression = """[f.value.ullVal for f in
        nvmlDeviceGetFieldValues(device, [(138, 0xFFFFFFFF), (138, 0), (198, 0)])]"""
    every, one, pcie = read(sim_env, expression)
    assert every == pytest.approx(10 * 8000 * 1024, rel=0.001)
    assert one == every // 18
    assert pcie == pytest.approx(10 * 5000 * 2**20, rel=0.01)


def test_an_xid_reaches_who_registered_before_it(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.count = 2
    sim.xid(1, 31)
    expression = """(lambda events, path: [
        nvmlDeviceRegisterEvents(nvmlDeviceGetHandleByIndex(1), nvmlEventTypeXidCriticalError, events),
        ask(lambda: nvmlEventSetWait(events, 0)),
        path.write_text(path.read_text() + "gpu 1 xid 79 %f\\n" % __import__("time").monotonic()),
        (lambda e: [e.eventType, e.eventData])(nvmlEventSetWait(events, 1000)),
        ask(lambda: nvmlEventSetWait(events, 0)), nvmlEventSetFree(events)])(
        nvmlEventSetCreate(), __import__("pathlib").Path(__import__("os").environ["GPUWATCH_SIM_STATE"]))"""
    _, earlier, _, event, later, _ = read(sim_env, expression)
    assert (earlier, event, later) == ("error 10", [8, 79], "error 10")


def test_processes_as_each_version_lists_them(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.process(0, 4242, 7 << 30)
    sim.process(0, 4243, 1 << 30)
    expression = """(lambda c, count, one: [
        [c.CDLL("libnvidia-ml.so.1").nvmlDeviceGetComputeRunningProcesses(
            device, c.byref(count), one), one[0], one[1], one[2], one[3]],
        [(p.pid, p.usedGpuMemory) for p in nvmlDeviceGetComputeRunningProcesses_v2(device)]])(
        *(lambda c: (c, c.c_uint(2), (c.c_ulonglong * 4)()))(__import__("ctypes")))"""
    first, second = read(sim_env, expression)
    assert first == [0, 4242, 7 << 30, 4243, 1 << 30]
    assert second == [[4242, 7 << 30], [4243, 1 << 30]]
