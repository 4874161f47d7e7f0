"""What the driver sampled between two looks: several readings a second for one call.

A step shorter than a second is one average in NVML's own readings; here its valleys and peaks show.
"""

import time
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple, Union

from gpuwatch.agent.nvml.locator import VALUE_OF_TYPE, Call

NO_SAMPLE = "no new sample"
HOLD_S = 1.0
"""A sample stands for so long at most (NVML API reference: sample periods are 1/6 s to 1 s)."""
LARGEST = {0: 2 * 10**7, 1: 100}
"""Of power (mW) and utilisation (%): drivers have told more, which is no reading."""
COARSE = {0: -2, 1: 0}
"""Digits to which they are rounded."""


class Summary(NamedTuple):
    """Of the samples since the last look."""

    mean: float
    low: float
    high: float


class Buffers(object):
    """Sums up what is new in them.

    Args:
        nvml: the module pynvml.
        calls: of the kind `samples`, each with a sampling type.
        interval_s: seconds between two looks; the first one looks back so far.
    """

    def __init__(self, nvml: Any, calls: Iterable[Call], interval_s: float) -> None:
        self._nvml = nvml
        self._calls = list(calls)
        self._interval_us = int(interval_s * 1000000)
        self._last_us: Dict[Tuple[int, int], int] = {}
        self._last: Dict[Tuple[int, int], Tuple[float, Union[Summary, str]]] = {}

    def read(self, index: int, device: Any) -> Dict[Call, Union[Summary, str]]:
        """Return the answer to each call; raises what NVML raises, but for nothing new."""
        return {call: self._summary(index, device, call.arguments[0]) for call in self._calls}

    def forget(self, index: int) -> None:
        """Take it that this is another GPU now."""
        for key in [key for key in self._last_us if key[0] == index]:
            del self._last_us[key]

    def _summary(self, index: int, device: Any, kind: int) -> Union[Summary, str]:
        last_us = self._last_us.get((index, kind), 0)
        try:
            of_type, samples = self._nvml.nvmlDeviceGetSamples(device, kind, last_us)
        except self._nvml.NVMLError_NotFound:
            samples = []
        found = [(s.timeStamp, s.sampleValue) for s in samples if s.timeStamp > last_us]
        now = time.monotonic()
        if not found:
            at, summary = self._last.get((index, kind), (-HOLD_S, NO_SAMPLE))
            return summary if now - at < HOLD_S else NO_SAMPLE
        newest_us = self._last_us[index, kind] = max(at for at, _ in found)
        since_us = last_us or newest_us - self._interval_us
        member = VALUE_OF_TYPE[of_type]
        values = [getattr(value, member) for at, value in found if at > since_us]
        summary = _sum_up(values, kind)
        self._last[index, kind] = (now, summary)
        return summary


def _sum_up(values: List[float], kind: int) -> Union[Summary, str]:
    sane = [value for value in values if 0 <= value <= LARGEST[kind]]
    if not sane:
        return "bad sample"
    digits = COARSE[kind]
    mean = round(sum(sane) / len(sane), digits)
    return Summary(mean, round(min(sane), digits), round(max(sane), digits))
