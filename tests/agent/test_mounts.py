"""Mounts: whole fake hosts, any bytes, public texts, and a real FUSE mount whose server is dead."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent.kit import SHARED, FaultyHost, named, read, reader, unpack
from debian import needs
from gpuwatch.agent import lustre, mountinfo, mountstats
from gpuwatch.agent.host import Host, Member, Options
from gpuwatch.agent.sources import mounts as source
from gpuwatch.model.derive import BRIDGE_S

ROOT = Path(__file__).parents[2]
NFS_LINE = "{id} 22 0:{id} / /n/{id} rw - nfs4 10.0.0.9:/{id} rw"
NFS_STATS = """device 10.0.0.9:/{id} mounted on /n/{id} with fstype nfs4 statvers=1.1
\tper-op statistics
\t        READ: {ops} {ops} 0 1 1 1 1 1 0
"""
ROOT_LINE = "22 1 8:2 / / rw - ext4 /dev/sda2 rw"


class Walked(FaultyHost):
    """A fake host that notes every path that the kernel would have to walk."""

    def __init__(self, root: str, faults: dict[str, int] | None = None) -> None:
        super().__init__(root, faults or {})
        self.paths: list[str] = []

    def open(self, path: str) -> int:
        self.paths.append(path)
        return super().open(path)

    def listdir(self, path: str) -> list[str]:
        self.paths.append(path)
        return super().listdir(path)

    def readlink(self, path: str) -> str:
        self.paths.append(path)
        return super().readlink(path)

    def exists(self, path: str) -> bool:
        self.paths.append(path)
        return super().exists(path)

    def hold(self, path: str) -> int:
        self.paths.append(path)
        return super().hold(path)

    def statvfs(self, where: int | str) -> os.statvfs_result:
        if isinstance(where, str):
            self.paths.append(where)
        return super().statvfs(where)


def write(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def mounts(host: Host) -> dict[str, dict[str, Any]]:
    """Return what is read of each mount, by its path."""
    found = named("mounts", read("mounts", host))
    return {name.removeprefix("mount ").rsplit(" ", 2)[0]: v for name, v in found.items()}


def test_nfs_counts_reads_writes_commits_and_all_else(tmp_path: Path) -> None:
    train = mounts(unpack("nfs", tmp_path))["/data/train set"]
    assert (train["read_ops"], train["read_retransmits"], train["read_bytes"]) == (1010, 2, 8000000)
    assert (train["read_queue_ms"], train["read_rtt_ms"], train["read_exe_ms"]) == (
        61,
        31500,
        31602,
    )
    assert (train["write_ops"], train["write_exe_ms"]) == (4, 84)
    assert (train["commit_ops"], train["commit_exe_ms"]) == (2, 901)
    assert (train["meta_ops"], train["meta_rtt_ms"], train["meta_exe_ms"]) == (770, 840, 884)
    assert train["timeouts"] == 3


def test_nfs_sums_its_connections_and_takes_off_what_was_sent_twice(tmp_path: Path) -> None:
    found = mounts(unpack("nfs", tmp_path))
    train, home = found["/data/train set"], found["/home"]
    assert (train["rpc_sends"], train["rpc_receives"], train["rpc_backlog"]) == (2806, 2800, 46)
    assert train["waiting"] == 2806 - 2800 - 3
    assert (home["rpc_sends"], home["rpc_receives"], home["waiting"]) == (60, 57, 0)


def test_a_file_system_counts_once_however_often_it_is_bound(tmp_path: Path) -> None:
    assert "/val" not in mounts(unpack("nfs", tmp_path))


def test_what_has_no_counters_is_named_with_the_reason(tmp_path: Path) -> None:
    reading = read("mounts", unpack("nfs", tmp_path))
    found = named("mounts", reading)
    assert set(found["mount /ceph ceph 10.0.0.5:6789:/"].values()) == {None}
    assert found["mount /code fuse.sshfs dev:/home/ann"]["waiting"] == 3
    assert reading.missing["mounts.counters.ceph"].startswith("/ceph: ")


@pytest.mark.parametrize("secret", ["secret", "hidden"])
def test_no_password_of_a_source_leaves_the_node(secret: str, tmp_path: Path) -> None:
    assert secret not in repr(read("mounts", unpack("nfs", tmp_path)))


@pytest.mark.parametrize("name", ["nfs", "lustre"])
def test_k26_nothing_at_or_below_a_network_or_fuse_mount_is_walked(
    name: str, tmp_path: Path
) -> None:
    """K26, K28: one look at a dead hard mount would never come back."""
    unpack(name, tmp_path)
    host = Walked(str(tmp_path))
    source_reader = reader("mounts", host)
    reading = source_reader.read()
    source_reader.read()
    remote = [labels[0] for _, labels, _ in reading.rows if mountinfo.REMOTE.match(labels[1])]
    remote += ["/val", "/scratch/a", "/home/local", "/var/lib/lxcfs"]
    assert len(remote) > 5
    assert "/" in host.paths or name == "lustre"
    for path in host.paths:
        assert not any(mountinfo.covers(mount, path) for mount in remote)


def test_capacity_is_told_of_local_disks_and_dev_shm(tmp_path: Path) -> None:
    reading = read("mounts", unpack("nfs", tmp_path))
    found = named("mounts", reading)
    full = {name.split()[1] for name, values in found.items() if values["free_bytes"] is not None}
    assert full == {"/", "/nvme", "/dev/shm"}
    nvme = found["mount /nvme xfs /dev/nvme3n1"]
    assert (nvme["free_bytes"], nvme["total_bytes"], nvme["free_inodes"]) == (2048000, 4096000, 140)
    assert reading.missing["mounts.free_bytes.xfs"].endswith("it lies below /scratch (autofs)")


def test_a_root_on_nfs_leaves_only_the_size_of_dev_shm(tmp_path: Path) -> None:
    lines = ["22 1 0:30 / / rw - nfs 10.0.0.1:/root rw", "23 22 0:6 / /dev rw - devtmpfs dev rw",
             "24 23 0:24 / /dev/shm rw - tmpfs shm rw,size=65536k"]  # fmt: skip
    write(tmp_path, "/proc/self/mountinfo", "\n".join(lines))
    host = Walked(str(tmp_path))
    shm = mounts(host)["/dev/shm"]
    assert (shm["total_bytes"], shm["free_bytes"]) == (65536 * 1024, None)
    assert all(path.startswith("/proc/self/") for path in host.paths)


@pytest.mark.parametrize(
    ("layers", "is_walked"),
    [
        ("lowerdir=/var/lib/c/1:/var/lib/c/2,upperdir=/var/lib/c/3", True),
        ("lowerdir=/images/1,upperdir=/var/lib/c/3", False),
        ("lowerdir=l/1,upperdir=/var/lib/c/3", False),
        ("lowerdir+=/var/lib/c/1,lowerdir+=/images/2", False),
        ("index=off", False),
    ],
)
def test_a_container_is_walked_only_where_its_layers_are_seen_to_be_local(
    layers: str, is_walked: bool, tmp_path: Path
) -> None:
    own = [ROOT_LINE, "23 22 0:40 / /images rw - fuse.squashfuse image rw"]
    theirs = [f"90 22 0:70 / / rw - overlay overlay rw,{layers}", "91 90 0:71 / /dev rw - tmpfs tmpfs rw",
              "92 91 0:72 / /dev/shm rw - tmpfs shm rw,size=65536k"]  # fmt: skip
    write(tmp_path, "/proc/self/mountinfo", "\n".join(own))
    write(tmp_path, "/proc/77/mountinfo", "\n".join(theirs))
    host = Walked(str(tmp_path))
    host.board.job = (Member(77, "g", "0", "main", None),)
    shm = mounts(host)["/dev/shm"]
    assert (shm["free_bytes"] is not None) is is_walked
    assert ("/proc/77/root/dev/shm" in host.paths) is is_walked
    assert shm["total_bytes"] == (4096000 if is_walked else 65536 * 1024)


def test_the_jobs_namespace_counts_and_is_not_kept_open(tmp_path: Path) -> None:
    unpack("nfs", tmp_path)
    write(tmp_path, "/proc/77/mountinfo", NFS_LINE.format(id=5))
    write(tmp_path, "/proc/77/mountstats", NFS_STATS.format(id=5, ops=31))
    host = Host(str(tmp_path))
    host.board.job = (Member(77, "g", "0", "main", None),)
    source_reader = reader("mounts", host)
    assert named("mounts", source_reader.read())["mount /n/5 nfs4 10.0.0.9:/5"]["read_ops"] == 31
    assert not [fd for fd in Path("/proc/self/fd").iterdir() if "/77/" in _target(fd)]
    (tmp_path / "proc/77/mountinfo").unlink()
    reading = source_reader.read()
    assert "mount /home nfs filer:/vol/home" in named("mounts", reading)
    assert reading.missing["mounts.mount"].startswith("the agent's own mounts")


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""


def test_of_many_mounts_the_busiest_are_shown_and_it_is_said(tmp_path: Path) -> None:
    ids = range(100, 140)
    write(tmp_path, "/proc/self/mountinfo", "\n".join(NFS_LINE.format(id=i) for i in ids))
    busy = {n: 1000 + n for n in ids[20:]}
    stats = "".join(NFS_STATS.format(id=i, ops=busy.get(i, 5)) for i in ids)
    write(tmp_path, "/proc/self/mountstats", stats)
    reading = read("mounts", Host(str(tmp_path)))
    shown = [str(labels[0]) for _, labels, _ in reading.rows]
    assert shown == [f"/n/{i}" for i in sorted(ids, reverse=True)[: source.MAX_REMOTE]]
    assert reading.missing["mounts.remote"] == "the 16 busiest of 40 network and FUSE mounts"


def test_a_long_list_is_read_now_and_then_and_nothing_in_between(tmp_path: Path) -> None:
    """What is left out in between is left out: an old row never looks fresh."""
    autofs = (f"{i} 22 0:{i} / /home/{i} rw - autofs /etc/auto.home rw" for i in range(3000))
    write(tmp_path, "/proc/self/mountinfo", "\n".join([NFS_LINE.format(id=5), *autofs]))
    write(tmp_path, "/proc/self/mountstats", NFS_STATS.format(id=5, ops=31))
    now = [100.0]
    source_reader = source.Reader(Host(str(tmp_path)), lambda: now[0])
    told = []
    for _ in range(10):
        reading = source_reader.read()
        assert "mounts.rate" in reading.missing
        told.append(len(reading.rows))
        now[0] += 1.0
    assert told == [1, 0, 0, 0, 1, 0, 0, 0, 1, 0]
    assert told.index(1, 1) < BRIDGE_S / 2, "growth covers two such gaps"


def with_paths(root: Path, *paths: str) -> Walked:
    host = Walked(str(root))
    host.options = Options(paths=paths)
    return host


def test_the_mounts_of_the_job_files_paths_are_shown_whatever_they_are(tmp_path: Path) -> None:
    ids = range(100, 140)
    others = ["50 22 0:50 / /tmp rw - tmpfs none rw", "51 22 0:51 / /home rw - autofs auto rw",
              "52 22 0:52 / /box rw - overlay overlay rw,lowerdir=/x", "53 22 0:53 / /odd rw - oddfs x rw"]  # fmt: skip
    table = [ROOT_LINE, *others, *(NFS_LINE.format(id=i) for i in ids)]
    write(tmp_path, "/proc/self/mountinfo", "\n".join(table))
    stats = "".join(NFS_STATS.format(id=i, ops=i) for i in ids)
    write(tmp_path, "/proc/self/mountstats", stats)
    host = with_paths(tmp_path, "/n/101/data/", "/tmp/x", "/home/ann", "/box", "/odd/../odd/y")
    reading = read("mounts", host)
    found = named("mounts", reading)
    assert found["mount /n/101 nfs4 10.0.0.9:/101"]["read_ops"] == 101
    assert found["mount /tmp tmpfs none"]["free_bytes"] == 2048000
    for name, why in (
        ("/home autofs auto", "nothing is mounted there now"),
        ("/box overlay overlay", "its client counts nothing that is read here"),
        ("/odd oddfs x", "its client counts nothing that is read here"),
    ):
        path, kind, _ = name.split()
        assert set(found[f"mount {name}"].values()) == {None}
        assert reading.missing[f"mounts.counters.{kind}"] == f"{path}: {why}"
    walked = {path for path in host.paths if not path.startswith("/proc/")}
    assert walked == {"/tmp", "/", "/n", "/tmp/x"}  # the last two may be links
    assert sum(name.startswith("mount /n/") for name in found) == source.MAX_REMOTE - 4 + 1


def test_lustre_calls_and_requests_in_flight(tmp_path: Path) -> None:
    reading = read("mounts", unpack("lustre", tmp_path))
    found = named("mounts", reading)
    scratch = found["mount /scratch lustre 10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch"]
    assert (scratch["read_ops"], scratch["read_bytes"], scratch["read_exe_ms"]) == (3000, 3145728000, 12000)  # fmt: skip
    assert (scratch["meta_ops"], scratch["commit_exe_ms"], scratch["waiting"]) == (139, 950, 8)
    assert reading.missing["mounts.counters.lustre"] == "/archive: no counters of archive"


def test_lustre_that_only_root_may_see_says_so(tmp_path: Path) -> None:
    unpack("lustre", tmp_path)

    class Refused(Host):
        def listdir(self, path: str) -> list[str]:
            raise PermissionError(13, "Permission denied", path)

    reading = read("mounts", Refused(str(tmp_path)))
    assert reading.missing["mounts.counters.lustre"].endswith("Permission denied")


def test_lustre_before_2_13_has_no_times() -> None:
    text = b"read_bytes 7 samples [bytes] 1 4 20\nopen 3 samples [regs]\n"
    assert lustre.counts(text) == {"read bytes": 20, "read ops": 7, "meta ops": 3}


@given(st.binary(max_size=300))
@example(b"1 1 0:1 / / rw - nfs4 a")
@example(b"\\777 1 0:1 \\000 \\377 rw - x y z")
def test_no_bytes_raise_out_of_a_parser(text: bytes) -> None:
    for mount in mountinfo.parse(text):
        assert mount.type
    for _, section in mountstats.sections(
        b"device a mounted on b with fstype nfs statvers=1.1\n" + text
    ):
        mountstats.counts(section)
        mountstats.layout(section)
    lustre.counts(text)


NAMES = st.lists(st.sampled_from(["a", "b", "dev", "shm"]), max_size=3)
LINES = st.lists(
    st.tuples(
        NAMES.map(lambda parts: "/" + "/".join(parts)),
        st.sampled_from(
            ["ext4", "xfs", "tmpfs", "nfs4", "fuse.x", "autofs", "overlay", "unheard-of"]
        ),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=7,
)


@given(lines=LINES)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_k26_of_any_table_only_still_file_systems_are_walked(
    lines: list[tuple[str, str, int]], tmp_path: Path
) -> None:
    texts = [
        f"{i} {parent} {8 * (kind in mountinfo.LOCAL)}:{i} / {path} rw - {kind} x rw"
        for i, (path, kind, parent) in enumerate(lines)
    ]
    write(tmp_path, "/proc/self/mountinfo", "\n".join(texts))
    host = with_paths(tmp_path, "/a/b", "/dev")
    source_reader = reader("mounts", host)
    held = {"/dev/shm"} & set(host.paths)
    host.paths.clear()
    source_reader.read()
    for walked in [path for path in host.paths if not path.startswith(("/proc/", "/sys/"))]:
        kinds = {kind for path, kind, _ in lines if mountinfo.covers(path, walked)}
        assert kinds <= set(mountinfo.STILL)
    for walked in held:
        kinds = {kind for path, kind, _ in lines if mountinfo.covers(path, walked)}
        assert kinds <= {*mountinfo.STILL, "overlay"}
    source_reader.close()


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the public texts are not at {SHARED}")
def test_public_texts_are_read_as_they_are(tmp_path: Path) -> None:
    for name in ("mountinfo", "mountstats"):
        text = (SHARED / f"node_exporter/proc/10/{name}").read_text()
        write(tmp_path, f"/proc/self/{name}", text)
    found = mounts(FaultyHost(str(tmp_path), {}))
    nfs = found["/mnt/nfs/test"]
    assert (nfs["read_ops"], nfs["read_exe_ms"], nfs["read_rtt_ms"]) == (1298, 79407, 79386)
    assert (nfs["read_bytes"], nfs["write_bytes"], nfs["rpc_sends"]) == (1210214218, 0, 6428)
    odd = found["/mnt/nfs/test-dupe"]
    assert odd["meta_ops"] == 2927395007
    assert odd["meta_exe_ms"] == 1953587717


Ask = Callable[[str], dict[str, Any]]


@pytest.fixture
def fuse(tmp_path: Path) -> Iterator[tuple[int, Ask]]:
    """Mount by FUSE in a mount namespace of its own; gives a process there, and how to ask it."""
    words = ["unshare", "--mount", sys.executable, str(Path(__file__).with_name("fuse_mount.py")), str(tmp_path)]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout
        assert stdout.readline() == "mounted\n"

        def ask(word: str) -> dict[str, Any]:
            stdin.write(f"{word}\n")
            stdin.flush()
            return dict(json.loads(stdout.readline()))

        yield process.pid, ask
        stdin.close()


@needs("sshfs", "sshfs")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_k26_a_dead_fuse_server_holds_nothing_up_and_is_seen_waiting(
    fuse: tuple[int, Ask], tmp_path: Path
) -> None:
    pid, ask = fuse
    name = f"mount {tmp_path}/mnt fuse.sshfs here:{tmp_path}/data"
    while ask("read")["mounts"][name]["waiting"]:
        pass  # the first request of a mount may still be under way
    told = ask("stop")
    while not told["mounts"][name]["waiting"]:
        told = ask("read")
    assert told["seconds"] < 0.25
    outside = Host()
    outside.board.job = (Member(pid, "g", "0", "main", None),)
    assert name in named("mounts", read("mounts", outside))
