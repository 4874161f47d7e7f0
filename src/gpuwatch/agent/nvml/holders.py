"""Which of the processes that the driver lists are processes of this node as we see it.

Drivers list dead ones, and in a container those of the host by their numbers there, which may be
those of others here (pid_namespaces(7)).
"""

from typing import Any, List, Optional, Tuple

from gpuwatch.agent.host import Host

INITIAL = "pid:[4026531836]"
"""The pid namespace of the host (PROC_PID_INIT_INO, include/linux/proc_ns.h)."""
DEVICE = "/dev/nvidia"
MOST_FILES = 4096
"""Descriptors of one process that are looked at."""


def held(host: Host, listed: List[Any]) -> Tuple[List[Tuple[int, int, Optional[int]]], int]:
    """Return [(GPU, pid, bytes or None)] of processes that exist here, and how many are not ours.

    Args:
        host: whose processes they should be.
        listed: [GPU, pid, bytes or None] of each compute context.
    """
    every = [(int(g), int(p), None if used is None else int(used)) for g, p, used in listed]
    present = [each for each in every if host.exists("/proc/%d" % each[1])]
    if _sees_all(host):
        return present, 0
    holding = {pid for pid in {pid for _, pid, _ in present} if _holds_gpu(host, pid)}
    known = [each for each in present if each[1] in holding]
    return known, len(listed) - len(known)


def _sees_all(host: Host) -> bool:
    """Tell whether numbers of processes here are those of the driver."""
    try:
        return host.readlink("/proc/self/ns/pid") == INITIAL
    except OSError:
        return True


def _holds_gpu(host: Host, pid: int) -> bool:
    """Tell whether a process has a GPU open; one whose files we may not see counts as not."""
    folder = "/proc/%d/fd" % pid
    try:
        names = host.listdir(folder)
    except OSError:
        return False
    for name in names[:MOST_FILES]:
        try:
            if host.readlink("%s/%s" % (folder, name)).startswith(DEVICE):
                return True
        except OSError:
            continue
    return False
