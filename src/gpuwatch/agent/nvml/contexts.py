"""Processes with a compute context on a GPU, as each age of driver lists them."""

from typing import Any, List, Tuple

from gpuwatch.agent.nvml import raw

MOST = 64
"""Of one GPU; drivers have listed a hundred dead ones."""
UNKNOWN = 0xFFFFFFFFFFFFFFFF
"""Memory of a process that the driver cannot tell (NVML_VALUE_NOT_AVAILABLE)."""


def contexts(nvml: Any, device: Any) -> List[Tuple[int, Any]]:
    """Return (pid, bytes or None) of each.

    Version 3 of the list came with driver 510, version 2 with 450; each newer one is preferred,
    as it lists the processes inside of MIG instances too.

    Raises:
        NVMLError: as NVML says.
    """
    for function in (
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v2",
    ):
        try:
            return [(p.pid, p.usedGpuMemory) for p in getattr(nvml, function)(device)[:MOST]]
        except nvml.NVMLError_FunctionNotFound:
            continue
    return _first_version(nvml, device)


def _first_version(nvml: Any, device: Any) -> List[Tuple[int, Any]]:
    """Call what pynvml no longer calls: entries of a pid and a size, 16 bytes each."""
    import ctypes

    count = ctypes.c_uint(MOST)
    listed = ctypes.create_string_buffer(MOST * raw.PROCESS.size)
    raw.call(nvml, "nvmlDeviceGetComputeRunningProcesses", device, ctypes.byref(count), listed)
    told = listed.raw[: min(count.value, MOST) * raw.PROCESS.size]
    found = list(raw.PROCESS.iter_unpack(told))
    return [(pid, None if used == UNKNOWN else used) for pid, used in found]
