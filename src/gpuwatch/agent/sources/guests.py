"""Other agents of gpuwatch on this node: two sets of eyes cost twice, and one may look on with the other.

Looked for at the start, and seldom again. The first words of each command line are read, which a process
that is stuck in the kernel may hold up: that costs this source and nothing else.
"""

import os
import time
from typing import Callable, Dict, List, Optional, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.lines import after
from gpuwatch.agent.metric import GAUGE, LABEL, Metric, Reading
from gpuwatch.agent.process import stat_of

ROWS = (
    Metric("uid", "guest", LABEL, "int", "", "Uid", "User id of another agent of gpuwatch on the node."),
    Metric("pid", "guest", LABEL, "int", "", "pid", "Its process."),
    Metric("user", "guest", LABEL, "str", "", "passwd", "The user's name, as /etc/passwd has it; else null."),
    Metric("guest_age_s", "guest", GAUGE, "int", "s", "stat starttime", "For how long it was there when it was found.", high=2**32),
)  # fmt: skip

SIGN = b"o.write(sys.argv[1][::-1])"
"""Part of what `-c` of each agent's interpreter says, of whatever version."""
MAX_COMMAND = 1024
MAX_TOLD = 4
AGAIN_S = 600.0
TICKS_A_SECOND = 100
Found = Tuple[int, int, Optional[str], int]


class Reader(object):
    """Looks for them.

    Args:
        host: whose processes.
        clock: seconds, monotonic.
    """

    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._clock = clock
        self._looked_at: Optional[float] = None
        self._found: List[Found] = []

    def read(self) -> Reading:
        """Return those that were found at the last look."""
        now = self._clock()
        if self._looked_at is None or now - self._looked_at >= AGAIN_S:
            self._looked_at = now
            self._found = self._look()
        return Reading([("guest", found[:3], (found[3],)) for found in self._found], {})

    def _look(self) -> List[Found]:
        """Return other agents; an agent's own children have its command line, and are none."""
        found: Dict[int, Found] = {}
        parents: Dict[int, int] = {}
        uptime_s = self._uptime_s()
        for name in self._host.listdir("/proc"):
            pid = int(name) if name.isdigit() else os.getpid()
            if pid in self._host.board.own_pids or pid == os.getpid():
                continue
            try:
                if SIGN not in self._host.read("/proc/%d/cmdline" % pid, MAX_COMMAND):
                    continue
                stat = stat_of(self._host.read("/proc/%d/stat" % pid, 1024))
                uid = _uid(self._host.read("/proc/%d/status" % pid, 4096))
            except OSError:
                continue
            if stat is not None and uid is not None:
                age_s = max(0, int(uptime_s - stat.start / TICKS_A_SECOND))
                found[pid] = uid, pid, self._user(uid), age_s
                parents[pid] = stat.ppid
        known = {os.getpid(), *found}
        told = [found[pid] for pid in found if parents[pid] not in known]
        return sorted(told, key=lambda each: -each[3])[:MAX_TOLD]

    def _uptime_s(self) -> float:
        try:
            return float(self._host.read("/proc/uptime", 256).split()[0])
        except (OSError, ValueError, IndexError):
            return 0.0

    def _user(self, uid: int) -> Optional[str]:
        """Return a user's name, from the local file only: a directory server may be what hangs."""
        try:
            lines = self._host.read("/etc/passwd").split(b"\n")
        except OSError:
            return None
        for line in lines:
            fields = line.split(b":")
            if len(fields) > 2 and fields[2] == b"%d" % uid:
                return fields[0][:64].decode("utf-8", "replace")
        return None


def _uid(status: bytes) -> Optional[int]:
    words = (after(status, b"Uid:") or b"").split()
    return int(words[0]) if words and words[0].isdigit() and len(words[0]) < 12 else None
