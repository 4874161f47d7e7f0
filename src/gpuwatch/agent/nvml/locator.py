"""Locators of GPU metrics: what to call, and why a call gave nothing.

A locator is one way to read a metric, or several in order of preference; names are those of the
NVML API reference:

    nvmlDeviceGetClockInfo NVML_CLOCK_SM            a function and its arguments
    nvmlDeviceGetUtilizationRates .gpu              a part of its answer, by name or by place
    field NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION | nvmlDeviceGetTotalEnergyConsumption
    field NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX all a field of all links
    errors NVML_FI_DEV_ECC_DBE_VOL_TOTAL            a field that is asked for every few polls, as it seldom changes
    gpm NVML_GPM_METRIC_SM_UTIL                     between this look and the one before
    samples NVML_TOTAL_POWER_SAMPLES .mean          of what the driver sampled since
    links .up                                       NVLinks
"""

from typing import Any, NamedTuple, Optional, Tuple, Union

Answer = Union[int, float, str]
"""A raw reading, or the reason why there is none."""

GROUPS = ("gpm", "samples", "links")
"""Kinds of locators whose metrics come, and are missing, together."""
MAX_GPUS = 64
ALL_LINKS = 0xFFFFFFFF
"""Scope of a field that is summed over all links (nvml.h: UINT_MAX)."""
IS_LOST = "GPU is lost"
NOT_SUPPORTED = "Not Supported"
WORDS = {
    "NVMLError_DriverNotLoaded": "the NVIDIA driver is not loaded",
    "NVMLError_LibRmVersionMismatch": "the NVIDIA driver was updated under running programs:"
    " reboot the node, or unload and load its modules",
    "NVMLError_NoPermission": "not permitted to talk to the NVIDIA driver",
    "NVMLError_FunctionNotFound": "not in this driver",
    "NVMLError_GpuIsLost": IS_LOST,
    "NVMLError_NotSupported": NOT_SUPPORTED,
}


class Call(NamedTuple):
    """One way to read one metric: a function, or a kind of batch, with its arguments."""

    function: str
    arguments: Tuple[int, ...]
    part: Optional[str]


class RefusedError(Exception):
    """NVML answered, with what cannot be right."""


def parse(nvml: Any, text: str) -> Call:
    """Turn one alternative of a locator into a call."""
    words = text.split()
    part = words.pop()[1:] if words[-1].startswith(".") else None
    function = words.pop(0)
    arguments = tuple(ALL_LINKS if word == "all" else getattr(nvml, word) for word in words)
    return Call(function, arguments, part)


def part_of(answer: Any, part: Optional[str]) -> Answer:
    """Return a part of what a call answered, or all of it; a reason stays one."""
    if part is not None and not isinstance(answer, str):
        answer = answer[int(part)] if part.isdigit() else getattr(answer, part)
    return answer if isinstance(answer, (int, float, str)) else "answered with no number"


def why(error: BaseException) -> str:
    """Say in words why a call gave nothing."""
    return (WORDS.get(type(error).__name__) or str(error) or type(error).__name__)[:120]
