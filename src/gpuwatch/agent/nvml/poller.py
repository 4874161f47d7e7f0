"""Asks NVML for the metrics of each GPU; one failing call costs its metric only."""

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

from gpuwatch.agent.nvml.buffers import Buffers
from gpuwatch.agent.nvml.busy import Busy
from gpuwatch.agent.nvml.contexts import contexts
from gpuwatch.agent.nvml.events import Xids
from gpuwatch.agent.nvml.fields import Fields
from gpuwatch.agent.nvml.gpm import Gpm
from gpuwatch.agent.nvml.links import Links
from gpuwatch.agent.nvml.locator import (
    IS_LOST,
    MAX_GPUS,
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
    "errors", "links",
    "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetTemperature",
    "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetMigMode", "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization",
)  # fmt: skip
"""First words of such locators."""
MEMORY_TOLERANCE = 0.05
"""Part of the total by which used + free (+ reserved) may differ from it."""
IN_MIG = "not reported in MIG mode"
NOT_YET = "starting"
NOT_ASKED = object()
PLAIN = (int, float, str)
"""Types of answers that need no second look."""
Batch = Tuple[str, List[int], Any]
"""A kind of calls, their numbers, and what answers them together, in that order."""
Way = Tuple[int, Optional[str]]
"""A call's number, and the part of its answer that is meant."""


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
        self._turn = 0
        self._names: List[Tuple[Optional[str], Optional[str]]] = []
        self._split: Set[int] = set()
        self._answers: Dict[int, List[Answer]] = {}
        self._calls: List[Call] = []
        ways = [[self._way(parse(nvml, way)) for way in text.split(" | ")] for text in locators]
        self._size = len(ways)
        is_slow = [self._calls[way[0][0]].function in SLOW for way in ways]
        self._slow = [(place, way) for place, way in enumerate(ways) if is_slow[place]]
        self._fast = [(place, way) for place, way in enumerate(ways) if not is_slow[place]]
        self._batches = self._make_batches(interval_s)
        self._busy = Busy(nvml)

    def _way(self, call: Call) -> Way:
        """Give each call a number, one to all metrics that are parts of its answer."""
        whole = call._replace(part=None)
        if whole not in self._calls:
            self._calls.append(whole)
        return self._calls.index(whole), call.part

    def _make_batches(self, interval_s: float) -> List[Batch]:
        """Return those of which some locator names a call."""
        kinds: Dict[str, Any] = {
            "field": Fields,
            "errors": Fields,
            "gpm": Gpm,
            "samples": lambda nvml, calls: Buffers(nvml, calls, interval_s),
            "links": Links,
        }
        batches: List[Batch] = []
        for kind, make in kinds.items():
            numbers = [n for n, call in enumerate(self._calls) if call.function == kind]
            if numbers:
                batch = make(self.nvml, [self._calls[n] for n in numbers])
                batches.append((kind, numbers, batch))
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
        self._answers.pop(index, None)
        for _, _, batch in self._batches:
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
        return [
            [index, IS_LOST if self._is_lost(index) else self._busy.percent(device)]
            for index, device in enumerate(self.devices)
        ]

    def full(self) -> List[List[Any]]:
        """Return [GPU, UUID, name, answers] of each; slow metrics of a few GPUs at a time.

        A lost GPU is asked with the slow ones only: the driver may take long to say so.
        """
        for index, device in enumerate(self.devices):
            if index not in self._answers or (self._turn + index) % SLOW_EVERY == 0:
                self._look(index, device, is_slow=True)
            if not self._is_lost(index):
                self._look(index, device, is_slow=False)
        self._turn += 1
        return [
            [index] + list(self._names[index]) + [self._answers[index]]
            for index in range(len(self.devices))
        ]

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

    def _is_lost(self, index: int) -> bool:
        return IS_LOST in self._answers.get(index, ())

    def _is_split(self, device: Any) -> bool:
        """Tell whether a GPU is in MIG mode; most have none."""
        try:
            mode: int = self.nvml.nvmlDeviceGetMigMode(device)[0]
        except Exception:
            return False
        return mode == int(self.nvml.NVML_DEVICE_MIG_ENABLE)

    def _look(self, index: int, device: Any, *, is_slow: bool) -> None:
        """Ask for a GPU's fast or slow metrics; what one call says for all of it is kept for all."""
        if index not in self._answers or self._is_lost(index):
            self._answers[index] = [NOT_YET] * self._size
        if isinstance(device, str):
            self._answers[index] = [device] * self._size
            return
        if is_slow:
            (self._split.add if self._is_split(device) else self._split.discard)(index)
        answers = self._answers[index]
        seen = self._seen(index, device, is_slow=is_slow)
        for place, ways in self._slow if is_slow else self._fast:
            answer = answers[place] = self._first(device, ways, seen)
            if type(answer) is not str:
                continue
            if answer == IS_LOST:
                self._answers[index] = [answer] * self._size
                return
            if answer == NOT_SUPPORTED and index in self._split:
                answers[place] = IN_MIG

    def _seen(self, index: int, device: Any, *, is_slow: bool) -> List[Any]:
        """Return what batches answer, by the calls' numbers."""
        seen: List[Any] = [NOT_ASKED] * len(self._calls)
        for kind, numbers, batch in self._batches:
            if (kind in SLOW) == is_slow:
                try:
                    told = batch.read(index, device)
                except Exception as error:
                    told = [why(error)] * len(numbers)
                for number, answer in zip(numbers, told):
                    seen[number] = answer
        return seen

    def _first(self, device: Any, ways: List[Way], seen: List[Any]) -> Answer:
        """Return the first answer that is none of the reasons, else the last reason."""
        answer: Answer = ""
        for number, part in ways:
            whole = seen[number]
            if whole is NOT_ASKED:
                whole = seen[number] = self._ask(device, self._calls[number])
            answer = whole if part is None and type(whole) in PLAIN else part_of(whole, part)
            if type(answer) is not str:
                break
        return answer

    def _ask(self, device: Any, call: Call) -> Any:
        """Make one call; return the reason where it fails."""
        try:
            answer = getattr(self.nvml, call.function)(device, *call.arguments)
            return plausible(answer) if hasattr(answer, "free") else answer
        except Exception as error:
            return why(error)


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
