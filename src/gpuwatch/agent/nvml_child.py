"""The process that talks to NVML: it may hang or crash alone, the agent goes on without it.

NVML calls end in ioctls that can block for ever inside the kernel, so they belong in a process,
never in a thread. It holds nothing of the agent's but one pipe, into which it writes its answers:
length-framed JSON, one of

    ["count", N, DRIVER]                GPUs listed; first, and when it changes
    ["util", [[GPU, PERCENT], ...]]     several times an interval; a string is a reason
    ["full", [[GPU, UUID, NAME, [VALUE, ...]], ...]]    in the order of the locators
    ["processes", [[GPU, PID, BYTES], ...]]             or a reason in place of the list
    ["end", "absent" or "error", REASON]

A locator is what to call, alternatives in order of preference, names as in the NVML API reference:

    nvmlDeviceGetClockInfo NVML_CLOCK_SM            a function and its arguments
    nvmlDeviceGetUtilizationRates .gpu              a part of its answer
    field NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION | nvmlDeviceGetTotalEnergyConsumption
"""

import contextlib
import json
import os
import struct
import time
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Set, Tuple, Union

from gpuwatch.agent.child import alone

LENGTH = struct.Struct(">I")
NAME = b"gpuwatch-nvml"
UTIL_HZ = 5
SLOW_EVERY = 5
"""Polls between two looks at what changes slowly or is costly to ask: it goes to PMU or GSP."""
SLOW = (
    "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetTemperature",
    "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit",
)  # fmt: skip
PROCESSES_EVERY = 10
MAX_GPUS = 64
MAX_PROCESSES = 64
"""Of one GPU; drivers have listed a hundred dead ones."""
MEMORY_TOLERANCE = 0.05
"""Part of the total by which used + free (+ reserved) may differ from it."""
VALUE_OF_TYPE = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of nvmlValue_t, by nvmlValueType_t."""
IS_LOST = "GPU is lost"
NOT_SUPPORTED = "Not Supported"
IN_MIG = "not reported in MIG mode"
WORDS = {
    "NVMLError_DriverNotLoaded": "the NVIDIA driver is not loaded",
    "NVMLError_LibRmVersionMismatch": "the NVIDIA driver was updated under running programs:"
    " reboot the node, or unload and load its modules",
    "NVMLError_NoPermission": "not permitted to talk to the NVIDIA driver",
    "NVMLError_GpuIsLost": IS_LOST,
}
NO_LIBRARY = "no libnvidia-ml.so.1: no NVIDIA driver, or not on this library path"

Answer = Union[int, float, str]
"""A raw reading, or the reason why there is none."""


class Call(NamedTuple):
    """One way to read one metric: a function with its arguments, or a field by number."""

    function: str
    arguments: Tuple[int, ...]
    part: Optional[str]


class RefusedError(Exception):
    """NVML answered, with what cannot be right."""


def run(pipe: int, parent: int, locators: Sequence[str], interval_s: float) -> NoReturn:
    """Be the child: poll until the parent is gone or NVML ends; never return.

    Args:
        pipe: where answers go.
        parent: process id of the agent.
        locators: of the metrics of one GPU.
        interval_s: seconds between two full polls.
    """
    try:
        alone(pipe, parent, NAME)
        _poll(pipe, parent, locators, interval_s)
    except OSError:
        pass  # the agent closed its end
    except Exception as error:
        with contextlib.suppress(OSError):
            _send(pipe, ["end", "error", why(error)])
    finally:
        os._exit(0)


def _send(pipe: int, message: List[Any]) -> None:
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    data = LENGTH.pack(len(body)) + body
    while data:
        data = data[os.write(pipe, data) :]


def _poll(pipe: int, parent: int, locators: Sequence[str], interval_s: float) -> None:
    try:
        import pynvml

        pynvml.nvmlInit()
        driver = _text(pynvml.nvmlSystemGetDriverVersion)
    except Exception as error:
        absent = type(error).__name__ == "NVMLError_LibraryNotFound"
        _send(pipe, ["end", "absent" if absent else "error", NO_LIBRARY if absent else why(error)])
        return
    poller = Poller(pynvml, locators)
    steps = max(1, round(UTIL_HZ * min(interval_s, 1.0)))
    step_s = interval_s / steps
    due = time.monotonic()
    turn = 0
    while os.getppid() == parent:
        if turn % (steps * SLOW_EVERY) == 0 and poller.count():
            _send(pipe, ["count", len(poller.devices), driver])
        _send(pipe, ["util", poller.util()])
        if turn % steps == 0:
            _send(pipe, ["full", poller.full()])
        if turn % (steps * PROCESSES_EVERY) == 0:
            _send(pipe, ["processes", poller.processes()])
        turn += 1
        due = max(due + step_s, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


class Poller(object):
    """Asks each metric of each GPU on its own: one failing call costs that metric only.

    Args:
        nvml: the module pynvml.
        locators: of the metrics, in the order of the answers.
    """

    def __init__(self, nvml: Any, locators: Sequence[str]) -> None:
        self.nvml = nvml
        self.devices: List[Any] = []
        self.names: List[Tuple[Optional[str], Optional[str]]] = []
        self.split: Set[int] = set()
        self.turn = 0
        self.slow: Dict[Tuple[int, Call], Any] = {}
        self.ways = [[parse(nvml, way) for way in text.split(" | ")] for text in locators]
        self.fields = sorted({c.arguments[0] for ways in self.ways for c in ways if not c.function})

    def count(self) -> bool:
        """List the GPUs; tell whether their number changed. A lost one keeps its place."""
        count: int = min(self.nvml.nvmlDeviceGetCount(), MAX_GPUS)
        changed = count != len(self.devices)
        if changed or any(isinstance(device, str) for device in self.devices):
            self.devices = [self._device(index) for index in range(count)]
            self.names = [self._names(device) for device in self.devices]
            self.split = {i for i, device in enumerate(self.devices) if self._is_split(device)}
        return changed

    def _device(self, index: int) -> Any:
        try:
            return self.nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            return why(error)

    def _names(self, device: Any) -> Tuple[Optional[str], Optional[str]]:
        if isinstance(device, str):
            return None, None
        nvml = self.nvml
        return _text(nvml.nvmlDeviceGetUUID, device), _text(nvml.nvmlDeviceGetName, device)

    def _is_split(self, device: Any) -> bool:
        """Tell whether a GPU is in MIG mode; most have none."""
        try:
            return bool(
                self.nvml.nvmlDeviceGetMigMode(device)[0] == self.nvml.NVML_DEVICE_MIG_ENABLE
            )
        except Exception:
            return False

    def util(self) -> List[List[Answer]]:
        """Return [GPU, percent] of each."""
        call = Call("nvmlDeviceGetUtilizationRates", (), "gpu")
        return [[i, self._ask(d, call, {})] for i, d in enumerate(self.devices)]

    def full(self) -> List[List[Any]]:
        """Return [GPU, UUID, name, answers] of each."""
        if self.turn % SLOW_EVERY == 0:
            self.slow.clear()
        self.turn += 1
        return [[i] + list(self.names[i]) + [self._gpu(i, d)] for i, d in enumerate(self.devices)]

    def processes(self) -> Union[str, List[List[Any]]]:
        """Return [GPU, pid, bytes or null] of each compute context, or why they are unknown."""
        found: List[List[Any]] = []
        reason = ""
        for index, device in enumerate(self.devices):
            if isinstance(device, str):
                continue
            try:
                found.extend([index, p.pid, p.usedGpuMemory] for p in self._contexts(device))
            except Exception as error:
                reason = why(error)
        return reason if reason and not found else found

    def _contexts(self, device: Any) -> List[Any]:
        """Ask as new drivers want it, then as older ones do (before 510 there is no version 3)."""
        try:
            listed = self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(device)
        except self.nvml.NVMLError_FunctionNotFound:
            listed = self.nvml.nvmlDeviceGetComputeRunningProcesses_v2(device)
        return list(listed)[:MAX_PROCESSES]

    def _gpu(self, index: int, device: Any) -> List[Answer]:
        answers: List[Answer] = []
        if not isinstance(device, str):
            seen = self._fields(device)
            for ways in self.ways:
                answers.append(self._first(index, device, ways, seen))
                if answers[-1] == IS_LOST:
                    device = IS_LOST
                    break
        if isinstance(device, str):
            return [device] * len(self.ways)
        return [IN_MIG if a == NOT_SUPPORTED and index in self.split else a for a in answers]

    def _first(self, index: int, device: Any, ways: List[Call], seen: Dict[Call, Any]) -> Answer:
        """Return the first answer that is none of the reasons, else the last reason."""
        answer: Answer = ""
        for call in ways:
            if call.function in SLOW:
                key = (index, call)
                if key not in self.slow:
                    self.slow[key] = self._ask(device, call, seen)
                answer = self.slow[key]
            else:
                answer = self._ask(device, call, seen)
            if not isinstance(answer, str):
                break
        return answer

    def _ask(self, device: Any, call: Call, seen: Dict[Call, Any]) -> Answer:
        """Make one call, once for all metrics that are parts of its answer."""
        if isinstance(device, str):
            return device
        whole = call._replace(part=None)
        if whole not in seen:
            try:
                answer = getattr(self.nvml, call.function)(device, *call.arguments)
                seen[whole] = plausible(answer) if hasattr(answer, "free") else answer
            except Exception as error:
                seen[whole] = why(error)
        answer = seen[whole]
        if isinstance(answer, str) or call.part is None:
            return _plain(answer)
        return _plain(getattr(answer, call.part))

    def _fields(self, device: Any) -> Dict[Call, Any]:
        """Read all field values in one call; each has a return code of its own."""
        seen: Dict[Call, Any] = {}
        try:
            values = list(self.nvml.nvmlDeviceGetFieldValues(device, self.fields))
        except Exception as error:
            return {Call("", (number,), None): why(error) for number in self.fields}
        for place, number in enumerate(self.fields):
            value = values[place]
            if value.nvmlReturn:
                answer: Answer = why(self.nvml.NVMLError(value.nvmlReturn))
            elif value.valueType < len(VALUE_OF_TYPE):
                answer = getattr(value.value, VALUE_OF_TYPE[value.valueType])
            else:
                answer = "of unknown type %d" % value.valueType
            seen[Call("", (number,), None)] = answer
        return seen


def parse(nvml: Any, text: str) -> Call:
    """Turn one alternative of a locator into a call."""
    words = text.split()
    part = words.pop()[1:] if words[-1].startswith(".") else None
    function = words.pop(0)
    arguments = tuple(getattr(nvml, word) for word in words)
    return Call("" if function == "field" else function, arguments, part)


def _plain(answer: Any) -> Answer:
    return answer if isinstance(answer, (int, float, str)) else "answered with no number"


def plausible(memory: Any) -> Any:
    """Return what NVML says about memory, if it adds up: some drivers mix two memories."""
    parts = memory.used + memory.free + getattr(memory, "reserved", 0)
    if abs(parts - memory.total) > MEMORY_TOLERANCE * memory.total:
        raise RefusedError("used and free memory do not add up to the total")
    return memory


def why(error: BaseException) -> str:
    """Say in words why a call gave nothing."""
    return (WORDS.get(type(error).__name__) or str(error) or type(error).__name__)[:120]


def _text(call: Any, *arguments: Any) -> Optional[str]:
    """Return what a call says in text, None where it does not (or not in UTF-8)."""
    try:
        answer = call(*arguments)
    except Exception:
        return None
    return answer if isinstance(answer, str) else None
