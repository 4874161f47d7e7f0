"""Asks NVML for the metrics of each GPU; one failing call costs its metric only."""

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

from gpuwatch.agent.nvml.buffers import Buffers
from gpuwatch.agent.nvml.contexts import contexts
from gpuwatch.agent.nvml.events import Xids
from gpuwatch.agent.nvml.fields import Fields
from gpuwatch.agent.nvml.gpm import Gpm
from gpuwatch.agent.nvml.links import Links
from gpuwatch.agent.nvml.locator import (
    IS_LOST,
    NOT_SUPPORTED,
    Answer,
    Call,
    RefusedError,
    parse,
    part_of,
    why,
)

SLOW_EVERY = 5
"""Polls between two looks at what changes slowly or is costly to ask: it goes to PMU or GSP."""
SLOW = (
    "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetTemperature",
    "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetMigMode",
    "nvmlDeviceGetComputeMode", "nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetPcieReplayCounter",
)  # fmt: skip
MAX_GPUS = 64
MEMORY_TOLERANCE = 0.05
"""Part of the total by which used + free (+ reserved) may differ from it."""
IN_MIG = "not reported in MIG mode"
BUSY = Call("nvmlDeviceGetUtilizationRates", (), "gpu")


class Poller(object):
    """Asks each metric of each GPU on its own.

    Args:
        nvml: the module pynvml.
        locators: of the metrics, in the order of the answers.
        interval_s: seconds between two full polls.
    """

    def __init__(self, nvml: Any, locators: Sequence[str], interval_s: float) -> None:
        self.nvml = nvml
        self.devices: List[Any] = []
        self.xids: Optional[Xids] = None
        self.turn = 0
        self._names: List[Tuple[Optional[str], Optional[str]]] = []
        self._split: Set[int] = set()
        self._slow: Dict[Tuple[int, Call], Any] = {}
        self._ways = [[parse(nvml, way) for way in text.split(" | ")] for text in locators]
        self._batches = self._make_batches(interval_s)

    def _make_batches(self, interval_s: float) -> List[Tuple[List[Call], Any]]:
        """Return (calls, what answers them together) of each kind that some locator names."""
        kinds: Dict[str, Any] = {
            "field": Fields,
            "gpm": Gpm,
            "samples": lambda nvml, calls: Buffers(nvml, calls, interval_s),
            "links": Links,
        }
        batches = []
        for kind, make in kinds.items():
            named = (way for ways in self._ways for way in ways if way.function == kind)
            calls = sorted({way._replace(part=None) for way in named})
            if calls:
                batches.append((calls, make(self.nvml, calls)))
        return batches

    def count(self) -> bool:
        """List the GPUs; tell whether their number changed. A lost one keeps its place."""
        count: int = min(self.nvml.nvmlDeviceGetCount(), MAX_GPUS)
        changed = count != len(self.devices)
        if changed:
            self.devices = ["not asked yet"] * count
            self._names = [(None, None)] * count
        lost = [index for index, device in enumerate(self.devices) if isinstance(device, str)]
        for index in lost:
            self._list(index)
        if changed or any(not isinstance(self.devices[index], str) for index in lost):
            if self.xids:
                self.xids.close()
            self.xids = Xids(self.nvml, self.devices)
        return changed

    def _list(self, index: int) -> None:
        """Get a GPU's handle and what never changes of it."""
        for _, batch in self._batches:
            batch.forget(index)
        self._split.discard(index)
        try:
            device = self.nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            self.devices[index] = why(error)
            return
        self.devices[index] = device
        self._names[index] = (
            _text(self.nvml.nvmlDeviceGetUUID, device),
            _text(self.nvml.nvmlDeviceGetName, device),
        )

    def util(self) -> List[List[Answer]]:
        """Return [GPU, percent] of each."""
        return [[index, self._ask(d, BUSY, {})] for index, d in enumerate(self.devices)]

    def full(self) -> List[List[Any]]:
        """Return [GPU, UUID, name, answers] of each."""
        if self.turn % SLOW_EVERY == 0:
            self._slow.clear()
            self._split = {i for i, device in enumerate(self.devices) if self._is_split(device)}
        self.turn += 1
        return [[i] + list(self._names[i]) + [self._gpu(i, d)] for i, d in enumerate(self.devices)]

    def processes(self) -> Union[str, List[List[Any]]]:
        """Return [GPU, pid, bytes or null] of each compute context, or why they are unknown."""
        found: List[List[Any]] = []
        reason = ""
        for index, device in enumerate(self.devices):
            if isinstance(device, str):
                continue
            try:
                found.extend([index, pid, used] for pid, used in contexts(self.nvml, device))
            except Exception as error:
                reason = why(error)
        return reason if reason and not found else found

    def _is_split(self, device: Any) -> bool:
        """Tell whether a GPU is in MIG mode; most have none."""
        try:
            mode: int = self.nvml.nvmlDeviceGetMigMode(device)[0]
        except Exception:
            return False
        return mode == int(self.nvml.NVML_DEVICE_MIG_ENABLE)

    def _gpu(self, index: int, device: Any) -> List[Answer]:
        if not isinstance(device, str):
            seen = self._seen(index, device)
            answers: List[Answer] = []
            for ways in self._ways:
                answers.append(self._first(index, device, ways, seen))
                if answers[-1] == IS_LOST:
                    device = IS_LOST
                    break
        if isinstance(device, str):
            return [device] * len(self._ways)
        return [IN_MIG if a == NOT_SUPPORTED and index in self._split else a for a in answers]

    def _seen(self, index: int, device: Any) -> Dict[Call, Any]:
        """Return what all batches answer."""
        seen: Dict[Call, Any] = {}
        for calls, batch in self._batches:
            try:
                seen.update(batch.read(index, device))
            except Exception as error:
                seen.update((call, why(error)) for call in calls)
        return seen

    def _first(self, index: int, device: Any, ways: List[Call], seen: Dict[Call, Any]) -> Answer:
        """Return the first answer that is none of the reasons, else the last reason."""
        answer: Answer = ""
        for call in ways:
            if call.function in SLOW:
                key = (index, call)
                if key not in self._slow:
                    self._slow[key] = self._ask(device, call, seen)
                answer = self._slow[key]
            else:
                answer = self._ask(device, call, seen)
            if not isinstance(answer, str):
                break
        return answer

    def _ask(self, device: Any, call: Call, seen: Dict[Call, Any]) -> Answer:
        """Make one call, once for all metrics that are parts of its answer."""
        if isinstance(device, str):
            return device
        whole = call if call.part is None else call._replace(part=None)
        if whole not in seen:
            try:
                answer = getattr(self.nvml, call.function)(device, *call.arguments)
                seen[whole] = plausible(answer) if hasattr(answer, "free") else answer
            except Exception as error:
                seen[whole] = why(error)
        return part_of(seen[whole], call.part)


def plausible(memory: Any) -> Any:
    """Return what NVML says about memory, if it adds up: some drivers mix two memories."""
    parts = memory.used + memory.free + getattr(memory, "reserved", 0)
    if abs(parts - memory.total) > MEMORY_TOLERANCE * memory.total:
        raise RefusedError("used and free memory do not add up to the total")
    return memory


def _text(call: Any, *arguments: Any) -> Optional[str]:
    """Return what a call says in text, None where it does not (or not in UTF-8)."""
    try:
        answer = call(*arguments)
    except Exception:
        return None
    return answer if isinstance(answer, str) else None
