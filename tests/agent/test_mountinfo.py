"""On which mount a path lies, by the kernel's list alone."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.kit import read
from gpuwatch.agent import mountinfo
from gpuwatch.agent.host import Host, Options

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


NAMES = st.sampled_from(["a", "b", "c", ".", ".."])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
LINKS = st.dictionaries(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2).map("/".join),
    st.tuples(st.sampled_from(["", "/"]), PATHS).map("".join),
    max_size=5,
)


@given(links=LINKS, path=PATHS)
@settings(max_examples=60, deadline=None)
def test_links_lead_where_the_kernel_follows_them(links: dict[str, str], path: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        for link, target in links.items():
            with suppress(OSError):
                (root / link).parent.mkdir(parents=True, exist_ok=True)
                (root / link).symlink_to(f"{root}{target}" if target[0] == "/" else target)
        mounts = mountinfo.parse(ROOT_LINE.encode())
        found = mountinfo.followed(f"{root}/{path}", mounts, mounts, Host("").readlink)
        try:
            end = (root / path).resolve(strict=True)
        except (OSError, RuntimeError):
            return  # a loop, or nothing there
        assert found == str(end)


def test_no_link_is_read_where_a_server_would_be_asked(tmp_path: Path) -> None:
    """`/data` leads to Lustre, and out of it again: that is not looked at, nor a mount point."""
    table = [ROOT_LINE, "23 22 0:3 / /lustre rw - lustre mds@tcp:/fs rw"]
    mounts = mountinfo.parse("\n".join(table).encode())
    (tmp_path / "lustre").mkdir()
    (tmp_path / "data").symlink_to("lustre/project")
    (tmp_path / "lustre/project").symlink_to("/tmp")
    (tmp_path / "loop").symlink_to("loop")
    asked: list[str] = []

    def readlink(path: str) -> str:
        asked.append(path)
        return Host(str(tmp_path)).readlink(path)

    assert mountinfo.followed("/data/run", mounts, mounts, readlink) == "/lustre/project/run"
    assert asked == ["/data"]
    assert mountinfo.followed("/loop/x", mounts, mounts, readlink) == "/loop/x"
    assert len(asked) < 2 * mountinfo.MAX_LINKS


def test_a_path_of_the_job_counts_as_what_its_links_lead_to(tmp_path: Path) -> None:
    """A file system of an unknown type is shown only where a path of the job lies on it."""
    lines = [ROOT_LINE, "24 22 0:9 / /b rw - newfs server:/fs rw"]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("\n".join(lines))
    (tmp_path / "data").symlink_to("/b/project")
    shown = {}
    for paths in ((), ("/data/run",)):
        reading = read("mounts", Host(str(tmp_path), Options(paths=paths)))
        shown[paths] = [labels[0] for _, labels, _ in reading.rows]
    assert shown == {(): ["/"], ("/data/run",): ["/b", "/"]}
