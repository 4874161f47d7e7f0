"""Forked children that may hang in the kernel alone: they hold nothing of the agent's but a pipe."""

import contextlib
import os
import signal
from typing import Optional

from gpuwatch.agent.host import Host

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


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
