"""Storage as the job's mounts see it: what each mount counts, and how full local ones are.

Network and FUSE file systems are never looked at, only what the kernel tells about them in /proc
and /sys: a look at one whose server is dead blocks for ever (see mountinfo.py). No file of another
mount namespace stays open: it would keep that namespace, and what is mounted in it, in use.
"""

import os
import re
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from gpuwatch.agent import lustre, mountinfo, mountstats
from gpuwatch.agent.host import LIMIT, Host
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
from gpuwatch.agent.mountinfo import Mount

MAX_REMOTE = 16
MAX_LOCAL = 8
MAX_CANDIDATES = 32
"""Local file systems that are asked for their size, to find the largest."""
RANK_S = 10.0
"""Between two choices of the busiest, when there are more than are shown."""
LONG = 1 << 16
"""Bytes of mountinfo and mountstats above which they are read less often: a node with thousands of
mounts needs milliseconds for each reading."""
REST_S = 4.0
"""Rest after a reading of so much: a counter's growth covers what lies between."""
SHM = "/dev/shm"  # noqa: S108 - a mount that is asked how full it is; nothing is opened for writing
FUSE = "/sys/fs/fuse/connections"
FUSE_TYPE = re.compile(r"(fuse|fuseblk|fuse\..+|virtiofs)\Z")
NFS = ("nfs", "nfs4")
SELF = "/proc/self"
UNCOUNTED = "its client counts nothing that is read here"
UNMOUNTED = "nothing is mounted there now"
SIZE = re.compile(r"(?:\A|,)size=(\d{1,15})k(?:,|\Z)")
"""How a tmpfs tells its size."""

ROWS = (
    Metric("mount", "mount", LABEL, "str", "", "path", "Where it is mounted, as the job sees it."),
    Metric("type", "mount", LABEL, "str", "", "type", "Type of file system: `nfs4`, `lustre`, `fuse.sshfs`, `ext4`, `tmpfs`."),
    Metric("source", "mount", LABEL, "str", "", "source", "What is mounted: `server:/export`, or a device."),
    Metric("read_ops", "mount", COUNTER, "int", "1", "read ops", "Reads done: READ requests to the server (NFS), or calls, cached ones too (Lustre)."),
    Metric("read_bytes", "mount", COUNTER, "int", "B", "read bytes", "Bytes read: from the server (NFS), or by calls (Lustre)."),
    Metric("read_rtt_ms", "mount", COUNTER, "int", "ms", "read rtt", "Time from sending a read to its answer, network and server, summed over reads (NFS)."),
    Metric("read_exe_ms", "mount", COUNTER, "int", "ms", "read exe", "Time that reads took in all, summed over reads."),
    Metric("read_queue_ms", "mount", COUNTER, "int", "ms", "read queue", "Time that reads waited in this client before they were sent, summed over reads (NFS)."),
    Metric("read_retransmits", "mount", COUNTER, "int", "1", "read retransmits", "Reads sent again (NFS)."),
    Metric("write_ops", "mount", COUNTER, "int", "1", "write ops", "Writes done, as in read_ops."),
    Metric("write_bytes", "mount", COUNTER, "int", "B", "write bytes", "Bytes written, as in read_bytes."),
    Metric("write_rtt_ms", "mount", COUNTER, "int", "ms", "write rtt", "As read_rtt_ms, of writes."),
    Metric("write_exe_ms", "mount", COUNTER, "int", "ms", "write exe", "As read_exe_ms, of writes."),
    Metric("write_queue_ms", "mount", COUNTER, "int", "ms", "write queue", "As read_queue_ms, of writes."),
    Metric("write_retransmits", "mount", COUNTER, "int", "1", "write retransmits", "As read_retransmits, of writes."),
    Metric("commit_ops", "mount", COUNTER, "int", "1", "commit ops", "Requests to make written data safe: COMMIT (NFS), fsync (Lustre)."),
    Metric("commit_exe_ms", "mount", COUNTER, "int", "ms", "commit exe", "Time that those took, summed."),
    Metric("meta_ops", "mount", COUNTER, "int", "1", "meta ops", "All other requests: GETATTR, LOOKUP, OPEN, ACCESS, READDIR and the like."),
    Metric("meta_rtt_ms", "mount", COUNTER, "int", "ms", "meta rtt", "As read_rtt_ms, of those."),
    Metric("meta_exe_ms", "mount", COUNTER, "int", "ms", "meta exe", "As read_exe_ms, of those."),
    Metric("timeouts", "mount", COUNTER, "int", "1", "timeouts", "Requests that waited through all retries, timed out and began anew (NFS)."),
    Metric("rpc_sends", "mount", COUNTER, "int", "1", "sends", "Requests sent over the mount's connections, which mounts of one server share (NFS)."),
    Metric("rpc_receives", "mount", COUNTER, "int", "1", "receives", "Answers received over them."),
    Metric("rpc_backlog", "mount", COUNTER, "int", "1", "backlog", "Requests that waited for a free slot, summed at each sending: its growth by that of rpc_sends is the mean backlog."),
    Metric("waiting", "mount", GAUGE, "int", "1", "waiting", "Requests that wait for an answer now (NFS, FUSE, Lustre). NFS: at most so many, as one whose caller gave up stays counted."),
    Metric("free_bytes", "mount", GAUGE, "int", "B", "free bytes", "Space that a plain user can still fill (file systems on block devices, /dev/shm)."),
    Metric("total_bytes", "mount", GAUGE, "int", "B", "total bytes", "Size of the file system."),
    Metric("free_inodes", "mount", GAUGE, "int", "1", "free inodes", "Files that can still be made, where their number is limited."),
)  # fmt: skip


class Reader(object):
    """Reads the mounts of the job's mount namespace, of the agent's own where there is no job.

    Args:
        host: its board tells the job's processes.
        clock: seconds, monotonic.
    """

    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._clock = clock
        self._rows = declared(ROWS, "mount")
        self._missing: Dict[str, str] = {}
        self._next_at = self._ranked_at = 0.0
        self._folder = SELF
        self._texts = (b"", b"")
        self._own: Tuple[Mount, ...] = ()
        self._mounts: Tuple[Mount, ...] = ()
        self._named: List[Mount] = []
        self._remote: List[Mount] = []
        self._local: List[Tuple[Mount, Optional[str]]] = []
        self._clients: Dict[Mount, lustre.Client] = {}
        self._ops: Dict[str, int] = {}
        self._first: List[Mount] = []
        self._shm = self._hold_shm()

    def read(self) -> Reading:
        """Read all rows once, or none while a long list of mounts rests.

        Raises:
            Absent: when there is no /proc/self/mountinfo.
        """
        now = self._clock()
        if now < self._next_at:
            return Reading([], self._missing)
        self._missing = {}
        size = self._look()
        stats = self._stats()
        sections = dict(mountstats.sections(stats))
        rows = [self._row(m, self._counts(m, sections)) for m in self._shown(sections, now)]
        rows.extend(self._row(mount, found) for mount, found in self._capacities())
        size += len(stats)
        if size > LONG:
            why = "read, then not for %d s: the list of mounts has %d KB"
            self._missing["mounts.rate"] = why % (REST_S, size >> 10)
            self._next_at = now + REST_S
        return Reading(rows, self._missing)

    def close(self) -> None:
        """Give the descriptor of /dev/shm back."""
        if self._shm is not None:
            os.close(self._shm)
            self._shm = None

    def _row(self, mount: Mount, found: Dict[str, Any]) -> Tuple[str, Labels, Values]:
        return "mount", (mount.path, mount.type, mount.source), fill(self._rows, found)

    def _hold_shm(self) -> Optional[int]:
        """Open the agent's own /dev/shm, to ask it later without walking there.

        An overlay on the way is trusted now and only now: the interpreter was just read from it.
        """
        try:
            own = mountinfo.parse(self._host.read_to_end(SELF + "/mountinfo"))
            shm = _shm(own)
            if shm is None or mountinfo.hindrance(shm, own, own, trusts_overlay=True):
                return None
            return self._host.hold(SHM)
        except OSError:
            return None

    def _look(self) -> int:
        """Read which mounts there are; return the length of the list in bytes."""
        try:
            own = self._host.read_to_end(SELF + "/mountinfo")
        except FileNotFoundError:
            raise Absent("no /proc/self/mountinfo")
        text, self._folder = own, SELF
        for member in self._host.board.job[:1]:
            folder = "/proc/%d" % member.pid
            try:
                text = self._host.read_to_end(folder + "/mountinfo")
            except OSError as error:
                why = "the agent's own mounts, as the job's cannot be read: %s"
                self._missing["mounts.mount"] = why % error.strerror
            if text != own:
                self._folder = folder
        if len(text) >= LIMIT:
            self._missing["mounts.mount"] = "the list of mounts is longer than %d KB" % (
                LIMIT >> 10
            )
        if (own, text) != self._texts:
            self._texts = own, text
            self._own = mountinfo.parse(own)
            self._mounts = self._own if text == own else mountinfo.parse(text)
            self._sort()
        return len(text)

    def _sort(self) -> None:
        """Tell what of the mounts is shown, and whether local ones may be walked to.

        Those that the job file's paths lie on are, whatever they are: as if local only where it is
        known that nobody is asked.
        """
        holding = [self._holding(path) for path in self._host.options.paths]
        self._named = [mount for mount in holding if mount is not None and mount.path != SHM]
        each = mountinfo.once(self._mounts, self._named)
        still = [mount for mount in self._named if mount.type in mountinfo.STILL]
        self._remote = [m for m in each if m.is_remote or (m in self._named and m not in still)]
        self._first = []
        self._clients = {}
        local = [mount for mount in each if mount.is_local or mount in still][:MAX_CANDIDATES]
        self._local = [(m, mountinfo.hindrance(m, self._mounts, self._own)) for m in local]

    def _holding(self, path: str) -> Optional[Mount]:
        """Return the mount that a path of the job file leads to."""
        root = "" if self._folder == SELF else self._folder + "/root"
        end = mountinfo.followed(
            path, self._mounts, self._own, lambda link: self._host.readlink(root + link)
        )
        return mountinfo.holding(end, self._mounts)

    def _stats(self) -> bytes:
        if not any(mount.type in NFS for mount in self._remote):
            return b""
        try:
            text = self._host.read_to_end(self._folder + "/mountstats")
        except OSError as error:
            self._missing["mounts.mountstats"] = str(error.strerror)
            return b""
        return text if len(text) < LIMIT else text[: text.rfind(b"\ndevice ") + 1]

    def _shown(self, sections: Dict[str, bytes], now: float) -> List[Mount]:
        """Return the network and FUSE mounts that are shown: all, or the busiest of many."""
        if len(self._remote) <= MAX_REMOTE:
            return self._remote
        why = "the %d busiest of %d network and FUSE mounts"
        self._missing["mounts.remote"] = why % (MAX_REMOTE, len(self._remote))
        if not self._first or now - self._ranked_at >= RANK_S:
            self._ranked_at = now
            before, self._ops = self._ops, {p: _requests(text) for p, text in sections.items()}
            self._first = sorted(self._remote, key=lambda mount: self._rank(mount, before))
        return self._first[:MAX_REMOTE]

    def _rank(self, mount: Mount, before: Dict[str, int]) -> Tuple[bool, bool, int, int]:
        """Order mounts: the job file's, then by requests lately, then in all; idle NFS last."""
        ops = self._ops.get(mount.path, 0)
        growth = ops - before.get(mount.path, 0)
        return mount not in self._named, mount.type in NFS and growth <= 0, -growth, -ops

    def _counts(self, mount: Mount, sections: Dict[str, bytes]) -> Dict[str, Any]:
        if mount.type in NFS:
            section = sections.get(mount.path)
            if section is None:
                self._lacks(mount, "not in mountstats")
                return {}
            if mountstats.layout(section):
                self._lacks(mount, "pNFS: requests to its data servers are not counted here")
            return mountstats.counts(section)
        if mount.type == "lustre":
            return self._lustre(mount)
        self._lacks(mount, UNMOUNTED if mount.type == "autofs" else UNCOUNTED)
        return self._fuse(mount) if FUSE_TYPE.match(mount.type) else {}

    def _lustre(self, mount: Mount) -> Dict[str, Any]:
        try:
            client = self._clients.get(mount)
            if client is None:
                client = self._clients[mount] = lustre.Client(self._host, mount.source)
            if client.hindrance:
                self._lacks(mount, client.hindrance, "waiting")
            return client.counts()
        except lustre.Unknown as unknown:
            self._clients.pop(mount, None)
            self._lacks(mount, str(unknown))
        return {}

    def _fuse(self, mount: Mount) -> Dict[str, Any]:
        """Ask the kernel's own counter of a FUSE connection, named after the device number."""
        number = mount.major << 20 | mount.minor
        try:
            return {"waiting": self._host.read_to_end("%s/%d/waiting" % (FUSE, number), 64)}
        except OSError as error:
            self._lacks(mount, "%s: %s" % (FUSE, error.strerror), "waiting")
        return {}

    def _lacks(self, mount: Mount, reason: str, what: str = "counters") -> None:
        """Note what a mount does not tell; of many with one reason the first is named."""
        self._missing.setdefault("mounts.%s.%s" % (what, mount.type), mount.path + ": " + reason)

    def _capacities(self) -> List[Tuple[Mount, Dict[str, Any]]]:
        """Return how full local file systems are: /dev/shm, the job file's, the largest others."""
        found = [(mount, self._capacity(mount, why)) for mount, why in self._local]
        found.sort(key=lambda p: (p[0] not in self._named, -(p[1].get("total bytes") or 0)))
        if len(found) > MAX_LOCAL:
            why = "the %d largest of %d local file systems" % (MAX_LOCAL, len(found))
            self._missing["mounts.local"] = why
        shm = _shm(self._mounts)
        return ([(shm, self._shm_capacity(shm))] if shm else []) + found[:MAX_LOCAL]

    def _capacity(self, mount: Mount, hindrance: Optional[str]) -> Dict[str, Any]:
        """Ask a file system on a path that the list of mounts, just read, says is safe to walk."""
        if hindrance:
            self._lacks(mount, hindrance, "free_bytes")
            return {}
        root = "" if self._folder == SELF else self._folder + "/root"
        try:
            return _room(self._host.statvfs(root + mount.path))
        except OSError as error:
            self._lacks(mount, str(error.strerror), "free_bytes")
        return {}

    def _shm_capacity(self, shm: Mount) -> Dict[str, Any]:
        """Ask /dev/shm: the agent's own by its descriptor; its size at least stands in the list."""
        own = _shm(self._own)
        if self._shm is not None and own is not None and own.minor == shm.minor:
            return _room(self._host.statvfs(self._shm))
        found: Dict[str, Any] = {}
        size = SIZE.search(shm.options)
        if size:
            found["total bytes"] = int(size.group(1)) * 1024
        found.update(self._capacity(shm, mountinfo.hindrance(shm, self._mounts, self._own)))
        return found


def _shm(mounts: Tuple[Mount, ...]) -> Optional[Mount]:
    """Return the uppermost mount on /dev/shm, if that is a tmpfs."""
    found = [mount for mount in mounts if mount.path == SHM]
    return found[-1] if found and found[-1].type == "tmpfs" else None


def _room(found: os.statvfs_result) -> Dict[str, Any]:
    """Name what statvfs tells; file systems without a fixed number of files report none at all."""
    return {
        "free bytes": found.f_bavail * found.f_frsize,
        "total bytes": found.f_blocks * found.f_frsize,
        "free inodes": found.f_favail if found.f_files else None,
    }


def _requests(section: bytes) -> int:
    found = mountstats.counts(section)
    return found.get("read ops", 0) + found.get("write ops", 0) + found.get("meta ops", 0)
