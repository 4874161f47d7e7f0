"""What a Lustre client counts for each mount, and its requests in flight.

From the files that the Lustre manual's chapter "Lustre Parameters" tells of; with 2.12 they moved
from /proc to debugfs, which only root may read. They are not kept open: that would keep the module
from being unloaded.

A line of llite/NAME/stats: name, count, `samples [UNIT]`, least, most, sum. These are calls of
programs, those that the client's cache answers among them. Times came with 2.13.
"""

import re
from typing import Any, Dict, List, Optional, Tuple

from gpuwatch.agent.host import Host

FOLDERS = ("/proc/fs/lustre", "/sys/kernel/debug/lustre")
SAMPLES = re.compile(
    rb"^(\w{2,32})\s+(\d{1,20}) samples \[(\w{1,12})\](?: \d{1,20} \d{1,20} (\d{1,20}))?",
    re.MULTILINE,
)
IN_FLIGHT = re.compile(rb"^(?:read|write) RPCs in flight:\s+(\d{1,10})$", re.MULTILINE)
KIND = {b"read": "read", b"write": "write", b"fsync": "commit"}
META = b"""open close create mknod link unlink symlink mkdir rmdir rename readdir getattr setattr truncate
    lookup statfs getxattr setxattr listxattr removexattr""".split()
"""Calls that go to the metadata server, as a rule; inode_permission, asked at each step of a path and
answered from memory, would drown them."""
TIMED = (b"usec", b"usecs")
MAX_TARGETS = 16
"""Storage targets whose requests in flight are looked up, 25 us each."""
MAX_STATS = 65536


class Unknown(Exception):
    """It cannot be told which counters belong to a mount, or they cannot be read."""


class Client(object):
    """The counters of one Lustre mount.

    Args:
        host: whose.
        source: of the mount, such as `10.0.0.1@o2ib:/scratch`.

    Raises:
        Unknown: which counters those are.
    """

    def __init__(self, host: Host, source: str) -> None:
        self._host = host
        name = source.rpartition(":/")[2].partition("/")[0]
        folder, entry = _entry(host, name)
        self._stats = "%s/llite/%s/stats" % (folder, entry)
        self._targets = _targets(host, folder, name, entry.rpartition("-")[2])
        self.hindrance: Optional[str] = None
        if not 0 < len(self._targets) <= MAX_TARGETS:
            self.hindrance = "%s has %d targets" % (name, len(self._targets))
            self._targets = []

    def counts(self) -> Dict[str, Any]:
        """Return what it counted: `KIND WORD` as in mountstats.py, and `waiting`.

        Raises:
            Unknown: when it cannot be read.
        """
        try:
            found = counts(self._host.read(self._stats, MAX_STATS))
            if self._targets:
                texts = [self._host.read(path, MAX_STATS) for path in self._targets]
                flights = [number for text in texts for number in IN_FLIGHT.findall(text)]
                found["waiting"] = sum(map(int, flights)) if flights else None
        except OSError as error:
            raise Unknown(error.strerror or "unreadable")
        return found


def counts(text: bytes) -> Dict[str, Any]:
    """Return what one llite/NAME/stats tells; times in milliseconds."""
    found: Dict[str, Any] = {}
    lines = {name: (int(n), unit, total) for name, n, unit, total in SAMPLES.findall(text)}
    for name, (count, unit, total) in lines.items():
        kind = KIND.get(name) or ("meta" if name in META else None)
        if kind is None:
            continue
        found[kind + " ops"] = found.get(kind + " ops", 0) + count
        if unit in TIMED:
            found[kind + " exe"] = found.get(kind + " exe", 0) + int(total or 0) / 1000.0
    for kind in ("read", "write"):
        count, unit, total = lines.get(kind.encode("ascii") + b"_bytes", (0, b"", b""))
        if unit == b"bytes":
            found[kind + " bytes"] = int(total or 0)
            found.setdefault(kind + " ops", count)
    return found


def _entry(host: Host, name: str) -> Tuple[str, str]:
    """Return the folder that has the client's counters, and the client's name in it."""
    reason = "no counters of %s" % name
    for folder in FOLDERS:
        try:
            entries = [e for e in host.listdir(folder + "/llite") if e.rpartition("-")[0] == name]
        except FileNotFoundError:
            continue
        except OSError as error:
            reason = "%s: %s" % (folder, error.strerror)
            continue
        if len(entries) == 1:
            return folder, entries[0]
        if entries:
            reason = "%s is mounted %d times" % (name, len(entries))
    raise Unknown(reason)


def _targets(host: Host, folder: str, name: str, instance: str) -> List[str]:
    try:
        entries = host.listdir(folder + "/osc")
    except OSError:
        return []
    ends = "-osc-" + instance
    mine = sorted(e for e in entries if e.startswith(name + "-") and e.endswith(ends))
    return ["%s/osc/%s/rpc_stats" % (folder, entry) for entry in mine]
