"""The only door to a node's files, with an injectable root, and what sources share in one tick.

Files of /proc and /sys are kept open and read with pread: half of the cost of opening them each
time. The number kept is bounded; beyond it a file is opened for each reading.
"""

import errno
import os
import stat
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple, Union

LIMIT = 1 << 20
"""Bytes of a file that are read at most, unless told otherwise."""
KEPT = 540
"""Descriptors kept open at most: 600 is the agent's budget."""
CHUNK = 16384
SHORT = 2048
"""A reading shorter than this is the last one: the kernel's seq_file fills a page (4 KiB or more)
with whole records as long as there are any, and no record that we read is half a page long."""
IFNAMSIZ = 16
SIOCETHTOOL = 0x8946
STALE = (errno.ESRCH, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.EBADF)


class Options(NamedTuple):
    """What the job file says to the agent.

    Attributes:
        interval_s: seconds between two ticks.
        silence_s: seconds without a byte from the viewer after which the agent ends.
        match: which processes are the job: a part of the command line, applied on the node.
        interfaces: names or globs of the network ports that count; empty for all.
        line_rate: (name or glob, Mb/s) of ports whose speed the kernel does not know.
        paths: folders that the job reads and writes.
        log: path of a log that the job writes; None: there is none on this node.
        log_texts: (name, text) of what is looked for in it.
    """

    interval_s: float = 1.0
    silence_s: float = 30.0
    match: Optional[str] = None
    interfaces: Tuple[str, ...] = ()
    line_rate: Tuple[Tuple[str, float], ...] = ()
    paths: Tuple[str, ...] = ()
    log: Optional[str] = None
    log_texts: Tuple[Tuple[str, str], ...] = ()


class Member(NamedTuple):
    """One process of the job, as it was found when the node's processes were last looked through.

    Attributes:
        pid: of the process.
        group: of its rank; as the label of that name in thread_group.
        rank: that it is or serves; as the label of that name in thread_group.
        role: `main`, `loader` or `checkpoint`.
        gpu: the rank's GPU, None where it could not be told.
    """

    pid: int
    group: str
    rank: str
    role: str
    gpu: Optional[int]


class Board(object):
    """What sources tell each other within one tick.

    Attributes:
        gpu_util: GPU index to its latest utilisation in percent, None where it is unknown.
        gpu_pids: pid to the indices of the GPUs on which it has a compute context.
        gpu_address: GPU index to its PCI address, of those that are known.
        own_pids: the agent and its children, never part of a job.
        job: the job's processes; none until they were looked for.
        lateness_us: how late the present tick began.
        dropped: frames dropped since the start, as the link was too slow.
        ports: interfaces that are the node's physical ports.
        nccl: of the environments of ranks, as far as they can be read, what may leave a node, and what
            NCCL's files add to it.
        thread_rate_hz: thread samples a second that the governor allows.
    """

    def __init__(self) -> None:
        self.gpu_util: Dict[int, Optional[float]] = {}
        self.gpu_pids: Dict[int, Tuple[int, ...]] = {}
        self.gpu_address: Dict[int, str] = {}
        self.own_pids: Set[int] = {os.getpid()}
        self.job: Tuple[Member, ...] = ()
        self.lateness_us = 0
        self.dropped = 0
        self.ports: Tuple[str, ...] = ()
        self.nccl: Tuple[Dict[str, str], ...] = ()
        self.thread_rate_hz = 5.0


class Host(object):
    """A node's files below one root, the options of this run, and the board.

    Args:
        root: folder that stands for `/`; paths given to the methods are absolute below it.
        options: of this run.
    """

    def __init__(self, root: str = "/", options: Optional[Options] = None) -> None:
        self.root = root
        self.options = options or Options()
        self.board = Board()
        self.kept = 0
        self.kept_limit = KEPT
        self._below = root.rstrip("/")

    def below(self, path: str) -> str:
        """Return where a path lies for the kernel: for calls that are not made through here."""
        return self._below + path

    def open(self, path: str) -> int:
        """Open a file for reading and return its descriptor.

        Raises:
            OSError: as the kernel says.
        """
        return os.open(self._below + path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, path: str, limit: int = LIMIT) -> bytes:
        """Return at most `limit` bytes of a file.

        Raises:
            OSError: as the kernel says.
        """
        descriptor = self.open(path)
        try:
            return whole(descriptor, limit)
        finally:
            os.close(descriptor)

    def read_to_end(self, path: str, limit: int = LIMIT) -> bytes:
        """Return at most `limit` bytes of a file that `read` is not for.

        One with long records, such as mountstats: the kernel gives whole ones, so what comes before a
        long one may come alone. Or one in which no place can be sought, as fusectl's.

        Raises:
            OSError: as the kernel says.
        """
        descriptor = self.open(path)
        parts: List[bytes] = []
        size = 0
        try:
            while size < limit:
                data = os.read(descriptor, min(limit - size, CHUNK))
                if not data:
                    break
                parts.append(data)
                size += len(data)
        finally:
            os.close(descriptor)
        return b"".join(parts)

    def read_plain(self, top: str, path: str, limit: int) -> bytes:
        """Return at most `limit` bytes of a plain file that is reached through no symbolic link.

        A link could lead away from file systems that were found not to hang. What is no plain file is
        not even opened for reading: some devices act when they are (a watchdog starts to count).

        Args:
            top: folder that stands for `/` in the path; a link of /proc/PID.
            path: absolute.
            limit: of bytes.

        Raises:
            OSError: as the kernel says; EINVAL where it is no plain file.
        """
        encoded = path.encode("utf-8", "surrogateescape")
        *steps, name = [step for step in encoded.split(b"/") if step] or [b""]
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        place = os.open(self._below + top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for step in steps:
                inner = os.open(step, flags | os.O_DIRECTORY, dir_fd=place)
                os.close(place)
                place = inner
            inner = os.open(name, flags, dir_fd=place)
            os.close(place)
            place = inner
            if not stat.S_ISREG(os.fstat(place).st_mode):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
            plain = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open("/proc/self/fd/%d" % place, plain)
        finally:
            os.close(place)
        try:
            return whole(descriptor, limit)
        finally:
            os.close(descriptor)

    def keep(self, path: str, limit: int = LIMIT) -> "Kept":
        """Return a file that stays open between readings; nothing is opened before the first."""
        return Kept(self, path, limit)

    def listdir(self, path: str) -> List[str]:
        """Return the names in a folder; undecodable bytes as surrogates.

        Raises:
            OSError: as the kernel says.
        """
        return os.listdir(self._below + path)

    def subfolders(self, path: str) -> Optional[int]:
        """Return how many folders are in one, None where its links (stat(2)) do not tell.

        Cheaper than to list it by far: /proc/PID/task counts its threads so (proc_task_getattr() in
        fs/proc/base.c), most file systems their folders; some (btrfs, overlay) count none.

        Raises:
            OSError: as the kernel says.
        """
        links = os.stat(self._below + path).st_nlink
        return links - 2 if links > 2 else None

    def readlink(self, path: str) -> str:
        """Return where a symbolic link points.

        Raises:
            OSError: as the kernel says.
        """
        return os.readlink(self._below + path)

    def ethtool(self, interface: str, request: Any) -> None:
        """Let the kernel fill a request of linux/ethtool.h about an interface in place.

        Asks for nothing that needs a right. The kernel writes as much as its answer is long,
        whatever the request says of its own length: so there must be room for it.

        Args:
            interface: of the agent's network namespace.
            request: an array of the standard library that begins with the command.

        Raises:
            OSError: as the kernel says; EOPNOTSUPP below a root of its own.
        """
        if self._below:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), interface)
        import fcntl
        import socket
        import struct

        name = os.fsencode(interface)
        if not 0 < len(name) < IFNAMSIZ:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), interface)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            ifreq = struct.pack("16sP16x", name, request.buffer_info()[0])
            fcntl.ioctl(asker, SIOCETHTOOL, ifreq)

    def exists(self, path: str) -> bool:
        """Tell whether there is something at this path, be it a link that leads nowhere."""
        return os.path.lexists(self._below + path)

    def statvfs(self, where: Union[int, str]) -> os.statvfs_result:
        """Return how full a file system is: at a path, or one that is held; none that may hang.

        Raises:
            OSError: as the kernel says.
        """
        if isinstance(where, int):
            return os.fstatvfs(where)
        return os.statvfs(os.fsencode(self._below) + where.encode("utf-8", "surrogateescape"))

    def hold(self, path: str) -> int:
        """Return a descriptor of a folder that needs no walk to be asked later, nor may be read.

        Raises:
            OSError: as the kernel says.
        """
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._below + path, flags)


class Kept(object):
    """One file that is read again and again."""

    __slots__ = ("_descriptor", "_host", "limit", "path")

    def __init__(self, host: Host, path: str, limit: int) -> None:
        self.path = path
        self.limit = limit
        self._host = host
        self._descriptor = -1

    def read(self) -> bytes:
        """Return the file's bytes as they are now, opened anew when what it named was replaced.

        Raises:
            OSError: as the kernel says.
        """
        if self._descriptor < 0:
            if self._host.kept >= self._host.kept_limit:
                return self._host.read(self.path, self.limit)
            self._descriptor = self._host.open(self.path)
            self._host.kept += 1
            return self._first()
        try:
            return whole(self._descriptor, self.limit)
        except OSError as error:
            self.close()
            if error.errno not in STALE:
                raise
        return self._host.read(self.path, self.limit)

    def close(self) -> None:
        """Give the descriptor back; a later reading opens the file again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._host.kept -= 1

    def _first(self) -> bytes:
        try:
            return whole(self._descriptor, self.limit)
        except OSError:
            self.close()
            raise

    def __del__(self) -> None:
        self.close()


def whole(descriptor: int, limit: int) -> bytes:
    """Read a file from its beginning: one pread for most files of /proc and /sys."""
    data = os.pread(descriptor, min(limit, CHUNK), 0)
    if len(data) < SHORT or len(data) >= limit:
        return data
    parts = [data]
    size = len(data)
    while len(data) >= SHORT and size < limit:
        data = os.pread(descriptor, min(limit - size, CHUNK), size)
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def options_of(config: Dict[str, Any]) -> Options:
    """Build the options from what the viewer sent; it has checked them, so types are trusted."""
    rates = config.get("line_rate") or {}
    return Options(
        interval_s=max(0.1, float(config.get("interval_s") or 1.0)),
        silence_s=max(0.5, float(config.get("silence_s") or 30.0)),
        match=config.get("match") or None,
        interfaces=tuple(config.get("interfaces") or ()),
        line_rate=tuple(sorted((str(k), float(v)) for k, v in dict(rates).items())),
        paths=tuple(config.get("paths") or ()),
        log=config.get("log") or None,
        log_texts=tuple((str(name), str(text)) for name, text in config.get("log_texts") or ()),
    )
