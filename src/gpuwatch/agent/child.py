"""Forked children that may hang in the kernel alone: they hold nothing of the agent's but a pipe."""

import contextlib
import json
import os
import signal
from typing import Any, Callable, Optional

from gpuwatch.agent.host import Host

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
BACK_OFF_S = (1.0, 60.0)
"""First and longest rest before a child is started again; an answer makes it start anew."""
CHUNK = 65536


def alone(pipe: int, parent: int, name: bytes) -> None:
    """Cut, in a child, all ties to the agent but the pipe, and die when it dies.

    Args:
        pipe: that stays open.
        parent: process id of the agent.
        name: by which the next agent knows such a child, at most 15 bytes.
    """
    signal.set_wakeup_fd(-1)
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(each, signal.SIG_DFL)
    for number in os.listdir("/proc/self/fd"):
        if int(number) != pipe:
            with contextlib.suppress(OSError):  # the folder's own is closed already
                os.close(int(number))
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)
    import ctypes  # from the node's disk, which may hang: nothing of the agent's is held by now

    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    libc.prctl(PR_SET_NAME, name, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def status_of(child: int) -> Optional[int]:
    """Return how a child ended, None while it has not."""
    try:
        pid, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:
        return 0
    return status if pid else None


def stuck_child_of_another(host: Host, name: bytes) -> int:
    """Return the pid of a child of this name that was killed and cannot die, 0 if there is none.

    It sleeps uninterruptibly (D) with SIGKILL pending (proc(5): SigPnd, ShdPnd). An agent that is
    gone may have left such a child; a second one would get stuck beside it.
    """
    for pid in host.listdir("/proc"):
        if not pid.isdigit():
            continue
        try:
            if host.read("/proc/%s/comm" % pid, 32).rstrip() != name:
                continue
            if unkillable(host.read("/proc/%s/status" % pid)):
                return int(pid)
        except OSError:
            continue
    return 0


def unkillable(status: bytes) -> bool:
    """Tell, from its /proc/PID/status, whether a process was killed and does not die."""
    bit = 1 << (signal.SIGKILL - 1)
    fields = dict(line.partition(b":")[::2] for line in status.split(b"\n"))
    pending = int(fields.get(b"SigPnd", b"0"), 16) | int(fields.get(b"ShdPnd", b"0"), 16)
    return bool(pending & bit) and fields.get(b"State", b"").strip().startswith(b"D")


class Probe(object):
    """A child that tells something each interval, looked after.

    One that falls silent is killed and started again later; one that cannot die is left alone,
    and no second one is started while it is there. Nothing here waits.

    Args:
        host: its board gets the child's pid.
        name: of the process, at most 15 bytes.
        body: what the child does, with a function that tells the agent something; it has ended
            when this returns.
        patience_s: silence after which it is killed.

    Attributes:
        said: the newest that it told, None before the first.
        said_at: when.
        stuck: pid of a child that hangs in the kernel, 0 when none does.
    """

    def __init__(
        self,
        host: Host,
        name: bytes,
        body: Callable[[Callable[[Any], None]], None],
        patience_s: float,
    ) -> None:
        self.said: Any = None
        self.said_at = 0.0
        self.stuck = 0
        self._host = host
        self._name = name
        self._body = body
        self._patience_s = patience_s
        self._pid = self._dying = 0
        self._pipe = -1
        self._buffer = b""
        self._heard_at = self._next_start = 0.0
        self._delay_s = BACK_OFF_S[0]

    def care(self, now: float) -> None:
        """Hear the child, kill it if it is silent, bury it if it is dead, start the next one."""
        self._hear(now)
        if self._pid and now - self._heard_at > self._patience_s:
            self._end(now)
        if self._dying and status_of(self._dying) is not None:
            self._host.board.own_pids.discard(self._dying)
            self._dying = 0
        self.stuck = self._dying
        if not (self._pid or self._dying) and now >= self._next_start:
            self.stuck = stuck_child_of_another(self._host, self._name)
            if self.stuck:
                self._put_off(now)
            else:
                self._start(now)

    def close(self) -> None:
        """End the child; one that cannot die is left."""
        if self._pid:
            self._end(0.0)

    def _start(self, now: float) -> None:
        parent = os.getpid()
        ours, theirs = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            self._put_off(now)
            return
        if not pid:
            try:
                alone(theirs, parent, self._name)
                self._body(lambda words: _say(theirs, words))
            finally:
                os._exit(0)
        os.close(theirs)
        os.set_blocking(ours, False)
        self._pid, self._pipe, self._buffer, self._heard_at = pid, ours, b"", now
        self._host.board.own_pids.add(pid)

    def _hear(self, now: float) -> None:
        """Take what the child has written: a line of JSON each time; at its end let go of it."""
        while self._pid:
            try:
                data = os.read(self._pipe, CHUNK)
            except BlockingIOError:
                return
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            if lines:
                self.said = json.loads(lines[-1].decode("ascii"))
                self.said_at = self._heard_at = now
                self._delay_s = BACK_OFF_S[0]
            if not data:
                self._end(now)

    def _end(self, now: float) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.close(self._pipe)
        self._dying, self._pid, self._pipe = self._pid, 0, -1
        self._put_off(now)

    def _put_off(self, now: float) -> None:
        self._next_start = now + self._delay_s
        self._delay_s = min(self._delay_s * 2, BACK_OFF_S[1])


def _say(pipe: int, words: Any) -> None:
    data = json.dumps(words, separators=(",", ":")).encode("ascii") + b"\n"
    while data:
        data = data[os.write(pipe, data) :]
