"""Critical errors (Xid) of GPUs in the kernel's log, where it may be read.

NVML's events leave out those after which it cannot answer (79: off the bus; 119, 120: GSP is
silent), so the log counts where both are there. Records of /dev/kmsg come one a read, never
waited for (Documentation/ABI/testing/dev-kmsg): `4,1234,5678,-;NVRM: Xid (PCI:0000:3b:00): 79, ...`
"""

import os
import re
from typing import Dict, List, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.nvml.addresses import uuids

PATH = "/dev/kmsg"
RECORD = 8192
MOST = 512
"""Records that are looked at in one tick."""
XID = re.compile(
    rb"NVRM: Xid \(PCI:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^)]{0,4}\): (\d{1,5})\b"
)


class KernelLog(object):
    """Follows it from now on.

    Args:
        host: whose log, and whose list of GPUs.

    Attributes:
        readable: whether it may be read.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._file = -1
        try:
            self._file = os.open(host.below(PATH), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError:
            self.close()
        self.readable = self._file >= 0

    def take(self) -> List[Tuple[str, int]]:
        """Return (UUID of the GPU, Xid) of each error since the last look."""
        found: List[Tuple[str, int]] = []
        known: Dict[str, str] = {}
        for address, xid in self._errors():
            known = known or {a.partition(".")[0]: uuid for a, uuid in uuids(self._host).items()}
            if address in known:
                found.append((known[address], xid))
        return found

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self.readable = -1, False

    def _errors(self) -> List[Tuple[str, int]]:
        found: List[Tuple[str, int]] = []
        for _ in range(MOST if self.readable else 0):
            try:
                record = os.read(self._file, RECORD)
            except BrokenPipeError:
                continue  # records were overwritten before they were read
            except BlockingIOError:
                break
            except OSError:
                self.close()
                break
            if not record:
                break
            found.extend(
                (m.group(1).decode().lower(), int(m.group(2))) for m in XID.finditer(record)
            )
        return found
