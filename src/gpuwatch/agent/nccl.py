"""Which network ports the job told NCCL to use: NCCL_IB_HCA and NCCL_SOCKET_IFNAME.

Both are lists: prefixes of names, or after `=` whole names; after `^` they say what is left out;
a port may follow an adapter's name (`mlx5_0:1`). What the environment does not set, a file of the
user's may, and then one of the machine's. See NCCL's manual, environment variables.
"""

import os
from typing import Dict, Iterable, Iterator, Optional, Sequence, Tuple

from gpuwatch.agent import mountinfo
from gpuwatch.agent.allow import MAX_VALUE
from gpuwatch.agent.host import Host

HCA = "NCCL_IB_HCA"
INTERFACE = "NCCL_SOCKET_IFNAME"
SOCKETS = ("Socket", "SOCKET", "socket")
NAMES = (HCA, INTERFACE, "NCCL_IB_DISABLE", "NCCL_NET")
"""What is taken from files."""
USERS = "NCCL_CONF_FILE"
"""Names the user's file; `.nccl.conf` of the home where it is not set."""
MACHINES = "/etc/nccl.conf"
MAX_FILE = 16384
MAX_ENVIRON = 1 << 18


class Told(object):
    """What NCCL is told in each rank: looked up once, as NCCL does when it starts."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: Dict[int, Tuple[Dict[str, str], Dict[str, str]]] = {}

    def of(self, ranks: Iterable[Tuple[int, Dict[str, str]]]) -> Tuple[Dict[str, str], ...]:
        """Return what is told to these; nothing of those whose environment cannot be read.

        Args:
            ranks: pids, each with what may leave a node of its environment: the same object as long as
                it is the same program.
        """
        known: Dict[int, Tuple[Dict[str, str], Dict[str, str]]] = {}
        for pid, environ in ranks:
            before = self._known.get(pid)
            same = before is not None and before[0] is environ
            known[pid] = before if before and same else (environ, told(self._host, pid, environ))
        self._known = known
        return tuple(found for _, found in known.values() if found)


def told(host: Host, pid: int, environ: Dict[str, str]) -> Dict[str, str]:
    """Complete a process's environment by the files that NCCL reads: what is set first stays.

    A file is looked at where no file system on the way can hang; a home on a server is not. It is
    taken from HOME: asking who the user is, as NCCL does, may ask a server as well.
    """
    found = dict(environ)
    try:
        home = _home(host.read("/proc/%d/environ" % pid, MAX_ENVIRON))
        mounts = mountinfo.parse(host.read_to_end("/proc/%d/mountinfo" % pid))
        own = mountinfo.parse(host.read_to_end("/proc/self/mountinfo"))
    except OSError:
        return found
    users = os.path.normpath(environ.get(USERS) or home + "/.nccl.conf")
    for path in (users, MACHINES):
        if not path.startswith("/") or not mountinfo.may_be_walked(path, mounts, own):
            continue
        try:
            text = host.read_plain("/proc/%d/root" % pid, path, MAX_FILE)
        except OSError:
            continue
        for name, value in settings(text):
            found.setdefault(name, value)
    return found


def settings(text: bytes) -> Iterator[Tuple[str, str]]:
    """Give the names and values of a file's lines `NAME=value` that matter here."""
    for line in text.split(b"\n"):
        name, equals, value = line.partition(b"=")
        word = name.decode("ascii", "replace")
        if equals and word in NAMES:
            yield word, value[:MAX_VALUE].decode("utf-8", "replace")


def _home(environ: bytes) -> str:
    for entry in environ.split(b"\0"):
        if entry.startswith(b"HOME=/"):
            return entry[len(b"HOME=") :].decode("utf-8", "surrogateescape")
    return ""


def uses_adapter(environs: Sequence[Dict[str, str]], name: str, port: str) -> Optional[int]:
    """Tell whether a rank names an RDMA port: 1, or 0, or None where NCCL chooses by itself.

    Args:
        environs: of the ranks, as far as they can be read.
        name: of the adapter (`mlx5_0`).
        port: its number.
    """
    return _any(
        0 if _without_rdma(environ) else _named(environ.get(HCA, ""), name, port)
        for environ in environs
    )


def uses_interface(environs: Sequence[Dict[str, str]], name: str) -> Optional[int]:
    """Tell whether a rank names an interface for sockets: 1, or 0, or None as above."""
    return _any(_named(environ.get(INTERFACE, ""), name, "") for environ in environs)


def _any(answers: Iterable[Optional[int]]) -> Optional[int]:
    known = list(answers)
    if 1 in known:
        return 1
    return None if None in known or not known else 0


def _without_rdma(environ: Dict[str, str]) -> bool:
    return environ.get("NCCL_IB_DISABLE") == "1" or environ.get("NCCL_NET") in SOCKETS


def _named(value: str, name: str, port: str) -> Optional[int]:
    if not value or len(value) >= MAX_VALUE:  # cut where it left the environment
        return None
    excludes = value.startswith("^")
    value = value[1:] if excludes else value
    exact = value.startswith("=")
    listed = False
    for entry in (value[1:] if exact else value).split(","):
        word, colon, number = entry.partition(":")
        same = name == word if exact else bool(word) and name.startswith(word)
        listed = listed or (same and (not colon or not port or number == port))
    return int(listed != excludes)
