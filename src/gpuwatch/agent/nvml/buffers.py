"""What the driver sampled between two looks: several readings a second for one call.

A step shorter than a second is one average in NVML's own readings; here its valleys and peaks show.
"""

import time
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple, Union

from gpuwatch.agent.nvml import raw
from gpuwatch.agent.nvml.locator import Call

FUNCTION = "nvmlDeviceGetSamples"
MOST = 1024
"""Samples that are taken at one look."""
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
        self._kinds = [call.arguments[0] for call in calls]
        self._interval_us = int(interval_s * 1000000)
        self._room: Dict[int, Any] = {}
        self._last_us: Dict[Tuple[int, int], int] = {}
        self._last: Dict[Tuple[int, int], Tuple[float, Union[Summary, str]]] = {}

    def read(self, index: int, device: Any) -> List[Union[Summary, str]]:
        """Return the answer to each call; raises what NVML raises, but for nothing new."""
        return [
            self.sum_up(
                index, kind, self._samples(device, kind, self._last_us.get((index, kind), 0))
            )
            for kind in self._kinds
        ]

    def forget(self, index: int) -> None:
        """Take it that this is another GPU now."""
        for key in [key for key in self._last_us if key[0] == index]:
            del self._last_us[key]

    def sum_up(
        self, index: int, kind: int, samples: List[Tuple[int, float]]
    ) -> Union[Summary, str]:
        """Return a summary of (time stamp in us, value) later than those seen before."""
        now = time.monotonic()
        last_us = self._last_us.get((index, kind), 0)
        newest_us = max([at for at, _ in samples] or [0])
        if newest_us <= last_us:
            at_s, summary = self._last.get((index, kind), (now - HOLD_S, NO_SAMPLE))
            return summary if now - at_s < HOLD_S else NO_SAMPLE
        since_us = last_us or newest_us - self._interval_us
        summary = _summary([value for at, value in samples if at > since_us], kind)
        self._last_us[index, kind] = newest_us
        self._last[index, kind] = (now, summary)
        return summary

    def _samples(self, device: Any, kind: int, after_us: int) -> List[Tuple[int, float]]:
        import ctypes

        of_type, count = ctypes.c_int(), ctypes.c_uint()
        ask = (device, ctypes.c_uint(kind), ctypes.c_ulonglong(after_us), ctypes.byref(of_type))
        if kind not in self._room:
            raw.call(self._nvml, FUNCTION, *ask, ctypes.byref(count), None)
            self._room[kind] = (self._nvml.c_nvmlSample_t * min(count.value, MOST))()
        room = self._room[kind]
        count.value = len(room)
        try:
            raw.call(self._nvml, FUNCTION, *ask, ctypes.byref(count), room)
        except self._nvml.NVMLError_NotFound:
            return []
        told = raw.bytes_of(room, min(count.value, len(room)) * raw.SAMPLE.size)
        found = [(at, raw.value_in(v, of_type.value)) for at, v in raw.SAMPLE.iter_unpack(told)]
        return [(at, value) for at, value in found if not isinstance(value, str)]


def _summary(values: List[float], kind: int) -> Union[Summary, str]:
    sane = [value for value in values if 0 <= value <= LARGEST[kind]]
    if not sane:
        return "bad sample"
    digits = COARSE[kind]
    mean = round(sum(sane) / len(sane), digits)
    return Summary(mean, round(min(sane), digits), round(max(sane), digits))
