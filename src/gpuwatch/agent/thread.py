"""One thread that is looked at again and again, at the least cost.

schedstat comes first: while its run time, run delay and time slices stand still the thread has not
run, so it sleeps where it slept (measured: 41 % cheaper than reading stat and wchan each time).
Then comes wchan, which is enough where it names a wait that needs no second word. Only else, and at
every few looks, come stat, and the kernel stack (root), at three times the cost of wchan.
"""

import errno
from typing import NamedTuple, Optional, Set, Tuple

from gpuwatch.agent import waits
from gpuwatch.agent.host import Host, Kept
from gpuwatch.agent.lines import after
from gpuwatch.agent.process import stat_of
from gpuwatch.agent.tally import growth

IDLE = b"0 0 0"
"""schedstat of a kernel that keeps no scheduler statistics: it tells nothing."""
SMALL = 512
MAX_STACK = 8192
MAX_UID = 10
"""Digits of a user's number."""
STAT_EVERY = 5
"""Looks at a thread that ran between two readings of stat, which tells its name, its page faults, the
number of its process's threads, and whether its id is another's by now."""


class Gone(Exception):
    """The thread has ended."""


class Look(NamedTuple):
    """What one look at a thread found; differences are since the look before, 0 at the first."""

    moved: bool
    wait: str
    run_ns: int
    delay_ns: int
    major_faults: int


class Access(object):
    """What this agent may read, learnt by trying.

    Attributes:
        stack: kernel stacks may be read, as far as known.
        refused: pids whose wchan told nothing. Not only where it is hidden: from Linux 6.12 on a
            thread that fell asleep may stay in the run queue for a while, and wchan is 0 until it
            leaves it, which moves no counter.
        strange: pids of other users' processes, whose wchan stays hidden.
    """

    def __init__(self) -> None:
        self.stack = True
        self.refused: Set[int] = set()
        self.strange: Set[int] = set()


class Thread(object):
    """One thread.

    Args:
        host: whose files.
        pid: its process.
        tid: its own id.
        access: shared by all threads.

    Attributes:
        share: part of a CPU that it used between the last two looks; None before two looks.
        threads: of its process, at the last reading of stat.
        comm: its name.
        still: looks in a row at which it had not run since the one before.
    """

    __slots__ = (
        "_access", "_delay", "_faulted", "_faults", "_is_settled", "_looks", "_raw", "_run", "_sched", "_stack",
        "_start", "_stat", "_wait", "_wchan", "comm", "looked_at", "pid", "share", "still", "threads", "tid",
    )  # fmt: skip

    def __init__(self, host: Host, pid: int, tid: int, access: Access) -> None:
        folder = "/proc/%d/task/%d/" % (pid, tid)
        self.pid = pid
        self.tid = tid
        self.comm = b""
        self.threads = 0
        self.still = 0
        self.share: Optional[float] = None
        self.looked_at = 0.0
        self._access = access
        self._sched = host.keep(folder + "schedstat", SMALL)
        self._stat = host.keep(folder + "stat", SMALL * 2)
        self._wchan = host.keep(folder + "wchan", SMALL)
        self._stack = host.keep(folder + "stack", MAX_STACK)
        self._raw = b""
        self._wait = "unknown"
        self._is_settled = False
        self._start = -1
        self._looks = STAT_EVERY
        self._run = self._delay = self._faults = self._faulted = 0

    def look(self, now: float) -> Look:
        """Say what the thread does now, and what it used since the last look.

        Args:
            now: seconds, monotonic.

        Raises:
            Gone: it has ended.
        """
        raw = self._schedstat()
        if raw == self._raw and self._is_settled and not raw.startswith(IDLE):
            self._use(now, 0)
            self._wait = "ready" if self._wait == "run" else self._wait
            self.still += 1
            return Look(moved=False, wait=self._wait, run_ns=0, delay_ns=0, major_faults=0)
        first = self._start < 0
        run, delay = _times(raw)
        used = delayed = 0
        if not first:
            used, delayed = growth(self._run, run), growth(self._delay, delay)
        self.still = 0
        self._raw, self._run, self._delay = raw, run, delay
        self._wait = self._where()
        if self._wait == "run" and delayed > used:
            self._wait = "ready"
        self._use(now, None if first else used)
        faults, self._faulted = self._faulted, 0
        return Look(moved=True, wait=self._wait, run_ns=used, delay_ns=delayed, major_faults=faults)

    def close(self) -> None:
        """Give the descriptors back."""
        for kept in (self._sched, self._stat, self._wchan, self._stack):
            kept.close()

    def _use(self, now: float, used_ns: Optional[int]) -> None:
        passed = now - self.looked_at
        if used_ns is not None and passed > 0:
            self.share = used_ns / (passed * 1e9)
        self.looked_at = now

    def _schedstat(self) -> bytes:
        try:
            return self._sched.read()
        except PermissionError:
            return IDLE
        except OSError as error:
            if error.errno == errno.ENOENT and self._stat_there():
                return IDLE  # a kernel without scheduler information
            raise Gone

    def _stat_there(self) -> bool:
        try:
            return bool(self._stat.read())
        except OSError:
            return False

    def _read_stat(self) -> str:
        """Return the thread's state, and keep in mind what else stat tells."""
        try:
            stat = stat_of(self._stat.read())
        except OSError:
            stat = None
        if stat is None or (self._start >= 0 and stat.start != self._start):
            raise Gone
        if self._start >= 0:
            self._faulted += growth(self._faults, stat.major_faults)
        self._faults = stat.major_faults
        self._start = stat.start
        self.comm = stat.comm
        self.threads = stat.threads
        self._looks = 0
        return stat.state

    def _where(self) -> str:
        """Say what it waits in; a helper that sleeps at the first look is asked at the next.

        A process of hundreds of threads has few that ever do anything.
        """
        self._looks += 1
        self._is_settled = True
        state = ""
        if self._looks > STAT_EVERY:
            first = self._start < 0
            state = self._read_stat()
            if first and state == "S" and self.tid != self.pid:
                self._is_settled = False
                return "unknown"
        if state in waits.OF_STATE:
            return waits.OF_STATE[state]
        wchan = self._read(self._wchan)
        return waits.plain(wchan) or self._blocked(state or self._read_stat(), wchan)

    def _blocked(self, state: str, wchan: Optional[bytes]) -> str:
        """Say what it waits in where wchan alone does not, or needs a second word."""
        stack = None
        if self._access.stack and state not in waits.OF_STATE:
            stack = self._read(self._stack)
        found = waits.family(state, stack, wchan)
        if found == "unknown" and wchan in (None, b"0") and not stack:
            self._is_settled = self.pid in self._access.strange
            self._access.refused.add(self.pid)
        return found

    def _read(self, kept: Kept) -> Optional[bytes]:
        try:
            return kept.read()
        except OSError as error:
            if kept is self._stack and error.errno not in (errno.ESRCH, errno.EMFILE, errno.ENFILE):
                self._access.stack = False
            return None


def _times(raw: bytes) -> Tuple[int, int]:
    parts = raw.split(None, 2)
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        return 0, 0


def is_strange(host: Host, pid: int) -> bool:
    """Tell whether a process is another user's: wchan follows the rule of environ (proc(5))."""
    try:
        host.read("/proc/%d/environ" % pid, 1)
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def owner(host: Host, pid: int) -> str:
    """Return the number of a process's user, `?` where it cannot be read."""
    try:
        line = after(host.read("/proc/%d/status" % pid, 8192), b"Uid:") or b"?"
    except OSError:
        return "?"
    return (line.split() or [b"?"])[0][:MAX_UID].decode("ascii", "replace")
