"""What the GPU source reads from the simulation, through a real child."""

import os
import time

import pytest

from nvml.loop import Loop, ended, live
from nvml.sim import Sim

NOT_SUPPORTED, NO_PERMISSION, NO_FUNCTION = 3, 4, 13


def test_all_metrics_of_a_computing_gpu(sim: Sim, loop: Loop) -> None:
    sim.phase(0, "compute", at=time.monotonic() - 60)
    sim.fix(0, memory_used=40 << 30, temperature_c=61)
    sim.process(0, os.getpid(), 39 << 30)
    sim.process(0, 2**22 + 1, 1 << 30)  # above every pid_max: lists of drivers hold dead ones
    reading = loop.until(lambda r: live(r) and r["gpu"][0]["util_pct"] == 99 and r["pids"])
    [gpu] = reading["gpu"]
    throttled, energy = gpu.pop("throttle_power_cap_ns"), gpu.pop("energy_mj")
    assert gpu.pop("pcie_rx_bytes") == pytest.approx(60 * 250 * 2**20, rel=0.2)
    assert gpu.pop("pcie_tx_bytes") == pytest.approx(60 * 40 * 2**20, rel=0.2)
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
        "power_smoothing": 0,
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
        "util_mean_pct": 99,
        "power_mean_w": 630,
        "power_low_w": 630,
        "power_high_w": 630,
        "gpm_sm_pct": 91,
        "gpm_occupancy_pct": 36,
        "gpm_tensor_pct": 47,
        "gpm_dram_pct": 52,
        "gpm_pcie_rx_bytes_s": 262_100_000,
        "gpm_pcie_tx_bytes_s": 41_900_000,
        "gpm_nvlink_rx_bytes_s": 0,
        "gpm_nvlink_tx_bytes_s": 0,
        "nvlink_rx_bytes": 0,
        "nvlink_tx_bytes": 0,
        "nvlink_links": 18,
        "nvlink_up": 18,
        "nvlink_replays": 0,
        "nvlink_recoveries": 0,
        "nvlink_crc_errors": 0,
        "pcie_replays": 0,
        "ecc_uncorrected": 0,
        "retirement_pending": 0,
        "remap_failed": 0,
        "encoder_util_pct": 0,
        "decoder_util_pct": 0,
        "mig_mode": 0,
        "compute_mode": 0,
        "gpu_lost": 0,
        "xid": 0,
        "xids": 0,
    }
    assert reading["node"] == [{"gpu_count": 1}]
    held = {"gpu": 0, "pid": os.getpid(), "gpu_memory_bytes": 39 << 30}
    assert reading["gpu_process"] == [held]
    assert reading["pids"] == {str(os.getpid()): [0]}
    assert reading["util"] == {"0": 99}
    assert reading["missing"] == {}
    assert reading["child"] in reading["own"]


def test_one_failing_call_costs_its_metric_only(sim: Sim, sim_env: dict[str, str]) -> None:
    """E01 power, E03 the limit, E09 an insane utilisation, E16 reserved memory in version 1."""
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
    sim.fix(1, util=808334905)  # of E09
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
        "nvml.util_mean_pct": "bad sample (GPU 1)",
    }


def test_mig_mode_is_the_reason_for_no_utilisation(sim: Sim, sim_env: dict[str, str]) -> None:
    """E05, E07: one GPU of two is split. E08: its processes are listed."""
    sim.count = 2
    sim.process(1, os.getpid(), 1 << 30)
    sim.fix(1, mig=1)
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(lambda r: live(r) and r["pids"])
    assert reading["pids"] == {str(os.getpid()): [1]}
    assert [gpu["util_pct"] for gpu in reading["gpu"]] == [0, None]
    told = "not reported in MIG mode (GPU 1)"
    assert reading["missing"] == {
        "nvml.util_pct": told, "nvml.memory_util_pct": told, "nvml.samples": told,
    }  # fmt: skip
    assert [gpu["mig_mode"] for gpu in reading["gpu"]] == [0, 1]
    assert reading["gpu"][1]["gpm_sm_pct"] == 0


def test_memory_that_does_not_add_up_is_missing(sim: Sim, loop: Loop) -> None:
    """E30."""
    sim.fix(0, memory_total=128_500_000_000, memory_used=6_900_000_000, memory_free=8_000_000_000)
    reading = loop.until(lambda r: live(r) and r["gpu"][0]["memory_total_bytes"] is None)
    assert reading["gpu"][0]["memory_used_bytes"] is None
    assert "add up" in reading["missing"]["nvml.memory_used_bytes"]


@pytest.mark.parametrize("lacking", [["_v3"], ["_v3", "_v2"]])
def test_old_drivers_lists_of_processes(
    sim: Sim, sim_env: dict[str, str], lacking: list[str]
) -> None:
    """E17: version 3, 2, 1."""
    for version in lacking:
        sim.fault(f"nvmlDeviceGetComputeRunningProcesses{version}", f"error {NO_FUNCTION}")
    sim.process(0, os.getpid(), 1 << 30)
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(lambda r: r["pids"])
    assert reading["gpu_process"][0]["gpu_memory_bytes"] == 1 << 30


def test_no_list_of_processes_at_all(sim: Sim, sim_env: dict[str, str]) -> None:
    """E17: the rest stays."""
    for version in ("_v3", "_v2", ""):
        sim.fault(f"nvmlDeviceGetComputeRunningProcesses{version}", f"error {NO_FUNCTION}")
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(lambda r: live(r) and r["missing"])
    assert reading["missing"] == {"nvml.gpu_memory_bytes": "not in this driver"}
    assert reading["gpu"][0]["util_pct"] == 0


def test_phases_read_as_what_they_are(sim: Sim, sim_env: dict[str, str]) -> None:
    """E39: all read 100 %, GPM and power tell them apart."""
    sim.count = 3
    for gpu, kind in enumerate(("compute", "spin", "copy")):
        sim.phase(gpu, kind, at=time.monotonic() - 60)
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(live)
    names = ("util_pct", "power_w", "gpm_tensor_pct", "gpm_dram_pct", "gpm_nvlink_tx_bytes_s")
    assert [[gpu[name] for name in names] for gpu in reading["gpu"]] == [
        [99, 630, 47, 52, 0], [100, 154, 0, 1, 0], [100, 245, 0, 12, 8_388_600_000],
    ]  # fmt: skip
    assert reading["missing"] == {}


def test_samples_between_readings_show_a_step(sim: Sim, sim_env: dict[str, str]) -> None:
    """Half a second of compute and of spin each: the average hides what the samples show."""
    began = time.monotonic()
    for step in range(60):
        sim.phase(0, "compute" if step % 2 else "spin", at=began - 4 + step * 0.5)
    with ended(Loop(sim_env, interval_s=1)) as loop:
        [gpu] = loop.until(live)["gpu"]
    assert (gpu["power_low_w"], gpu["power_high_w"]) == (154, 630)
    assert 300 < gpu["power_mean_w"] < 480
    assert gpu["util_mean_pct"] > 98


def test_a_gpu_before_hopper_has_no_gpm(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.count = 2
    sim.fix(0, name="NVIDIA A100-SXM4-80GB")
    sim.phase(1, "compute", at=time.monotonic() - 60)
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(lambda r: live(r) and r["gpu"][1]["gpm_sm_pct"])
    assert reading["gpu"][0]["gpm_sm_pct"] is None
    assert reading["missing"] == {"nvml.gpm": "needs a Hopper GPU or later (GPU 0)"}


def test_gpm_that_only_root_may_read(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.fault("nvmlGpmSampleGet", f"error {NO_PERMISSION}")
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(live)
    assert set(reading["missing"]) == {"nvml.gpm"}
    assert "RmProfilingAdminOnly" in reading["missing"]["nvml.gpm"]
    assert reading["gpu"][0]["power_w"] == 70


def test_links_errors_and_modes(sim: Sim, sim_env: dict[str, str]) -> None:
    sim.count = 2
    sim.fix(0, nvlink_down=2, compute_mode=3, decoder=17, **{"field_error 144": NOT_SUPPORTED})
    for number, value in ((52, 9), (59, 8), (38, 7), (94, 6), (4, 5), (31, 1), (145, 1)):
        sim.field(0, number, value)
    sim.fix(0, **{"field_error 4": NOT_SUPPORTED}, ecc_uncorrected=5)
    sim.fix(1, nvlink_links=0)
    with ended(Loop(sim_env)) as loop:
        reading = loop.until(live)
    first, second = reading["gpu"]
    names = (
        "nvlink_links", "nvlink_up", "nvlink_replays", "nvlink_recoveries", "nvlink_crc_errors",
        "pcie_replays", "ecc_uncorrected", "retirement_pending", "remap_failed", "compute_mode",
        "decoder_util_pct",
    )  # fmt: skip
    assert [first[name] for name in names] == [18, 16, 9, 8, 7, 6, 5, 1, 1, 3, 17]
    assert [second[name] for name in names[:5]] == [None] * 5
    assert reading["missing"]["nvml.links"] == "no NVLink (GPU 1)"
    assert reading["missing"]["nvml.nvlink_replays"] == "Not Supported (GPU 1)"


def test_xids_are_told_and_counted(sim: Sim, loop: Loop) -> None:
    loop.until(live)
    sim.xid(0, 31)
    loop.until(lambda r: live(r) and r["gpu"][0]["xid"] == 31)
    sim.xid(0, 79)
    [gpu] = loop.until(lambda r: live(r) and r["gpu"][0]["xids"] == 2)["gpu"]
    assert gpu["xid"] == 79


def test_an_old_card_tells_little(sim: Sim, loop: Loop) -> None:
    """E04: utilisation and power N/A, fan and temperature only."""
    for call in ("GetUtilizationRates", "GetPowerUsage", "GetEnforcedPowerLimit",
                 "GetPowerManagementLimit", "GetSamples"):  # fmt: skip
        sim.fault(f"nvmlDevice{call}", f"error {NOT_SUPPORTED}")
    reading = loop.until(lambda r: live(r) and "nvml.power_limit_w" in r["missing"])
    [gpu] = reading["gpu"]
    assert (gpu["util_pct"], gpu["power_w"], gpu["power_limit_w"]) == (None, None, None)
    assert (gpu["temperature_c"], gpu["gpu_lost"]) == (35, 0)
    assert reading["util"] == {"0": None}
    assert reading["missing"]["nvml.util_pct"] == "Not Supported"
