"""NVLinks of a GPU: how many there are, and how many are up."""

from typing import Any, Iterable, List, NamedTuple, Union

from gpuwatch.agent.nvml.locator import Call

NO_LINKS = "no NVLink"


class Count(NamedTuple):
    """Of the links of one GPU."""

    total: int
    up: int


class Links(object):
    """Counts them.

    Args:
        nvml: the module pynvml.
        calls: of the kind `links`.
    """

    def __init__(self, nvml: Any, calls: Iterable[Call]) -> None:
        self._nvml = nvml
        self._size = len(list(calls))

    def read(self, _: int, device: Any) -> List[Union[Count, str]]:
        """Return the answer to each call; raises what NVML raises, but for the end of the list."""
        return [self._count(device)] * self._size

    def forget(self, index: int) -> None:
        """Take it that this is another GPU now."""

    def _count(self, device: Any) -> Union[Count, str]:
        total = up = 0
        try:
            for link in range(self._nvml.NVML_NVLINK_MAX_LINKS):
                up += bool(self._nvml.nvmlDeviceGetNvLinkState(device, link))
                total += 1
        except (self._nvml.NVMLError_InvalidArgument, self._nvml.NVMLError_NotSupported):
            pass
        return Count(total, up) if total else NO_LINKS
