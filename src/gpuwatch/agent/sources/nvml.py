"""GPUs, read through NVML in a forked child that may hang or crash alone (agent/nvml).

A metric's locator says what the child calls; nvml/locator.py explains the words. Rows without one
are found here: whether a GPU is lost, and its errors.
"""

import time
from typing import Any, Dict, List, Optional, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import (
    COUNTER,
    GAUGE,
    LABEL,
    Absent,
    Metric,
    Reading,
    Value,
    Values,
    declared,
    number,
)
from gpuwatch.agent.nvml import addresses, doubts
from gpuwatch.agent.nvml.holders import held
from gpuwatch.agent.nvml.kernel_log import KernelLog
from gpuwatch.agent.nvml.locator import GROUPS, IS_LOST, MAX_GPUS, NOT_SUPPORTED
from gpuwatch.agent.nvml.parent import Probe, step
from gpuwatch.agent.nvml.xids import Xids

ROWS = (
    Metric("gpu", "gpu", LABEL, "int", "", "index", "Index as NVML counts."),
    Metric("uuid", "gpu", LABEL, "str", "", "nvmlDeviceGetUUID", "Unique id."),
    Metric("model", "gpu", LABEL, "str", "", "nvmlDeviceGetName", "Product name."),
    Metric("util_pct", "gpu", GAUGE, "int", "%", "nvmlDeviceGetUtilizationRates .gpu", "Share of the last sample period in which any kernel ran: 100 while spinning in a collective too.", high=100),
    Metric("memory_util_pct", "gpu", GAUGE, "int", "%", "nvmlDeviceGetUtilizationRates .memory", "Share of the last sample period in which device memory was read or written.", high=100),
    Metric("memory_used_bytes", "gpu", GAUGE, "int", "B", "nvmlDeviceGetMemoryInfo nvmlMemory_v2 .used | nvmlDeviceGetMemoryInfo .used", "Device memory in use, reserved memory left out where the driver tells it.", high=2**44),
    Metric("memory_total_bytes", "gpu", GAUGE, "int", "B", "nvmlDeviceGetMemoryInfo nvmlMemory_v2 .total | nvmlDeviceGetMemoryInfo .total", "Device memory.", high=2**44),
    Metric("power_w", "gpu", GAUGE, "float", "W", "nvmlDeviceGetPowerUsage", "Board power: a 1 s average on Ampere and later.", scale=0.001, high=20000),
    Metric("power_limit_w", "gpu", GAUGE, "float", "W", "nvmlDeviceGetEnforcedPowerLimit | nvmlDeviceGetPowerManagementLimit", "Enforced power limit.", scale=0.001, low=1, high=20000),
    Metric("power_smoothing", "gpu", GAUGE, "int", "1", "errors NVML_FI_PWR_SMOOTHING_ENABLED", "1 where power smoothing is on (Blackwell and later): then power may be held up while the GPU waits, and tells nothing of its work.", high=1),
    Metric("sm_clock_mhz", "gpu", GAUGE, "int", "MHz", "nvmlDeviceGetClockInfo NVML_CLOCK_SM", "SM clock.", high=20000),
    Metric("sm_clock_max_mhz", "gpu", GAUGE, "int", "MHz", "nvmlDeviceGetMaxClockInfo NVML_CLOCK_SM", "Largest SM clock.", low=1, high=20000),
    Metric("temperature_c", "gpu", GAUGE, "int", "degC", "nvmlDeviceGetTemperature NVML_TEMPERATURE_GPU", "Core temperature.", low=-50, high=200),
    Metric("event_reasons", "gpu", GAUGE, "int", "bits", "nvmlDeviceGetCurrentClocksEventReasons | nvmlDeviceGetCurrentClocksThrottleReasons", "Why clocks are what they are (nvmlClocksEventReasons), at this instant."),
    Metric("throttle_power_cap_ns", "gpu", COUNTER, "int", "ns", "field NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP", "Time below the wanted clock because of the power cap: evidence of compute."),
    Metric("throttle_sync_boost_ns", "gpu", COUNTER, "int", "ns", "field NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST", "Time held back by a sync boost group."),
    Metric("throttle_sw_thermal_ns", "gpu", COUNTER, "int", "ns", "field NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", "Time slowed by software because of heat."),
    Metric("throttle_hw_thermal_ns", "gpu", COUNTER, "int", "ns", "field NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", "Time slowed by hardware because of heat."),
    Metric("throttle_hw_brake_ns", "gpu", COUNTER, "int", "ns", "field NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", "Time slowed by the power brake."),
    Metric("energy_mj", "gpu", COUNTER, "int", "mJ", "field NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION | nvmlDeviceGetTotalEnergyConsumption", "Energy since the driver was loaded."),
    Metric("pcie_gen", "gpu", GAUGE, "int", "1", "nvmlDeviceGetCurrPcieLinkGeneration", "PCIe generation now; falls when idle.", low=1, high=16),
    Metric("pcie_gen_max", "gpu", GAUGE, "int", "1", "nvmlDeviceGetMaxPcieLinkGeneration", "PCIe generation that card and slot can do.", low=1, high=16),
    Metric("pcie_width", "gpu", GAUGE, "int", "1", "nvmlDeviceGetCurrPcieLinkWidth", "PCIe lanes now.", low=1, high=64),
    Metric("pcie_width_max", "gpu", GAUGE, "int", "1", "nvmlDeviceGetMaxPcieLinkWidth", "PCIe lanes that card and slot can do.", low=1, high=64),
    Metric("util_mean_pct", "gpu", GAUGE, "float", "%", "samples NVML_GPU_UTILIZATION_SAMPLES .mean", "Mean of the utilisation that the driver sampled since the last reading.", high=100),
    Metric("power_mean_w", "gpu", GAUGE, "float", "W", "samples NVML_TOTAL_POWER_SAMPLES .mean", "Mean of the power that the driver sampled since the last reading, several times a second.", scale=0.001, high=20000),
    Metric("power_low_w", "gpu", GAUGE, "float", "W", "samples NVML_TOTAL_POWER_SAMPLES .low", "Lowest of these samples: valleys between steps that an average of 1 s hides.", scale=0.001, high=20000),
    Metric("power_high_w", "gpu", GAUGE, "float", "W", "samples NVML_TOTAL_POWER_SAMPLES .high", "Highest of these samples.", scale=0.001, high=20000),
    Metric("gpm_sm_pct", "gpu", GAUGE, "float", "%", "gpm NVML_GPM_METRIC_SM_UTIL", "Share of SMs that had work, since the last reading (GPM: Hopper and later): a collective that waits keeps few busy.", high=100),
    Metric("gpm_occupancy_pct", "gpu", GAUGE, "float", "%", "gpm NVML_GPM_METRIC_SM_OCCUPANCY", "Warps resident on SMs, of those that fit (GPM).", high=100),
    Metric("gpm_tensor_pct", "gpu", GAUGE, "float", "%", "gpm NVML_GPM_METRIC_ANY_TENSOR_UTIL", "Share of time in which tensor cores worked (GPM): about 0 while waiting.", high=100),
    Metric("gpm_dram_pct", "gpu", GAUGE, "float", "%", "gpm NVML_GPM_METRIC_DRAM_BW_UTIL", "Device memory bandwidth used, of what there is (GPM).", high=100),
    Metric("gpm_pcie_rx_bytes_s", "gpu", GAUGE, "int", "B/s", "gpm NVML_GPM_METRIC_PCIE_RX_PER_SEC", "PCIe traffic to the GPU (GPM).", high=2**40),
    Metric("gpm_pcie_tx_bytes_s", "gpu", GAUGE, "int", "B/s", "gpm NVML_GPM_METRIC_PCIE_TX_PER_SEC", "PCIe traffic from the GPU (GPM).", high=2**40),
    Metric("gpm_nvlink_rx_bytes_s", "gpu", GAUGE, "int", "B/s", "gpm NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", "NVLink traffic to the GPU, all links (GPM).", high=2**43),
    Metric("gpm_nvlink_tx_bytes_s", "gpu", GAUGE, "int", "B/s", "gpm NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", "NVLink traffic from the GPU, all links (GPM).", high=2**43),
    Metric("pcie_rx_bytes", "gpu", COUNTER, "int", "B", "field NVML_FI_DEV_PCIE_COUNT_RX_BYTES", "PCIe bytes to the GPU; wraps."),
    Metric("pcie_tx_bytes", "gpu", COUNTER, "int", "B", "field NVML_FI_DEV_PCIE_COUNT_TX_BYTES", "PCIe bytes from the GPU; wraps."),
    Metric("nvlink_rx_bytes", "gpu", COUNTER, "int", "B", "field NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX all", "NVLink payload to the GPU, all links: before Hopper too.", scale=1024),
    Metric("nvlink_tx_bytes", "gpu", COUNTER, "int", "B", "field NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX all", "NVLink payload from the GPU, all links: before Hopper too.", scale=1024),
    Metric("nvlink_links", "gpu", GAUGE, "int", "1", "links .total", "NVLinks that the GPU has.", high=64),
    Metric("nvlink_up", "gpu", GAUGE, "int", "1", "links .up", "NVLinks that are up: fewer than its siblings have is a fault.", high=64),
    Metric("nvlink_replays", "gpu", COUNTER, "int", "1", "errors NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "Packets sent again over NVLink, all links."),
    Metric("nvlink_recoveries", "gpu", COUNTER, "int", "1", "errors NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL | errors NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS all", "Times that an NVLink was trained anew."),
    Metric("nvlink_crc_errors", "gpu", COUNTER, "int", "1", "errors NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "Broken flow control units on NVLink, all links."),
    Metric("pcie_replays", "gpu", COUNTER, "int", "1", "errors NVML_FI_DEV_PCIE_REPLAY_COUNTER | nvmlDeviceGetPcieReplayCounter", "Packets sent again over PCIe."),
    Metric("ecc_uncorrected", "gpu", COUNTER, "int", "1", "errors NVML_FI_DEV_ECC_DBE_VOL_TOTAL | nvmlDeviceGetTotalEccErrors NVML_MEMORY_ERROR_TYPE_UNCORRECTED NVML_VOLATILE_ECC", "Memory errors that ECC could not correct, since the driver was loaded."),
    Metric("retirement_pending", "gpu", GAUGE, "int", "1", "errors NVML_FI_DEV_REMAPPED_PENDING | errors NVML_FI_DEV_RETIRED_PENDING", "1 when bad memory waits for a reset of the GPU to be taken out of use.", high=1),
    Metric("remap_failed", "gpu", GAUGE, "int", "1", "errors NVML_FI_DEV_REMAPPED_FAILURE", "1 when bad memory could not be replaced: the board has to go.", high=1),
    Metric("encoder_util_pct", "gpu", GAUGE, "int", "%", "nvmlDeviceGetEncoderUtilization .0", "Utilisation of the video encoder, every few readings.", high=100),
    Metric("decoder_util_pct", "gpu", GAUGE, "int", "%", "nvmlDeviceGetDecoderUtilization .0", "Utilisation of the video decoder, every few readings.", high=100),
    Metric("mig_mode", "gpu", GAUGE, "int", "1", "nvmlDeviceGetMigMode .0", "1 when the GPU is split into MIG instances.", high=1),
    Metric("compute_mode", "gpu", GAUGE, "int", "1", "nvmlDeviceGetComputeMode", "Who may use it: 0 all, 2 nobody, 3 one process.", high=3),
    Metric("gpu_lost", "gpu", GAUGE, "int", "1", "", "1 when the driver says that the GPU is lost, or lists it no more; 0 when it answers.", high=1),
    Metric("xid", "gpu", GAUGE, "int", "1", "", "Number of the last critical error (Xid) that the kernel log or else the driver told since the agent began; 0: none.", high=65535),
    Metric("xids", "gpu", COUNTER, "int", "1", "", "Critical errors (Xid) told since the agent began."),
    Metric("gpu_count", "node", GAUGE, "int", "1", "nvmlDeviceGetCount", "GPUs that the driver lists."),
    Metric("gpu", "gpu_process", LABEL, "int", "", "index", "Index as NVML counts."),
    Metric("pid", "gpu_process", LABEL, "int", "", "nvmlDeviceGetComputeRunningProcesses .pid", "Process with a compute context, as the driver numbers it."),
    Metric("gpu_memory_bytes", "gpu_process", GAUGE, "int", "B", "nvmlDeviceGetComputeRunningProcesses .usedGpuMemory", "Device memory that it holds.", high=2**44),
)  # fmt: skip

VALUES = tuple(row for row in declared(ROWS, "gpu") if row.locator)
NAMES = tuple(row.name for row in VALUES)
TOGETHER = {
    kind: tuple(row.name for row in VALUES if row.locator.split()[0] == kind) for kind in GROUPS
}
"""Metrics that come together, and are told of together where they are missing."""
PLACE = {name: place for place, name in enumerate(NAMES)}
PERCENT = VALUES[PLACE["util_pct"]]
BYTES = ROWS[-1]
DIGITS = 3
"""Decimals of a value: scaling adds more that mean nothing and cost bytes."""
SLOW_S = 1.0
"""A look at the GPUs that takes longer is told."""
MOST_SEEN = 256
"""GPUs that are kept in mind; a node has 16 at most, which may be exchanged."""
GONE = "no longer listed by the driver"

Row = Tuple[str, Tuple[Any, ...], Values]
Labels = Tuple[int, Optional[str], Optional[str]]


class Gpu(object):
    """One GPU as it was last told.

    Attributes:
        labels: index, UUID and product name; the last two None where never told.
        values: in the order of VALUES.
        reasons: name to reason of those that are missing.
    """

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.values: List[Value] = [None] * len(VALUES)
        self.reasons: Dict[str, str] = {}
        self._answers: List[Any] = [None] * len(VALUES)

    def tell(self, answers: List[Any]) -> None:
        """Take raw answers, or reasons; most are as before, and not looked at again.

        Raises:
            ValueError: these are not as many as metrics.
        """
        if len(answers) != len(VALUES):
            raise ValueError("not as many answers as metrics")
        for place, answer in enumerate(answers):
            if answer != self._answers[place]:
                self.values[place], reason = value_of(VALUES[place], answer)
                self.reasons.pop(NAMES[place], None)
                if reason:
                    self.reasons[NAMES[place]] = reason
        self._answers = answers

    def told(self, name: str) -> Value:
        """Return one of its values."""
        return self.values[PLACE[name]]

    def reason(self) -> str:
        """Return the one reason why nothing is told of it, "" where something is."""
        reasons = set(self.reasons.values()) if len(self.reasons) == len(VALUES) else set()
        return reasons.pop() if len(reasons) == 1 else ""


class Reader(object):
    """Reads them.

    Args:
        host: its board gets the GPUs' utilisation and processes, and the child's pid.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.probe = Probe(host, [row.locator for row in VALUES], self.take)
        self._gpus: List[Gpu] = []
        self._kept: Dict[int, Gpu] = {}
        self._seen: Dict[str, Labels] = {}
        self._placed: Dict[str, int] = {}
        self._xids = Xids()
        self._xid_reason = ""
        self._log = KernelLog(host)
        self._loud = doubts.Loud()
        self._doubts: Dict[int, str] = {}
        self._load = doubts.load_file(host)
        self._held: List[Tuple[int, int, Optional[int]]] = []
        self._processes_reason = ""
        self._strangers = 0
        self._count = self._most = self._known = 0
        self._util_at = self._took_s = 0.0

    def sample(self) -> None:
        """Take what the child has written so far; never waits."""
        now = time.monotonic()
        self.probe.hear(now)
        self._forget_util(now)

    def read(self) -> Reading:
        """Look after the child and return its last answers, if they are fresh.

        Raises:
            Absent: this node has no NVML.
        """
        now = time.monotonic()
        self.probe.hear(now)
        self.probe.care(now)
        for uuid, xid in self._log.take():
            self._xids.count(uuid, "log", xid)
        self._forget_util(now)
        if self.probe.absent and not (self.probe.pid or self.probe.dying):
            raise Absent(self.probe.absent)
        if not self.probe.answers(now):
            self.host.board.gpu_pids = {}
            return Reading([], {"nvml": self.probe.silence(now)})
        return self._reading()

    def close(self) -> None:
        """End the child; one that cannot die is left."""
        self.probe.close()
        self._log.close()

    def take(self, message: List[Any], now: float) -> None:
        """Take one message of the child.

        Raises:
            ValueError, LookupError, TypeError: it is none.
        """
        word, body = message[0], message[1]
        if word == "util":
            self._util_at = now
            self.host.board.gpu_util = {gpu: self._util(gpu, answer) for gpu, answer in body}
        elif word == "full":
            self._took_s = float(message[2])
            self._xid_reason = "" if self._log.readable else str(message[3])
            self._gpus = [self._gpu(*row) for row in body]
            self._place()
            self._doubts = {gpu.labels[0]: self._doubt(gpu) for gpu in self._gpus}
            self._util_at = now
            self.host.board.gpu_util = {g.labels[0]: self._util_of(g) for g in self._gpus}
        elif word == "count":
            self._count = max(0, min(int(body), MAX_GPUS))
            self._most = max(self._most, self._count)
            self._known = addresses.known(self.host)
        elif word == "processes":
            told = isinstance(body, list)
            self._processes_reason = "" if told else str(body)
            self._held, self._strangers = held(self.host, body) if told else ([], 0)
        elif word == "xids":
            self._hear_xids(body)
        else:
            raise ValueError("an unknown word")

    def _gpu(self, index: int, uuid: Any, model: Any, answers: List[Any]) -> Gpu:
        """Keep in mind which GPU it is: a lost one cannot tell."""
        gpu = self._kept.setdefault(index, Gpu((index, None, None)))
        gpu.labels = (index, uuid or gpu.labels[1], model or gpu.labels[2])
        if gpu.labels[1] and len(self._seen) < MOST_SEEN:
            self._seen[gpu.labels[1]] = gpu.labels
        gpu.tell(answers)
        return gpu

    def _place(self) -> None:
        """Tell the board where the GPUs sit, when they are others than before."""
        present = {gpu.labels[1]: gpu.labels[0] for gpu in self._gpus if gpu.labels[1]}
        if present == self._placed:
            return
        self._placed = present
        where = addresses.uuids(self.host).items()
        self.host.board.gpu_address = {present[u]: a for a, u in where if u in present}

    def _hear_xids(self, body: Any) -> None:
        """Take the errors that the driver told."""
        for index, xid in body:
            gpu = (index in self._kept and self._kept[index].labels[1]) or index
            self._xids.count(gpu, "driver", xid)

    def _util(self, gpu: int, answer: Any) -> Optional[float]:
        """Return a utilisation, None where it was not told, cannot be or is not to be believed."""
        if isinstance(answer, str):
            return doubts.load_pct(self._load) if self._load else None
        return None if self._doubts.get(gpu) else number(answer, PERCENT)

    def _util_of(self, gpu: Gpu) -> Optional[float]:
        reason = gpu.reasons.get("util_pct")
        return self._util(gpu.labels[0], gpu.told("util_pct") if reason is None else reason)

    def _doubt(self, gpu: Gpu) -> str:
        """Doubt what readings and samples say alike: steps of a second can hide from the first."""
        util = [u for u in (gpu.told("util_pct"), gpu.told("util_mean_pct")) if u is not None]
        power_w, limit_w = gpu.told("power_w"), gpu.told("power_limit_w")
        return self._loud.doubt(gpu.labels[0], max(util) if util else None, power_w, limit_w)

    def _forget_util(self, now: float) -> None:
        if not self.probe.fresh(self._util_at, now):
            self.host.board.gpu_util = {}

    def _reading(self) -> Reading:
        missing: Dict[str, str] = {}
        rows: List[Row] = [("node", (), (self._count,))]
        refused: Dict[Tuple[str, str], List[int]] = {}
        for gpu in self._gpus:
            values, reasons = self._values(gpu)
            rows.append(("gpu", gpu.labels, values + self._state(gpu)))
            if gpu.reason() and any(reasons.values()):
                missing["nvml.gpu%d" % gpu.labels[0]] = gpu.reason()
                continue
            for subject, reason in reasons.items():
                refused.setdefault((subject, reason), []).append(gpu.labels[0])
        for (subject, reason), gpus in refused.items():
            told = missing.get("nvml." + subject)
            where = "" if len(gpus) == len(self._gpus) else " (GPU %s)" % ", ".join(map(str, gpus))
            missing["nvml." + subject] = (told + "; " if told else "") + reason + where
        rows.extend(self._gone(missing))
        self._tell_of_node(missing)
        rows.extend(self._process_rows(missing))
        return Reading(rows, missing)

    def _values(self, gpu: Gpu) -> Tuple[Values, Dict[str, str]]:
        """Return a GPU's values, and subject to reason of what is missing."""
        if not (gpu.reasons or self._doubts.get(gpu.labels[0])):
            return tuple(gpu.values), {}
        values, reasons = list(gpu.values), dict(gpu.reasons)
        self._correct(gpu, values, reasons)
        for kind, names in TOGETHER.items():
            told = {reasons.get(name) for name in names}
            if len(told) == 1 and None not in told:
                reasons[kind] = reasons[names[0]]
                for name in names:
                    del reasons[name]
        return tuple(values), reasons

    def _correct(self, gpu: Gpu, values: List[Any], reasons: Dict[str, str]) -> None:
        """Let the node say what the GPU cannot, and drop what is not to be believed."""
        doubt = self._doubts.get(gpu.labels[0])
        if doubt:
            values[PLACE["util_pct"]] = values[PLACE["util_mean_pct"]] = None
            reasons["util_pct"] = doubt
        if reasons.get("util_pct") == NOT_SUPPORTED and self._load:
            values[PLACE["util_pct"]] = doubts.load_pct(self._load)
            if values[PLACE["util_pct"]] is not None:
                del reasons["util_pct"]
        if reasons.get("memory_total_bytes") == NOT_SUPPORTED and len(self._gpus) == 1:
            used, total = doubts.unified_memory(self.host)
            values[PLACE["memory_used_bytes"]], values[PLACE["memory_total_bytes"]] = used, total
            reasons.pop("memory_used_bytes", None)
            reasons["memory_total_bytes"] = doubts.UNIFIED

    def _state(self, gpu: Gpu) -> Values:
        """Return whether it is lost, and its last error and their number."""
        reason = gpu.reason()
        lost = 1 if reason == IS_LOST else None if reason and reason != NOT_SUPPORTED else 0
        index, uuid, _ = gpu.labels
        none = (None, None) if self._xid_reason else (0, 0)
        return (lost,) + (self._xids.of(uuid or index) or none)

    def _gone(self, missing: Dict[str, str]) -> List[Row]:
        """Return a row of each GPU that was listed before: under its index, if that is free."""
        present = {gpu.labels[1] for gpu in self._gpus}
        taken = {gpu.labels[0] for gpu in self._gpus}
        rows: List[Row] = []
        for uuid, (place, _, model) in self._seen.items():
            if uuid in present or len(rows) >= self._most - len(self._gpus):
                continue
            index = min(set(range(self._most)) - taken) if place in taken else place
            taken.add(index)
            xids = self._xids.of(uuid) or (None, None)
            rows.append(("gpu", (index, uuid, model), (None,) * len(VALUES) + (1,) + xids))
            missing["nvml.gpu%d" % index] = GONE
        return rows

    def _tell_of_node(self, missing: Dict[str, str]) -> None:
        if self._count < self._most:
            missing["nvml.gpu_count"] = "%d of %d GPUs first seen" % (self._count, self._most)
        elif self._count < self._known:
            missing["nvml.gpu_count"] = "%d of the driver's %d GPUs" % (self._count, self._known)
        if self._xid_reason:
            missing["nvml.xid"] = self._xid_reason
        if self._took_s > max(SLOW_S, self.host.options.interval_s):
            missing["nvml.driver"] = "slow: over %d s a look" % step(self._took_s)

    def _process_rows(self, missing: Dict[str, str]) -> List[Row]:
        """Return the GPUs' processes that are still there."""
        rows: List[Row] = []
        pids: Dict[int, Tuple[int, ...]] = {}
        for gpu, pid, used in self._held:
            if self.host.exists("/proc/%d" % pid):
                size = None if used is None else number(used, BYTES)
                rows.append(("gpu_process", (gpu, pid), (size,)))
                pids[pid] = pids.get(pid, ()) + (gpu,)
        if self._processes_reason:
            missing["nvml.gpu_memory_bytes"] = self._processes_reason
        elif self._strangers:
            missing["nvml.pid"] = "%d of another pid namespace" % self._strangers
        self.host.board.gpu_pids = pids
        return rows


def value_of(row: Metric, answer: Any) -> Tuple[Any, str]:
    """Return a raw answer's value and "", or None and the reason."""
    if isinstance(answer, str):
        return None, answer
    value = number(answer, row)
    if value is None:
        return None, "bad sample"
    return (round(value, DIGITS) if isinstance(value, float) else value), ""
