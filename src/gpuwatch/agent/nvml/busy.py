"""How busy a GPU is, asked several times an interval: so past pynvml, into one buffer."""

from typing import Any

from gpuwatch.agent.nvml.locator import Answer, why

FUNCTION = "nvmlDeviceGetUtilizationRates"


class Busy(object):
    """Asks.

    Args:
        nvml: the module pynvml.
    """

    def __init__(self, nvml: Any) -> None:
        import ctypes

        self._nvml = nvml
        self._rates = nvml.c_nvmlUtilization_t()
        self._to_rates = ctypes.byref(self._rates)

    def percent(self, device: Any) -> Answer:
        """Return the share of the last sample period in which any kernel ran, or why it is unknown."""
        try:
            code = getattr(self._nvml.nvmlLib, FUNCTION)(device, self._to_rates)
            return why(self._nvml.NVMLError(code)) if code else int(self._rates.gpu)
        except AttributeError:
            return why(self._nvml.NVMLError(self._nvml.NVML_ERROR_FUNCTION_NOT_FOUND))
