"""Counts critical errors (Xid) of GPUs, told by two witnesses: the kernel's log, and the driver."""

from typing import Any, Dict, Optional, Tuple


class Xids(object):
    """By GPU: its UUID, or its index while that is not known."""

    def __init__(self) -> None:
        self._last: Dict[Any, Tuple[int, int]] = {}
        self._counts: Dict[Any, Dict[str, int]] = {}

    def count(self, gpu: Any, witness: str, xid: Any) -> None:
        """Count an error; log and driver tell of the same ones, so they are not added up."""
        counts = self._counts.setdefault(gpu, {})
        counts[witness] = counts.get(witness, 0) + 1
        self._last[gpu] = (int(xid), max(counts.values()))

    def of(self, gpu: Any) -> Optional[Tuple[int, int]]:
        """Return the last error of a GPU, and how many there were; None without any."""
        return self._last.get(gpu)
