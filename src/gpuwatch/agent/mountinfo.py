"""The mounts of one mount namespace, from /proc/PID/mountinfo (proc_pid_mountinfo(5)).

What is asked here is answered from the kernel's list alone. A look at a network or FUSE file
system whose server is dead blocks for ever and cannot be killed, and so does a look at whatever is
mounted below it: which paths may be walked at all is decided here, before anybody walks them.
"""

import posixpath
import re
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

REMOTE = re.compile(
    r"(nfs4?|lustre|fuse|fuseblk|fuse\..+|ceph|cifs|smb3|beegfs\w*|gpfs|wekafs|9p|virtiofs|afs|dvs"
    r"|panfs|orangefs|pvfs2|glusterfs|ocfs2|gfs2)\Z"
)
"""Types whose requests something outside the kernel answers: a server, or a program (FUSE)."""
NO_STORAGE = ("fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal")
"""FUSE mounts that no job keeps data on."""
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "jfs")
"""Types on block devices, whose statfs is answered from memory even when the device is dead."""
STILL = LOCAL + ("tmpfs", "devtmpfs", "ramfs", "rootfs", "proc", "sysfs", "squashfs", "erofs")
"""Types through which a path is walked without a question to anyone: a mount point's own names stay
in memory as long as something is mounted there, and these types never revalidate them. Not in
it: autofs, which mounts when walked; overlay, which asks the file systems that it is made of."""
KERNELS = ("proc", "sysfs", "devtmpfs")
"""Types whose files the kernel answers itself: to open one, or to read it, may do something."""
LAYERS = re.compile(r"(?:lowerdir|upperdir|datadir)\+?=([^,]+)")
ESCAPE = re.compile(r"\\([0-7]{3})")
PASSWORD = re.compile(r"(\A|//)[^/@]*:[^/@]*@")
"""`user:password@` in a source; what follows says where the data is."""
MAX_LINE = 65536
MAX_LINKS = 40
"""Symbolic links on the way of one path, as the kernel bounds them (path_resolution(7))."""


class Mount(NamedTuple):
    """One line of mountinfo.

    Attributes:
        id: of the mount.
        parent: id of the mount that it is mounted on.
        major: of the file system's device; 0 where no block device is behind it.
        minor: of that device; it identifies the file system.
        root: folder of the file system that is mounted, `/` for all of it.
        path: where it is mounted, as the process sees it.
        type: of file system (`nfs4`, `fuse.sshfs`).
        source: what is mounted (`server:/export`, `/dev/sda1`), without a password.
        options: of the file system, as they stand there.
        is_read_only: nothing can be written through this mount.
    """

    id: int
    parent: int
    major: int
    minor: int
    root: str
    path: str
    type: str
    source: str
    options: str
    is_read_only: bool

    @property
    def is_remote(self) -> bool:
        """Whether it is a network or FUSE file system that may hold a job's data."""
        return bool(REMOTE.match(self.type)) and self.type not in NO_STORAGE

    @property
    def is_local(self) -> bool:
        """Whether it is a file system on block devices that can become full."""
        return self.type in LOCAL and not self.is_read_only


def parse(text: bytes) -> Tuple[Mount, ...]:
    """Return the mounts in their order; what is no line of mountinfo is left out."""
    mounts = (_mount(line[:MAX_LINE]) for line in text.split(b"\n"))
    return tuple(mount for mount in mounts if mount is not None)


def unescaped(text: bytes) -> str:
    """Undo the kernel's octal escapes; bytes that are no UTF-8 become surrogates."""
    if b"\\" not in text:
        return text.decode("utf-8", "surrogateescape")
    raw = ESCAPE.sub(lambda found: chr(int(found.group(1), 8) & 255), text.decode("latin-1"))
    return raw.encode("latin-1").decode("utf-8", "surrogateescape")


def once(mounts: Sequence[Mount], named: Sequence[Mount] = ()) -> List[Mount]:
    """Return each file system once: at its root if that is mounted, else at the shortest path.

    Args:
        mounts: of one namespace.
        named: those of them that stand for their file systems in any case; they come first.
    """
    found = {_file_system(mount): mount for mount in named}
    fixed = set(found)
    for mount in mounts:
        key = _file_system(mount)
        known = found.get(key)
        if known is None or (key not in fixed and _plainness(mount) < _plainness(known)):
            found[key] = mount
    return list(found.values())


def holding(path: str, mounts: Sequence[Mount]) -> Optional[Mount]:
    """Return the mount on which a path lies, None where the list has no root.

    It is looked for as the kernel would walk, from mount to mount; symbolic links aside, as nothing
    but the list is looked at.

    Args:
        path: absolute.
        mounts: of one namespace.
    """
    ids = {mount.id for mount in mounts}
    on = {(mount.parent, mount.path): mount for mount in mounts}
    roots = [m for m in mounts if m.path == "/" and (m.parent not in ids or m.parent == m.id)]
    if not roots:
        return None
    found = roots[-1]
    names = [name for name in posixpath.normpath(path).split("/") if name]
    for depth in range(len(names) + 1):
        step = "/" + "/".join(names[:depth])
        for _ in mounts:  # several may lie on each other
            above = on.get((found.id, step), found)
            if above is found:
                break
            found = above
    return found


def hindrance(
    mount: Mount, mounts: Sequence[Mount], own: Sequence[Mount], *, trusts_overlay: bool = False
) -> Optional[str]:
    """Say why the path of a mount must not be walked; None where it may be.

    Args:
        mount: whose path.
        mounts: of its namespace.
        own: of the agent's namespace: where the layers of an overlay lie.
        trusts_overlay: take an overlay for still without looking at its layers.
    """
    above = {m.id: m for m in mounts if m is not mount and covers(m.path, mount.path)}
    for other in above.values():
        if not (_is_still(other, own) or (trusts_overlay and other.type == "overlay")):
            return "it lies below %s (%s)" % (other.path, other.type)
    step = mount
    while step.parent in above:
        step = above.pop(step.parent)
    return "it is hidden by another mount" if above else None


def may_be_walked(path: str, mounts: Sequence[Mount], own: Sequence[Mount]) -> bool:
    """Tell whether nobody is asked on the way to a file, as long as no symbolic link is followed.

    Args:
        path: absolute; none of the kernel's own files may.
        mounts: of the namespace in which it is meant.
        own: of the agent's namespace, as above.
    """
    mount = holding(path, mounts)
    if mount is None or mount.type in KERNELS:
        return False
    return _is_still(mount, own) and hindrance(mount, mounts, own) is None


def followed(
    path: str, mounts: Sequence[Mount], own: Sequence[Mount], readlink: Callable[[str], str]
) -> str:
    """Return where a path leads through the symbolic links that can be read without asking anyone.

    `/data -> /lustre/project` is Lustre's. The walk ends where a network file system begins: what
    lies below is on it, unless a link there leads out. A mount point is no link, and not asked.

    Args:
        path: absolute.
        mounts: of the namespace in which it is meant.
        own: of the agent's namespace, as above.
        readlink: reads one link, below folders that are none; raises OSError where there is none.
    """
    points = {mount.path for mount in mounts}
    done, links = "/", 0
    names = path.split("/")[::-1]
    while names:
        name = names.pop()
        step = posixpath.normpath(posixpath.join(done, name))
        target = ""
        if name not in ("", ".", "..") and step not in points and links < MAX_LINKS:
            target = _target(step, mounts, own, readlink)
        if target:
            links += 1
            names.extend(target.split("/")[::-1])
            done = "/" if target.startswith("/") else done
        else:
            done = step
    return done


def _target(
    step: str, mounts: Sequence[Mount], own: Sequence[Mount], readlink: Callable[[str], str]
) -> str:
    """Return what a link holds, "" where it is none or may not be looked at."""
    folder = posixpath.dirname(step)
    above = [mount for mount in mounts if covers(mount.path, folder)]
    if not (may_be_walked(folder, mounts, own) and all(_is_still(m, own) for m in above)):
        return ""
    try:
        return readlink(step)
    except OSError:
        return ""


def covers(folder: str, path: str) -> bool:
    """Tell whether a path is a folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_still(mount: Mount, own: Sequence[Mount]) -> bool:
    """Tell whether its type asks nobody; of an overlay, whether all its layers are seen to lie so."""
    if mount.type != "overlay":
        return mount.type in STILL
    layers = [p for found in LAYERS.findall(mount.options) for p in found.split(":") if p]
    return bool(layers) and all(
        path.startswith("/") and all(m.type in STILL for m in own if covers(m.path, path))
        for path in layers
    )


def _file_system(mount: Mount) -> Tuple[str, int, int]:
    return mount.type, mount.major, mount.minor


def _plainness(mount: Mount) -> Tuple[int, int]:
    return len(mount.root), len(mount.path)


def _mount(line: bytes) -> Optional[Mount]:
    front, _, back = line.partition(b" - ")
    fields, tail = front.split(b" "), back.split(b" ", 2)
    if len(fields) < 6 or len(tail) < 2:
        return None
    major, _, minor = fields[2].partition(b":")
    numbers = fields[0], fields[1], major, minor
    if not all(text.isdigit() and len(text) < 12 for text in numbers):
        return None
    return Mount(
        id=int(fields[0]),
        parent=int(fields[1]),
        major=int(major),
        minor=int(minor),
        root=unescaped(fields[3]),
        path=unescaped(fields[4]),
        type=tail[0].decode("ascii", "replace"),
        source=PASSWORD.sub(r"\1", unescaped(tail[1])),
        options=unescaped(tail[2]) if len(tail) > 2 else "",
        is_read_only=b"ro" in fields[5].split(b","),
    )
