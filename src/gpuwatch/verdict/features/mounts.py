"""What data come from that is no disk of the node: network and FUSE mounts."""

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Window

__all__ = ["Mount", "mounts"]

_LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "zfs")


class Mount(msgspec.Struct, frozen=True, gc=False):
    """One mount: `read_ms` is how long a read takes in all, `reading` how many are under way."""

    path: str
    type: str
    source: str
    read_ms: float | None
    reading: float | None


def mounts(window: Window) -> tuple[Mount, ...]:
    """Return the mounts of a node that are of no local file system."""
    return tuple(
        _mount(window, labels)
        for labels in window.entities("mount")
        if str(labels[1]) not in _LOCAL
    )


def _mount(window: Window, labels: Labels) -> Mount:
    ops = window.growth("mount", labels, "read_ops")
    spent = window.growth("mount", labels, "read_exe_ms")
    waiting = window.rate("mount", labels, "waiting")
    return Mount(
        str(labels[0]),
        str(labels[1]),
        str(labels[2]),
        spent / ops if spent is not None and ops else None,
        spent / 1e3 / window.seconds if spent is not None and window.seconds else waiting,
    )
