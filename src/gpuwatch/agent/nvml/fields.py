"""Field values: many counters of one GPU in one call, each with a return code of its own."""

from typing import Any, Iterable, List

from gpuwatch.agent.nvml import raw
from gpuwatch.agent.nvml.locator import Answer, Call, why


class Fields(object):
    """Reads them.

    Args:
        nvml: the module pynvml.
        calls: each with a field's number, and a scope.
    """

    def __init__(self, nvml: Any, calls: Iterable[Call]) -> None:
        import ctypes

        self._nvml = nvml
        self._calls = list(calls)
        self._values = (nvml.c_nvmlFieldValue_t * len(self._calls))()
        self._count = ctypes.c_int(len(self._calls))
        self._size = len(self._calls) * raw.FIELD.size
        for place, call in enumerate(self._calls):
            number, scope = (call.arguments + (0,))[:2]
            self._values[place].fieldId, self._values[place].scopeId = number, scope

    def read(self, _: int, device: Any) -> List[Answer]:
        """Return the answer to each call; raises what the call as a whole raises."""
        raw.call(self._nvml, "nvmlDeviceGetFieldValues", device, self._count, self._values)
        told = raw.FIELD.iter_unpack(raw.bytes_of(self._values, self._size))
        return [
            why(self._nvml.NVMLError(code)) if code else raw.value_in(value, of_type)
            for _, _, _, _, of_type, code, value in told
        ]

    def forget(self, index: int) -> None:
        """Take it that this is another GPU now."""
