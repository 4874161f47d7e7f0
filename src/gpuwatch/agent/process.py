"""One process, as its stat file and its environment tell of it."""

import re
from typing import Dict, NamedTuple, Optional, Tuple

from gpuwatch.agent.host import Host

MAX_UPTIME_S = 1e10
TICKS_A_SECOND = 100
"""USER_HZ, in which /proc/PID/stat tells when a process began, after the node did."""
MAX_DIGITS = 20
"""Of a number in a stat file."""
NUMBER = re.compile(r"\d{1,7}\Z")
"""What a rank may be called: neither a sign nor a word."""


class Stat(NamedTuple):
    """What is used of a /proc/PID/stat or /proc/PID/task/TID/stat (proc(5))."""

    comm: bytes
    state: str
    ppid: int
    session: int
    major_faults: int
    threads: int
    start: int


class Process(object):
    """One process, as far as it was looked at."""

    __slots__ = ("born_at", "comm", "command", "environ", "pid", "ppid", "session", "start")

    def __init__(self, pid: int, stat: Stat, born_at: float) -> None:
        self.pid = pid
        self.ppid = stat.ppid
        self.start = stat.start
        self.session = stat.session
        self.comm = stat.comm
        self.born_at = born_at
        self.environ: Optional[Dict[str, str]] = None
        self.command: Optional[bytes] = None

    def is_still(self, stat: Stat) -> bool:
        """Tell whether a reading of its stat file says what the one before said."""
        before = self.start, self.ppid, self.session, self.comm
        return before == (stat.start, stat.ppid, stat.session, stat.comm)

    @property
    def identity(self) -> Tuple[str, str]:
        """RANK and LOCAL_RANK, "" where the environment has none or may not be read."""
        environ = self.environ or {}
        rank, local = environ.get("RANK", ""), environ.get("LOCAL_RANK", "")
        return rank if NUMBER.match(rank) else "", local if NUMBER.match(local) else ""


def uptime_s(host: Host) -> float:
    """Return since when the node runs; 0 where that is not told: all is young then."""
    try:
        found_s = float(host.read("/proc/uptime", 256).split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return found_s if 0 <= found_s < MAX_UPTIME_S else 0.0


def user_name(host: Host, uid: int) -> Optional[str]:
    """Return a user's name, from the local file only: a directory server may be what hangs."""
    try:
        lines = host.read("/etc/passwd").split(b"\n")
    except OSError:
        return None
    for line in lines:
        fields = line.split(b":")
        if len(fields) > 2 and fields[2] == b"%d" % uid:
            return fields[0][:64].decode("utf-8", "replace")
    return None


def stat_of(raw: bytes) -> Optional[Stat]:
    """Parse a stat file, None where it is none; comm may hold anything, so its end is the last `)`."""
    end = raw.rfind(b")")
    fields = raw[end + 2 :].split(None, 20)
    try:
        if max(map(len, fields[:20])) > MAX_DIGITS:
            return None
        return Stat(
            comm=raw[raw.index(b"(") + 1 : end],
            state=fields[0].decode("ascii"),
            ppid=int(fields[1]),
            session=int(fields[3]),
            major_faults=int(fields[9]),
            threads=int(fields[17]),
            start=int(fields[19]),
        )
    except (ValueError, IndexError):
        return None
