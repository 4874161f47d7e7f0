"""Block devices, each whole disk once, from /proc/diskstats (Documentation/admin-guide/iostats.rst)."""

import re
from typing import Dict, List, Optional, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.lines import field
from gpuwatch.agent.metric import (
    COUNTER,
    GAUGE,
    LABEL,
    Absent,
    Labels,
    Metric,
    Reading,
    Values,
    declared,
    fill,
)

FIELDS = 14
"""Of a line, with major, minor and name: more came with 4.18 and 5.5 and are optional."""
QUIET = re.compile(rb"(loop|ram|zram|sr|fd)\d+\Z")
"""Devices that a node has many of, listed only when they were used."""
MAPPED = re.compile(rb"(dm-|md|drbd|bcache|loop|ram|zram)\d+")
PATH = re.compile(rb"(nvme\d+)c\d+(n\d+)\Z")
"""One path of a multipath NVMe disk; where the kernel counts on paths, the head stays zero."""
MAX_DISKS = 512

ROWS = (
    Metric("disk", "disk", LABEL, "str", "", "name", "Device."),
    Metric("layer", "disk", LABEL, "str", "", "layer", "`disk`, or `mapped`: a device on top of others (dm, md, loop), whose bytes these count again, or in memory (ram, zram)."),
    Metric("reads", "disk", COUNTER, "int", "1", "field 1", "Reads completed."),
    Metric("read_bytes", "disk", COUNTER, "int", "B", "field 3", "Bytes read.", scale=512),
    Metric("read_ms", "disk", COUNTER, "int", "ms", "field 4", "Time that reads took, summed over reads."),
    Metric("writes", "disk", COUNTER, "int", "1", "field 5", "Writes completed."),
    Metric("write_bytes", "disk", COUNTER, "int", "B", "field 7", "Bytes written.", scale=512),
    Metric("write_ms", "disk", COUNTER, "int", "ms", "field 8", "Time that writes took, summed over writes."),
    Metric("in_flight", "disk", GAUGE, "int", "1", "field 9", "Requests in flight now."),
    Metric("busy_ms", "disk", COUNTER, "int", "ms", "field 10", "Time with a request in flight."),
    Metric("queue_ms", "disk", COUNTER, "int", "ms", "field 11", "Time in flight, summed over requests."),
    Metric("flushes", "disk", COUNTER, "int", "1", "field 16", "Flushes of the device's write cache completed: what fsync waits for in the end (since Linux 5.5)."),
    Metric("flush_ms", "disk", COUNTER, "int", "ms", "field 17", "Time that flushes took, summed over flushes."),
)  # fmt: skip


class Reader(object):
    """Reads the fields that the rows name: `field N`, as the kernel's document counts them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rows = declared(ROWS, "disk")
        self._diskstats = host.keep("/proc/diskstats")
        self._names: Tuple[bytes, ...] = ()
        self._layers: Dict[bytes, Optional[str]] = {}

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when there is no /proc/diskstats.
        """
        try:
            lines = self._diskstats.read().split(b"\n")
        except FileNotFoundError:
            raise Absent("no /proc/diskstats")
        parts = [line.split(None, 3) for line in lines]
        parts = [part for part in parts if len(part) == 4]
        names = tuple(part[2] for part in parts)
        if names != self._names:
            self._names = names
            self._layers = {name: self._layer(name) for name in names}
        counts = {part[2]: part[3].split() for part in parts if self._layers[part[2]]}
        rows: List[Tuple[str, Labels, Values]] = []
        for name in _shown(counts)[:MAX_DISKS]:
            label = name.decode("utf-8", "replace")
            rows.append(("disk", (label, self._layers[name]), self._values(counts[name])))
        return Reading(rows, self._missing(counts))

    def _missing(self, counts: Dict[bytes, List[bytes]]) -> Dict[str, str]:
        longest = max((len(fields) for fields in counts.values()), default=0)
        return {
            "disk." + row.name: "this kernel does not count it"
            for row in self._rows
            if longest and int(row.locator.split()[1]) > longest
        }

    def _values(self, counts: List[bytes]) -> Values:
        found = {row.locator: field(counts, int(row.locator.split()[1]) - 1) for row in self._rows}
        return fill(self._rows, found)

    def _layer(self, name: bytes) -> Optional[str]:
        """Tell where a device stands: None for a partition, whose bytes its disk counts."""
        text = name.decode("utf-8", "replace").replace("/", "!")
        if "\0" in text or text in (".", ".."):
            return None
        if self._host.exists("/sys/block"):
            whole = self._host.exists("/sys/block/" + text)
        else:
            whole = not _part_of(name, self._names)
        if not whole or self._host.exists("/sys/class/block/%s/partition" % text):
            return None
        return "mapped" if MAPPED.match(name) or self._stacked(text) else "disk"

    def _stacked(self, name: str) -> bool:
        try:
            return bool(self._host.listdir("/sys/block/%s/slaves" % name))
        except OSError:
            return False


def _part_of(name: bytes, names: Tuple[bytes, ...]) -> bool:
    """Tell a partition by its name: `sda1` of `sda`, `nvme0n1p1` of `nvme0n1`."""
    disk = name.rstrip(b"0123456789")
    if disk != name and disk in names:
        return True
    return disk.endswith(b"p") and disk[-2:-1].isdigit() and disk[:-1] in names


def _shown(counts: Dict[bytes, List[bytes]]) -> List[bytes]:
    """Return the devices that count: complete lines, used, and a multipath disk once."""
    used = {
        name: any(text != b"0" for text in fields)
        for name, fields in counts.items()
        if len(fields) + 3 >= FIELDS
    }
    heads = {name: _head(name) for name in used}
    on_paths = {head for name, head in heads.items() if head and used[name] and not used.get(head)}
    return [
        name
        for name, busy in used.items()
        if (busy and heads[name] in on_paths)
        or (heads[name] is None and name not in on_paths and (busy or not QUIET.match(name)))
    ]


def _head(name: bytes) -> Optional[bytes]:
    """Return the multipath disk that this is one path of, None where it is no path."""
    path = PATH.match(name)
    return path.group(1) + path.group(2) if path else None
