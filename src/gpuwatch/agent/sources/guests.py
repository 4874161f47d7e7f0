"""Other agents of gpuwatch on this node: two sets of eyes cost twice, and one may look on with the other.

Looked for at the start, and seldom again. The first words of each command line are read, which a process
that is stuck in the kernel may hold up: that costs this source and nothing else.
"""

import os
import time
from typing import Callable, Dict, List, Optional, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import GAUGE, LABEL, Metric, Reading
from gpuwatch.agent.process import TICKS_A_SECOND, stat_of, uptime_s, user_name
from gpuwatch.agent.thread import owner

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
        since_s = uptime_s(self._host)
        for name in self._host.listdir("/proc"):
            pid = int(name) if name.isdigit() else os.getpid()
            if pid in self._host.board.own_pids or pid == os.getpid():
                continue
            try:
                if SIGN not in self._host.read("/proc/%d/cmdline" % pid, MAX_COMMAND):
                    continue
                stat = stat_of(self._host.read("/proc/%d/stat" % pid, 1024))
            except OSError:
                continue
            user = owner(self._host, pid)
            if stat is not None and user.isdigit():
                age_s = max(0, int(since_s - stat.start / TICKS_A_SECOND))
                found[pid] = int(user), pid, user_name(self._host, int(user)), age_s
                parents[pid] = stat.ppid
        known = {os.getpid(), *found}
        told = [found[pid] for pid in found if parents[pid] not in known]
        return sorted(told, key=lambda each: -each[3])[:MAX_TOLD]
