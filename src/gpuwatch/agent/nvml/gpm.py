"""GPM, the profiling metrics of Hopper and later: what SMs, tensor cores and wires really did.

Metrics are of the time between two samples, so a look costs one sample: the one before is kept.
Samples closer than 100 ms hold nothing new (NVML API reference, GPM functions).
"""

import contextlib
import time
from typing import Any, Dict, Iterable, List

from gpuwatch.agent.nvml import raw
from gpuwatch.agent.nvml.locator import Answer, Call, why

MIN_S = 0.2
"""Looks closer than this repeat the last answer."""
MIB = 1 << 20
RATES = 20
"""Metrics from this number on are rates in MiB/s, those before shares in percent (nvml.h)."""
STARTING = "starting"
TOO_OLD = "needs a Hopper GPU or later"
ADMIN_ONLY = "not permitted: RmProfilingAdminOnly, or another profiler holds the counters"


class Gpm(object):
    """Reads them: percent to a tenth, rates in bytes/s to a tenth of a megabyte.

    Args:
        nvml: the module pynvml.
        calls: of the kind `gpm`, each with a metric's number.
    """

    def __init__(self, nvml: Any, calls: Iterable[Call]) -> None:
        self._nvml = nvml
        self._calls = list(calls)
        self._pairs: Dict[int, List[Any]] = {}
        self._at: Dict[int, float] = {}
        self._answers: Dict[int, List[Answer]] = {}
        self._request = nvml.c_nvmlGpmMetricsGet_t()
        self._request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(self._calls)
        for place, call in enumerate(self._calls):
            self._request.metrics[place].metricId = call.arguments[0]
        self._start = type(self._request).metrics.offset
        self._size = len(self._calls) * raw.METRIC.size

    def read(self, index: int, device: Any) -> List[Answer]:
        """Return the answer to each call; raises what NVML raises, but for lacking rights."""
        now = time.monotonic()
        if now - self._at.get(index, 0.0) >= MIN_S:
            try:
                self._answers[index] = self._look(index, device)
            except self._nvml.NVMLError_NoPermission:
                self._answers[index] = self._all(ADMIN_ONLY)
            self._at[index] = now
        return self._answers[index]

    def forget(self, index: int) -> None:
        """Take it that this is another GPU now."""
        self._at.pop(index, None)
        for sample in self._pairs.pop(index, []):
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(sample)

    def _look(self, index: int, device: Any) -> List[Answer]:
        nvml = self._nvml
        if index not in self._pairs:
            if not nvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice:
                return self._all(TOO_OLD)
            pair = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
            nvml.nvmlGpmSampleGet(device, pair[0])
            self._pairs[index] = pair
            return self._all(STARTING)
        last, spare = self._pairs[index]
        nvml.nvmlGpmSampleGet(device, spare)
        self._pairs[index] = [spare, last]
        self._request.sample1, self._request.sample2 = last, spare
        nvml.nvmlGpmMetricsGet(self._request)
        told = raw.METRIC.iter_unpack(raw.bytes_of(self._request, self._size, self._start))
        return [self._answer(number, code, value) for number, code, value, _, _, _ in told]

    def _answer(self, number: int, code: int, value: float) -> Answer:
        if code:
            return why(self._nvml.NVMLError(code))
        return round(value, 1) if number < RATES else round(value * MIB, -5)

    def _all(self, reason: str) -> List[Answer]:
        return [reason] * len(self._calls)
