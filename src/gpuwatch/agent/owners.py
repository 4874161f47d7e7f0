"""Which process of the job owns a socket: the links in /proc/PID/fd, few of them at a time.

A link costs 4 us, a rank has hundreds of descriptors, and a forked loader has all of its rank's. So
links are read only while there are sockets that nobody has been found to own; whom nobody of the job
owned in one whole search is a stranger's, and not asked for again before the job has new processes.
"""

import time
from typing import Callable, Dict, List, Optional, Set, Tuple

from gpuwatch.agent.host import Host, Member

LINKS = 300
"""Links read at most in one call."""
LINKS_A_SECOND = 100
"""On the average: what a search read is paid for by a rest after it."""
LONGEST_REST_S = 60.0
PREFIX = "socket:["


class Owners(object):
    """Finds owners among the processes that it was told.

    Args:
        host: whose /proc.
        clock: seconds, monotonic.

    Attributes:
        namespaces: network namespace (its link's text) to one process in it; "" is the agent's own.
        refused: a process whose descriptors may not be seen.
    """

    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self.namespaces: Dict[str, int] = {}
        self.refused: Optional[int] = None
        self._host = host
        self._clock = clock
        self._job: Tuple[Member, ...] = ()
        self._members: Dict[int, Member] = {}
        self._owners: Dict[int, int] = {}
        self._strangers: Set[int] = set()
        self._sought: Set[int] = set()
        self._pids: List[int] = []
        self._links: List[str] = []
        self._read = 0
        self._rest_until = 0.0

    def enrol(self, job: Tuple[Member, ...]) -> None:
        """Take up the job's processes as they are now."""
        if job is self._job:
            return
        fresh = {member.pid for member in job} - set(self._members)
        self._job = job
        self._members = {member.pid: member for member in job}
        self._owners = {inode: pid for inode, pid in self._owners.items() if pid in self._members}
        if self.refused not in self._members:
            self.refused = None
        if fresh:
            self._strangers.clear()
            self._pids, self._links = [], []
            self._rest_until = 0.0
        self.namespaces = {}
        own = self._namespace("self")
        for member in job:
            found = self._namespace(str(member.pid))
            self.namespaces.setdefault("" if found in ("", own) else found, member.pid)

    def keep(self, inodes: Set[int]) -> None:
        """Forget all sockets but these."""
        self._owners = {inode: pid for inode, pid in self._owners.items() if inode in inodes}
        self._strangers &= inodes

    def owner(self, inode: int) -> Optional[Member]:
        """Return whose a socket is, None where that is not known."""
        return self._members.get(self._owners.get(inode, 0))

    def member(self, pid: int) -> Optional[Member]:
        """Return what a process is in the job now."""
        return self._members.get(pid)

    def seek(self, inodes: Set[int]) -> None:
        """Look for the owners of those of these sockets that are new; go on in the next call."""
        wanted = inodes - self._strangers - set(self._owners)
        if not wanted or (not self._searching and not self._begin(wanted)):
            return
        left = LINKS
        while left > 0 and self._searching and not wanted <= set(self._owners):
            if not self._links:
                left -= 1
                self._links = self._descriptors(self._pids[0])
            while left > 0 and self._links:
                left -= 1
                self._follow(self._pids[0], self._links.pop())
            if not self._links:
                del self._pids[0]
        self._read += LINKS - left
        if not self._searching:
            self._strangers |= self._sought - set(self._owners)
        if not self._searching or wanted <= set(self._owners):
            self._end()

    @property
    def _searching(self) -> bool:
        return bool(self._pids)

    def _begin(self, wanted: Set[int]) -> bool:
        """Begin a search, unless the last one is to be paid for yet.

        The ranks' own processes come first, as what they opened before they forked belongs to them;
        then who was found to own sockets.
        """
        if self._clock() < self._rest_until:
            return False
        owning = set(self._owners.values())
        order = sorted(self._job, key=lambda m: (m.role != "main", m.pid not in owning))
        self._pids = [member.pid for member in order]
        self._sought = wanted
        self._read = 0
        self.refused = None
        return True

    def _end(self) -> None:
        self._pids, self._links = [], []
        rest_s = min(LONGEST_REST_S, self._read / LINKS_A_SECOND)
        self._rest_until = self._clock() + rest_s

    def _descriptors(self, pid: int) -> List[str]:
        folder = "/proc/%d/fd" % pid
        try:
            return [folder + "/" + name for name in self._host.listdir(folder)]
        except PermissionError:
            self.refused = pid
        except OSError:
            pass
        return []

    def _follow(self, pid: int, link: str) -> None:
        try:
            target = self._host.readlink(link)
        except OSError:
            return
        number = target[len(PREFIX) : -1]
        if target.startswith(PREFIX) and number.isdigit() and len(number) < 20:
            self._owners.setdefault(int(number), pid)

    def _namespace(self, process: str) -> str:
        """Return the name of a process's network namespace, "" where it may not be known."""
        try:
            return self._host.readlink("/proc/%s/ns/net" % process)
        except OSError:
            return ""
