"""Calls made past pynvml: what it no longer calls, or wraps at many times the price of the call.

Buffers are made once and unpacked whole; layouts are those of nvml.h, which never change.
"""

import struct
from typing import Any

FIELD = struct.Struct("IIqqii8s")
"""nvmlFieldValue_t: id, scope, time stamp, latency, type and return code of the value."""
SAMPLE = struct.Struct("Q8s")
"""nvmlSample_t: time stamp in microseconds, and the value."""
METRIC = struct.Struct("Iid3P")
"""nvmlGpmMetric_t: id, return code, value, and pointers to its names."""
PROCESS = struct.Struct("IQ")
"""nvmlProcessInfo_v1_t: pid and bytes."""
VALUES = tuple(struct.Struct(code) for code in ("d", "I", "L", "Q", "q", "i", "H"))
"""Members of nvmlValue_t, by nvmlValueType_t."""


def call(nvml: Any, function: str, *arguments: Any) -> None:
    """Make a call.

    Raises:
        NVMLError: as NVML says, or that this driver's library has no such function.
    """
    try:
        made = getattr(nvml.nvmlLib, function)
    except AttributeError:
        raise nvml.NVMLError(nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    code = made(*arguments)
    if code:
        raise nvml.NVMLError(code)


def bytes_of(buffer: Any, size: int, start: int = 0) -> bytes:
    """Return what stands in a buffer of ctypes."""
    import ctypes

    return ctypes.string_at(ctypes.addressof(buffer) + start, size)


def value_in(data: bytes, of_type: int) -> Any:
    """Return the number in an nvmlValue_t, a reason for a type that is not known."""
    if not 0 <= of_type < len(VALUES):
        return "of unknown type %d" % of_type
    return VALUES[of_type].unpack_from(data)[0]
