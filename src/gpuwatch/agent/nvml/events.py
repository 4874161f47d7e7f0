"""Critical errors (Xid) of GPUs, as the driver reports them to who waits; nobody waits here."""

from typing import Any, List, Sequence

from gpuwatch.agent.nvml.locator import why

MOST = 32
"""Events taken at one look."""


class Xids(object):
    """An event set of all GPUs.

    Args:
        nvml: the module pynvml.
        devices: handles; a string where there is none.

    Attributes:
        reason: why no GPU's errors are heard of; "" where one's are.
    """

    def __init__(self, nvml: Any, devices: Sequence[Any]) -> None:
        self._nvml = nvml
        self._places = {
            _address(device): index
            for index, device in enumerate(devices)
            if not isinstance(device, str)
        }
        self.reason = ""
        try:
            self._set = nvml.nvmlEventSetCreate()
        except Exception as error:
            self.reason = why(error)
            return
        reasons = [self._register(device) for device in devices if not isinstance(device, str)]
        if all(reasons):
            self.reason = reasons[0] if reasons else "no GPU answers"

    def take(self) -> List[List[int]]:
        """Return [GPU, Xid] of each error since the last look; never waits."""
        found: List[List[int]] = []
        while not self.reason and len(found) < MOST:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except self._nvml.NVMLError_Timeout:
                break
            except Exception as error:
                self.reason = why(error)
                break
            index = self._places.get(_address(event.device))
            if index is not None:
                found.append([index, event.eventData])
        return found

    def close(self) -> None:
        """Give the event set back."""
        if not self.reason:
            self._nvml.nvmlEventSetFree(self._set)

    def _register(self, device: Any) -> str:
        try:
            kinds = self._nvml.nvmlEventTypeXidCriticalError
            self._nvml.nvmlDeviceRegisterEvents(device, kinds, self._set)
        except Exception as error:
            return why(error)
        return ""


def _address(device: Any) -> Any:
    """Return what makes a handle the same as another one."""
    import ctypes

    return ctypes.cast(device, ctypes.c_void_p).value
