"""Control groups: where a process's groups lie in the file system, and what their files say.

A process belongs to one group of each v1 hierarchy and to one of the v2 hierarchy, by paths that
start at the root that its reader's cgroup namespace shows; a mount shows a hierarchy from some
group on. cgroups(7), cgroup_namespaces(7), Documentation/admin-guide/cgroup-v1, cgroup-v2.rst.
"""

import re
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

UNIFIED = "unified"
"""Stands for the v2 hierarchy among the names of v1 controllers."""
MAX_DEPTH = 32
"""Groups above one that are looked at."""
UNLIMITED_BYTES = 1 << 60
"""v1 has no word for no limit: it says the largest number of whole pages, which differs with their
size and is never below this."""
GONE = b" (deleted)"
_OCTAL = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    """One mount of a hierarchy.

    Attributes:
        point: the folder where it is mounted.
        root: the group that it shows there.
        controllers: of v1 (and `name=...`); UNIFIED alone for v2.
    """

    point: str
    root: str
    controllers: FrozenSet[str]


def mounts(mountinfo: bytes) -> List[Mount]:
    """Return the mounts of hierarchies in a /proc/PID/mountinfo, those that show most first."""
    found = []
    for line in mountinfo.split(b"\n"):
        head, dash, tail = line.partition(b" - cgroup")
        fields, words = head.split(b" "), tail.split(b" ")
        if not dash or len(fields) < 6 or len(words) < 3:
            continue
        names = [UNIFIED] if words[0] == b"2" else _text(words[2]).split(",")
        found.append(Mount(_path(fields[4]), _path(fields[3]), frozenset(names)))
    return sorted(found, key=lambda mount: len(mount.root))


def paths(cgroup: bytes) -> Dict[str, str]:
    """Return the group that a /proc/PID/cgroup names for each v1 controller and for UNIFIED."""
    found = {}
    for line in cgroup.split(b"\n"):
        number, _, rest = line.partition(b":")
        names, colon, path = rest.partition(b":")
        if not colon or not path.startswith(b"/"):
            continue
        if path.endswith(GONE):
            path = path[: path.rindex(GONE)]
        for name in _text(names).split(",") if names else [UNIFIED] if number == b"0" else []:
            found[name] = _text(path)
    return found


def name(groups: Dict[str, str]) -> str:
    """Return the path by which a process's groups are called: the longest, so the most special.

    Controllers that are not in use leave a process high up in their hierarchy. `name=systemd`
    and its like limit nothing, so they count only where there is nothing else.
    """
    limiting = [path for key, path in sorted(groups.items()) if "=" not in key]
    return max(limiting or list(groups.values()) or ["/"], key=len)


def folders(controller: str, groups: Dict[str, str], all_mounts: List[Mount]) -> List[str]:
    """Return the folder of a process's group for a controller, then those above it.

    Args:
        controller: of v1, or UNIFIED.
        groups: of the process, from `paths`.
        all_mounts: from `mounts`.

    Returns:
        None at all where the hierarchy is not mounted, or shows other groups only: a container's
        namespace tells that a process is outside by a path that climbs (`/../other`).
    """
    path = groups.get(controller)
    if path is None:
        return []
    for mount in all_mounts:
        if controller in mount.controllers:
            below = _below(mount.root, path)
            if below is not None:
                parts = below.split("/")[1:] if below else []
                depths = range(len(parts), max(-1, len(parts) - MAX_DEPTH), -1)
                return ["/".join([mount.point.rstrip("/")] + parts[:depth]) for depth in depths]
    return []


def keyed(text: bytes) -> Dict[str, bytes]:
    """Return a file of `KEY VALUE` lines."""
    pairs = (line.split(None, 1) for line in text.split(b"\n"))
    return {_text(pair[0]): pair[1].strip() for pair in pairs if len(pair) == 2}


def quota(text: bytes) -> Optional[float]:
    """Return the CPUs that `QUOTA PERIOD` allows; None for no quota (`max`, or -1 in v1)."""
    words = [_digits(word) for word in text.split()]
    if len(words) != 2 or not words[0] or not words[1]:
        return None
    return words[0] / float(words[1])


def throttling(stat: bytes) -> Tuple[Optional[int], Optional[int], Optional[int]]:
    """Return periods, periods throttled, and microseconds throttled of a cpu.stat."""
    found = keyed(stat)
    stopped = _digits(found.get("throttled_usec"))
    if stopped is None:
        stopped = microseconds(found.get("throttled_time"))
    return _digits(found.get("nr_periods")), _digits(found.get("nr_throttled")), stopped


def limit(text: Any) -> Optional[int]:
    """Return a memory limit in bytes, None for none (`max`, or v1's largest number)."""
    value = _digits(text)
    return value if value is not None and value < UNLIMITED_BYTES else None


def microseconds(nanoseconds: Any) -> Optional[int]:
    """Return what v1 counts in nanoseconds as v2 does."""
    value = _digits(nanoseconds)
    return None if value is None else value // 1000


def _below(root: str, path: str) -> Optional[str]:
    """Return a path's part below a mount's root, None where it is not below it."""
    if path == root:
        return ""
    prefix = root if root.endswith("/") else root + "/"
    if not path.startswith(prefix):
        return None
    below = "/" + path[len(prefix) :].strip("/")
    parts = below.split("/")[1:]
    return None if {"", ".", ".."} & set(parts) else below


def _digits(text: Any) -> Optional[int]:
    word = (text or b"").strip()
    return int(word) if word.isdigit() and len(word) < 20 else None


def _path(escaped: bytes) -> str:
    """Undo what mountinfo does to spaces and line ends (proc_pid_mountinfo(5))."""
    return _text(_OCTAL.sub(lambda match: bytes([int(match.group(1), 8) & 0xFF]), escaped))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape").replace("\0", "")
