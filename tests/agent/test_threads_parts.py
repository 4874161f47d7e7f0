"""Who is a rank, and what is looked at, on fake nodes."""

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kit import stat_text
from gpuwatch.agent.host import Host, Options
from gpuwatch.agent.process import stat_of
from gpuwatch.agent.ranks import Census, Rank, _pattern
from gpuwatch.agent.sources import threads
from gpuwatch.agent.thread import Access, Look, Thread
from gpuwatch.agent.watch import Watch, Watched


class Node:
    """A fake /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc").mkdir(exist_ok=True)
        self.process(1, 0, "systemd", "/sbin/init")
        self.process(2, 0, "kthreadd", "")
        self.process(3, 2, "kworker/0:0", "")

    def process(
        self,
        pid: int,
        ppid: int,
        comm: str,
        command: str,
        env: str | None = "",
        device: str | None = None,
    ) -> None:
        folder = self.root / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_bytes(stat_text(pid, comm.encode(), "S", ppid))
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
        if env is not None:
            (folder / "environ").write_bytes(env.replace(" ", "\0").encode() + b"\0")
        if device:
            (folder / "fd" / "7").symlink_to(device)

    def ranks(self, match: str | None = None, pids: dict[int, tuple[int, ...]] | None = None) -> dict[int, Rank]:  # fmt: skip
        host = Host(str(self.root), Options(match=match))
        host.board.gpu_pids = pids or {}
        return {rank.main.pid: rank for rank in Census(host).ranks()}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def launched(node: Node) -> None:
    """torchrun with two workers, one with a loader, a tracker and a compile worker."""
    node.process(10, 1, "torchrun", "python /opt/bin/torchrun train.py", "MASTER_ADDR=a MASTER_PORT=1")  # fmt: skip
    for place in (0, 1):
        env = f"MASTER_ADDR=a MASTER_PORT=1 WORLD_SIZE=2 RANK={place} LOCAL_RANK={place}"
        node.process(20 + place, 10, "python", "python train.py", env, "/dev/nvidia0")
    env = "MASTER_ADDR=a MASTER_PORT=1 WORLD_SIZE=2 RANK=1 LOCAL_RANK=1"
    node.process(30, 21, "pt_data_worker", "python train.py", env)
    node.process(31, 21, "python", "python -c from multiprocessing.resource_tracker import main", env)  # fmt: skip
    node.process(32, 21, "python", "python /x/_inductor/compile_worker/__main__.py", env)
    node.process(33, 21, "ptxas", "ptxas -v", env)
    node.process(34, 21, "python", "python async_ckpt_writer.py", env)


@pytest.mark.parametrize("match", [None, "torchrun", "train.py"])
def test_launched_ranks(node: Node, match: str | None) -> None:
    launched(node)
    ranks = node.ranks(match)
    assert set(ranks) == {20, 21}
    assert [(r.rank, r.gpu, r.group, r.world_size) for r in ranks.values()] == [
        ("0", 0, "rdzv:a:1", 2),
        ("1", 1, "rdzv:a:1", 2),
    ]
    assert [p.pid for p in ranks[21].loaders] == [30]
    assert [p.pid for p in ranks[21].checkpoints] == [34]


def test_a_loader_that_holds_a_context_stays_a_loader(node: Node) -> None:
    launched(node)
    ranks = node.ranks(pids={30: (5,)})
    assert {pid: rank.gpu for pid, rank in ranks.items()} == {21: 5}


def test_node_rank_in_the_launchers_environment(node: Node) -> None:
    node.process(10, 1, "python", "python -m torch.distributed.run train.py", "RANK=4 WORLD_SIZE=8")
    node.process(11, 10, "python", "python train.py", "RANK=32 LOCAL_RANK=0 WORLD_SIZE=64")
    assert {pid: rank.rank for pid, rank in node.ranks("train").items()} == {11: "32"}


def test_spawned_ranks_have_no_environment_of_their_own(node: Node) -> None:
    node.process(10, 1, "python", "python train.py")
    node.process(11, 10, "python", "python -c from_multiprocessing.spawn")
    node.process(12, 10, "python", "python -c from_multiprocessing.spawn")
    ranks = node.ranks(pids={11: (0,), 12: (1,)})
    assert {pid: (r.rank, r.gpu) for pid, r in ranks.items()} == {
        11: ("pid:11", 0),
        12: ("pid:12", 1),
    }


def test_a_single_process_is_matched_without_its_shell_and_loaders(node: Node) -> None:
    node.process(10, 1, "bash", "bash run_train.sh")
    node.process(11, 10, "python3", "python3 train.py")
    node.process(12, 11, "pt_data_worker", "python3 train.py")
    node.process(13, 1, "vim", "vim train.py")
    ranks = node.ranks("train")
    assert {pid: len(rank.loaders) for pid, rank in ranks.items()} == {11: 1}
    assert ranks[11].gpu is None


def test_without_match_and_nvml_a_rank_needs_a_device(node: Node) -> None:
    node.process(10, 1, "python", "python train.py", "RANK=0")
    assert node.ranks() == {}
    node.process(10, 1, "python", "python train.py", "RANK=0", "/dev/nvidiactl")
    assert set(node.ranks()) == {10}


def test_hidden_environment_and_strange_match(node: Node) -> None:
    node.process(10, 1, "python", "python train[0].py", None)
    ranks = node.ranks("train[")  # no regular expression: taken as it stands
    assert {pid: rank.rank for pid, rank in ranks.items()} == {10: "pid:10"}


@pytest.mark.parametrize(
    ("visible", "local", "gpu"),
    [("2,3", "1", 3), ("2,3", "5", None), ("7", "3", 7), ("GPU-ab,GPU-cd", "0", None), ("", "6", 6)],
)  # fmt: skip
def test_gpu_by_environment(node: Node, visible: str, local: str, gpu: int | None) -> None:
    env = f"RANK=0 LOCAL_RANK={local} CUDA_VISIBLE_DEVICES={visible}"
    node.process(10, 1, "python", "python train.py", env)
    assert node.ranks("train")[10].gpu == gpu


def test_processes_that_seem_to_be_each_others_parents_hold_nothing_up(node: Node) -> None:
    """A pid was given anew between two looks: its parent is now below it."""
    for pid, parent in ((10, 1), (11, 10), (20, 22), (21, 20), (22, 21), (23, 23)):
        node.process(pid, parent, "python", "python train.py", f"RANK={pid // 10}")
    ranks = node.ranks("train")
    assert {pid: [p.pid for p in rank.loaders] for pid, rank in ranks.items()}[10] == [11]


def test_numbers_that_no_kernel_writes_make_no_process(node: Node) -> None:
    node.process(10, 1, "python", "python train.py", "RANK=0")
    stat = node.root / "proc/10/stat"
    stat.write_bytes(stat.read_bytes().replace(b" 100 0 0", b" " + b"9" * 400 + b" 0 0"))
    assert node.ranks("train") == {}


def test_look_tells_only_of_processes_that_matter(node: Node) -> None:
    launched(node)
    census = Census(Host(str(node.root), Options(match="torchrun")))
    census.ranks()
    node.process(50, 1, "cron", "cron")
    assert not census.look()
    node.process(51, 20, "pt_data_worker", "python train.py")
    assert census.look()


comms = st.binary(max_size=64).filter(lambda comm: b"\0" not in comm)


@given(comms, st.sampled_from("RSDTZI"), st.integers(0, 2**22), st.integers(0, 2**40))
def test_stat_with_any_name(comm: bytes, state: str, ppid: int, start: int) -> None:
    stat = stat_of(stat_text(7, comm, state, ppid, faults=3, start=start))
    assert stat is not None
    assert (stat.comm, stat.state, stat.ppid, stat.major_faults, stat.start) == (
        comm, state, ppid, 3, start,
    )  # fmt: skip


@given(st.binary(max_size=200))
def test_stat_of_anything(raw: bytes) -> None:
    assert stat_of(raw) is None or b"(" in raw


@pytest.mark.parametrize(
    ("wait", "hot_until", "counted"),
    [("futex", 0.0, False), ("poll", 0.0, False), ("futex", 1009.0, True), ("netfs", 0.0, True)],
)
def test_a_helper_that_sleeps_tells_nothing_of_its_loader(
    tmp_path: Path, wait: str, hot_until: float, counted: bool
) -> None:
    """Each loader has a thread that feeds its queue, and pools of libraries: asleep they are no rest."""

    class Asleep(Thread):
        def look(self, now: float) -> Look:
            found = "fuse" if self.tid == self.pid else wait
            return Look(moved=True, wait=found, run_ns=0, delay_ns=0, major_faults=0)

    reader = threads.Reader(Host(str(tmp_path)), lambda: 1000.0)
    rank = Rank("g", "0", None, cast("Any", None), (), (), None)
    reader._watches[7] = Watch(reader.host, 7, Access())
    for tid in (7, 8):
        watched = Watched(Asleep(reader.host, 7, tid, Access()), is_main=tid == 7)
        watched.hot_until = hot_until if tid == 8 else 0.0
        reader._watches[7].threads[tid] = watched
        watched.rank, watched.role = rank, "loader"
    reader._sort(1000.0)
    reader.sample()
    waits = {labels[3] for _, labels, _ in reader._tally.wait_rows({("g", "0")})}
    assert waits == {"fuse", wait} if counted else {"fuse"}


@pytest.mark.parametrize("match", ["(?u)torch", "(", "a{99999999999}"])
def test_a_match_that_is_no_pattern_of_bytes_is_text(match: str) -> None:
    """The viewer takes what its own Python takes, of text; the node's may be another."""
    assert _pattern(match).search(b"x" + match.encode())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("uptime", "looked_at"), [("1000.00 1.00", 20), ("5.00 1.00", 100), (None, 100)]
)
def test_only_young_processes_are_looked_at_in_each_scan(
    tmp_path: Path, uptime: str | None, looked_at: int
) -> None:
    """All began a second after the node did: long ago, or just now."""
    for pid in range(100, 200):
        folder = tmp_path / f"proc/{pid}"
        folder.mkdir(parents=True)
        (folder / "stat").write_bytes(stat_text(pid, b"sh", "S", 1))
    if uptime:
        (tmp_path / "proc/uptime").write_text(uptime)
    opened: list[str] = []

    class Seen(Host):
        def open(self, path: str) -> int:
            opened.append(path)
            return super().open(path)

    census = Census(Seen(str(tmp_path)), lambda: 5000.0)
    census.look()
    opened.clear()
    census.look()
    assert sum(path.endswith("/stat") for path in opened) <= looked_at
    assert len(opened) >= looked_at // 3
