"""GPUs, read through NVML in a forked child that may hang or crash alone.

Here is the parent's side: it takes what the child (agent/nvml_child.py) writes, waits for nothing,
and calls nothing of NVML itself. A child that gives no answer is killed; one that cannot die is
left alone, and no second one is started while it is there.
"""

import contextlib
import json
import os
import signal
import time
from typing import Any, Dict, List, Optional, Tuple

from gpuwatch.agent import nvml_child
from gpuwatch.agent.child import status_of, stuck_child_of_another
from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import (
    COUNTER,
    GAUGE,
    LABEL,
    Absent,
    Metric,
    Reading,
    Values,
    declared,
    number,
)

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
    Metric("gpu_count", "node", GAUGE, "int", "1", "nvmlDeviceGetCount", "GPUs that the driver lists."),
    Metric("gpu", "gpu_process", LABEL, "int", "", "index", "Index as NVML counts."),
    Metric("pid", "gpu_process", LABEL, "int", "", "nvmlDeviceGetComputeRunningProcesses .pid", "Process with a compute context, as the driver numbers it."),
    Metric("gpu_memory_bytes", "gpu_process", GAUGE, "int", "B", "nvmlDeviceGetComputeRunningProcesses .usedGpuMemory", "Device memory that it holds.", high=2**44),
)  # fmt: skip

VALUES = declared(ROWS, "gpu")
PATIENCE = 3
"""Intervals without an answer after which the last one no longer counts, and the child is killed."""
FIRST_ANSWER_S = 60.0
"""Patience with the first answer: without persistence mode the driver starts each GPU first."""
STARTING_S = 3.0
BACK_OFF_S = (1.0, 60.0)
HEALTHY_S = 60.0
"""A child that answered for so long makes the next back-off start anew."""
SILENCES_S = (0, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)
"""Steps in which a silence is told: a reason that changes each second would be a new one each."""
MAX_MESSAGE = 1 << 18
MAX_BUFFER = 1 << 20
PERCENT = VALUES[0]


class Reader(object):
    """Reads them.

    Args:
        host: its board gets the GPUs' utilisation and processes, and the child's pid.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.interval_s = host.options.interval_s
        self.first_answer_s = FIRST_ANSWER_S
        self.child = 0
        self.dying = 0
        self._pipe = -1
        self._buffer = b""
        self._began = self._answered = self._full_at = self._util_at = 0.0
        self._first_start = self._next_start = 0.0
        self._delay = BACK_OFF_S[0]
        self._reason = ""
        self._absent = ""
        self._gpus: List[Any] = []
        self._processes: Any = []
        self._count = self._first_count = 0

    def sample(self) -> None:
        """Take what the child has written so far; never waits."""
        self._drain(time.monotonic())
        self._forget_util(time.monotonic())

    def read(self) -> Reading:
        """Look after the child and return its last answers, if they are fresh.

        Raises:
            Absent: this node has no NVML.
        """
        now = time.monotonic()
        self._drain(now)
        self._forget_util(now)
        self._care(now)
        if self._absent and not (self.child or self.dying):
            raise Absent(self._absent)
        if not (self.child and self._full_at > self._began and self._fresh(self._full_at, now)):
            self.host.board.gpu_pids = {}
            return Reading([], {"nvml": self._silence(now)})
        return self._reading()

    def close(self) -> None:
        """End the child; one that cannot die is left."""
        if self.child:
            self._kill()

    def _care(self, now: float) -> None:
        """Kill a silent child, bury a dead one, start the next when its time has come."""
        if self.child and now - self._answered > self._patience():
            self._reason = ""
            self._kill()
            self._wait_longer(now)
        if self.dying:
            self._bury()
        if self.child or self.dying or self._absent or now < self._next_start:
            return
        orphan = stuck_child_of_another(self.host, nvml_child.NAME)
        if orphan:
            self._reason = "an earlier probe (pid %d) hangs in the driver" % orphan
            self._wait_longer(now)
        else:
            self._start(now)

    def _patience(self) -> float:
        """Seconds that the child may be silent now."""
        first = not self._full_at or self._full_at < self._began
        return max(self.first_answer_s if first else 0.0, PATIENCE * self.interval_s)

    def _start(self, now: float) -> None:
        locators = [row.locator for row in VALUES]
        parent = os.getpid()
        ours, theirs = os.pipe()
        try:
            child = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            self._reason = "no process could be started"
            self._wait_longer(now)
            return
        if not child:
            nvml_child.run(theirs, parent, locators, self.interval_s)
        os.close(theirs)
        os.set_blocking(ours, False)
        self.child, self._pipe, self._buffer = child, ours, b""
        self._began = self._answered = now
        self._first_start = self._first_start or now
        self.host.board.own_pids.add(child)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)
        self._let_go()

    def _let_go(self) -> None:
        """Hear no more of the child, and keep it in mind until it is dead."""
        os.close(self._pipe)
        self.dying, self.child, self._pipe = self.child, 0, -1

    def _wait_longer(self, now: float) -> None:
        """Set the time of the next start, later after each failure."""
        if self._full_at - self._began >= HEALTHY_S:
            self._delay = BACK_OFF_S[0]
        self._next_start = now + self._delay
        self._delay = min(self._delay * 2, BACK_OFF_S[1])

    def _silence(self, now: float) -> str:
        """Say why there is no answer."""
        if self._reason:
            return self._reason
        silent_s = now - (self._full_at or self._first_start)
        if not self._full_at and silent_s < STARTING_S:
            return "starting"
        return "no answer for %d s" % max(step for step in SILENCES_S if step <= silent_s)

    def _drain(self, now: float) -> None:
        """Take all whole messages from the pipe; at its end let go of the child."""
        if self._pipe < 0:
            return
        while len(self._buffer) < MAX_BUFFER:
            try:
                data = os.read(self._pipe, 65536)
            except BlockingIOError:
                break
            if not data:
                self._let_go()
                self._wait_longer(now)
                break
            self._buffer += data
        try:
            for message in self._messages():
                self._answered = now
                self._take(message, now)
        except (ValueError, LookupError, TypeError):
            self._reason = "the NVML probe garbled its answer"
            if self.child:
                self._kill()
                self._wait_longer(now)

    def _messages(self) -> List[List[Any]]:
        messages = []
        head = nvml_child.LENGTH.size
        while len(self._buffer) >= head:
            length = nvml_child.LENGTH.unpack_from(self._buffer)[0]
            if length > MAX_MESSAGE:
                raise ValueError("a message of %d bytes from the NVML child" % length)
            if len(self._buffer) < head + length:
                break
            messages.append(json.loads(self._buffer[head : head + length].decode("ascii")))
            self._buffer = self._buffer[head + length :]
        return messages

    def _take(self, message: List[Any], now: float) -> None:
        word = message[0]
        if word == "util":
            self._util_at = now
            self.host.board.gpu_util = {gpu: percent(answer) for gpu, answer in message[1]}
        elif word == "full":
            self._gpus = message[1]
            self._full_at = now
            self._reason = ""
        elif word == "count":
            self._count = message[1]
            self._first_count = max(self._first_count, self._count)
        elif word == "processes":
            self._processes = message[1]
        elif message[1] == "absent":
            self._absent = message[2]
        else:
            self._reason = message[2]

    def _bury(self) -> None:
        """Take leave of a child that is dead by now, and say what it died of."""
        status = status_of(self.dying)
        if status is None:
            return
        self.host.board.own_pids.discard(self.dying)
        self.dying = 0
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
            self._reason = "the NVIDIA library crashed (signal %d)" % os.WTERMSIG(status)

    def _fresh(self, at: float, now: float) -> bool:
        return now - at <= PATIENCE * self.interval_s

    def _forget_util(self, now: float) -> None:
        if not self.child or not self._fresh(self._util_at, now):
            self.host.board.gpu_util = {}

    def _reading(self) -> Reading:
        missing: Dict[str, str] = {}
        rows: List[Tuple[str, Tuple[Any, ...], Values]] = [("node", (), (self._count,))]
        refused: Dict[Tuple[str, str], List[int]] = {}
        for gpu, uuid, name, answers in self._gpus:
            values = [_value(row, answers[i]) for i, row in enumerate(VALUES)]
            rows.append(("gpu", (gpu, uuid, name), tuple(v for v, _ in values)))
            reasons = [reason for _, reason in values]
            if reasons[0] and reasons.count(reasons[0]) == len(reasons):
                missing["nvml.gpu%d" % gpu] = reasons[0]
                continue
            for place, reason in enumerate(reasons):
                if reason:
                    refused.setdefault((VALUES[place].name, reason), []).append(gpu)
        for (metric, reason), gpus in refused.items():
            told = missing.get("nvml." + metric)
            where = "" if len(gpus) == len(self._gpus) else " (GPU %s)" % ", ".join(map(str, gpus))
            missing["nvml." + metric] = (told + "; " if told else "") + reason + where
        if self._count < self._first_count:
            missing["nvml.gpu_count"] = "%d of %d GPUs first seen" % (
                self._count,
                self._first_count,
            )
        rows.extend(self._process_rows(missing))
        return Reading(rows, missing)

    def _process_rows(self, missing: Dict[str, str]) -> List[Tuple[str, Tuple[Any, ...], Values]]:
        """Return the GPUs' processes that exist here: drivers list dead ones and other namespaces'."""
        rows: List[Tuple[str, Tuple[Any, ...], Values]] = []
        pids: Dict[int, Tuple[int, ...]] = {}
        if isinstance(self._processes, str):
            missing["nvml.gpu_memory_bytes"] = self._processes
        else:
            for gpu, pid, used in self._processes:
                if self.host.exists("/proc/%d" % pid):
                    held = None if used is None else number(used, ROWS[-1])
                    rows.append(("gpu_process", (gpu, pid), (held,)))
                    pids[pid] = pids.get(pid, ()) + (gpu,)
        self.host.board.gpu_pids = pids
        return rows


def percent(answer: Any) -> Optional[float]:
    """Return a utilisation, None where it was not told or cannot be."""
    return None if isinstance(answer, str) else number(answer, PERCENT)


def _value(row: Metric, answer: Any) -> Tuple[Any, str]:
    """Return a raw answer's value and "", or None and the reason."""
    if isinstance(answer, str):
        return None, answer
    value = number(answer, row)
    return value, "" if value is not None else "bad sample"
