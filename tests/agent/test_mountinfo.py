"""On which mount a path lies, by the kernel's list alone."""

import os
from pathlib import Path

from gpuwatch.agent import mountinfo

ROOT_LINE = "22 1 8:2 / / rw - ext4 /dev/sda2 rw"


def test_a_path_lies_on_the_mount_that_the_kernel_finds_there() -> None:
    """On this machine, of paths that are no symbolic links."""
    mounts_here = mountinfo.parse(Path("/proc/self/mountinfo").read_bytes())
    still = [m.path for m in mounts_here if m.type in mountinfo.STILL and m.path != "/"]
    assert still
    for path in {p for m in still for p in (m, str(Path(m).parent), f"{m}/.")}:
        if os.path.realpath(path) == os.path.normpath(path):
            mount = mountinfo.holding(path, mounts_here)
            assert mount
            device = Path(path).stat().st_dev
            assert (mount.major, mount.minor) == (os.major(device), os.minor(device)), path


def test_a_path_on_what_was_mounted_over_or_under_is_told_apart() -> None:
    table = [ROOT_LINE, "23 22 0:3 / /a rw - tmpfs one rw", "24 23 0:4 / /a/b rw - tmpfs two rw",
             "25 23 0:5 / /a rw - tmpfs three rw", "26 26 0:6 / /c rw - tmpfs self rw"]  # fmt: skip
    parsed = mountinfo.parse("\n".join(table).encode())
    found = {
        path: mountinfo.holding(path, parsed) for path in ("/", "/a/b/x", "/ab", "/c", "/../a")
    }
    told = [mount.source if mount else None for mount in found.values()]
    assert told == ["/dev/sda2", "three", "/dev/sda2", "/dev/sda2", "three"]
    assert mountinfo.holding("/a", parsed[1:]) is None
