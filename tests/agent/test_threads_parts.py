"""Who is a rank, and what one thread costs and tells, on fake nodes."""

from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent.host import Host, Options
from gpuwatch.agent.ranks import Census, Rank, _pattern, stat_of
from gpuwatch.agent.sources import threads
from gpuwatch.agent.thread import STAT_EVERY, Access, Gone, Look, Thread, Watched
from gpuwatch.agent.turns import IN_SLEEP, IN_TURN, LOOKS, Turns, Unseen


def stat_text(pid: int, comm: bytes, state: str, ppid: int, faults: int = 0, start: int = 100) -> bytes:  # fmt: skip
    numbers = [ppid, pid, pid, 0, -1, 0, 0, 0, faults, 0, 1, 1, 0, 0, 20, 0, 1, 0, start, 0, 0]
    return b"%d (%s) %s " % (pid, comm, state.encode()) + b" ".join(b"%d" % n for n in numbers) + b"\n"  # fmt: skip


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


class Fake:
    """The files of one thread."""

    def __init__(self, root: Path, tid: int = 7) -> None:
        self.folder = root / f"proc/7/task/{tid}"
        self.folder.mkdir(parents=True)
        self.thread = Thread(Host(str(root)), 7, tid, Access())

    def write(self, sched: str, state: str = "S", wchan: str = "pipe_read", **more: int) -> None:
        (self.folder / "schedstat").write_text(sched + "\n")
        (self.folder / "stat").write_bytes(stat_text(7, b"python", state, 1, **more))
        (self.folder / "wchan").write_text(wchan)


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def test_differences_begin_at_the_first_look(fake: Fake) -> None:
    fake.write("5000 100 3", faults=9)
    assert fake.thread.look(0.0) == (True, "pipe", 0, 0, 0)
    fake.write("7000 150 4")
    assert fake.thread.look(1.0) == (True, "pipe", 2000, 50, 0)


def test_page_faults_are_told_after_a_few_looks_each_once(fake: Fake) -> None:
    told = 0
    for turn in range(4 * STAT_EVERY):
        fake.write(f"{5000 + turn} 100 3", faults=9 + turn)
        told += fake.thread.look(float(turn)).major_faults
        assert turn - STAT_EVERY <= told <= turn


def test_what_wchan_alone_does_not_tell_is_looked_up_in_the_stack(fake: Fake) -> None:
    stack = "[<0>] folio_wait_bit_common+0x1/0x2\n[<0>] nfs_file_read+0x1/0x2\n"
    (fake.folder / "stack").write_text(stack)
    fake.write("5000 100 3")
    assert fake.thread.look(0.0).wait == "pipe"
    for turn, wchan in enumerate(("folio_wait_bit_common", "wait_woken", "io_cqring_wait", "0")):
        fake.write(f"{6000 + turn} 100 4", state="D", wchan=wchan)
        assert fake.thread.look(1.0 + turn).wait == "netfs"


def test_a_helper_asleep_is_asked_where_at_the_second_look(tmp_path: Path) -> None:
    fake = Fake(tmp_path, tid=8)
    fake.write("5000 100 3")
    assert fake.thread.look(0.0).wait == "unknown"
    assert fake.thread.look(1.0).wait == "pipe"


def test_a_thread_that_did_not_run_waits_where_it_waited(fake: Fake) -> None:
    fake.write("5000 100 3")
    fake.thread.look(0.0)
    fake.write("5000 100 3", wchan="futex_do_wait")
    assert fake.thread.look(1.0).wait == "pipe"
    assert fake.thread.still == 1
    fake.write("5001 100 4", wchan="futex_do_wait")
    assert fake.thread.look(2.0).wait == "futex"
    assert fake.thread.still == 0


def test_a_wait_that_was_not_told_is_asked_for_again(fake: Fake) -> None:
    fake.write("5000 100 3", wchan="0")  # asleep, not yet out of the run queue
    assert fake.thread.look(0.0).wait == "unknown"
    fake.write("5000 100 3", wchan="futex_do_wait")
    assert fake.thread.look(1.0).wait == "futex"


def test_a_kernel_without_scheduler_statistics_is_read_each_time(fake: Fake) -> None:
    fake.write("0 0 0")
    fake.thread.look(0.0)
    fake.write("0 0 0", wchan="futex_do_wait")
    assert fake.thread.look(1.0).wait == "futex"


def test_a_kernel_without_schedstat(fake: Fake) -> None:
    fake.write("1 1 1")
    (fake.folder / "schedstat").unlink()
    assert fake.thread.look(0.0) == (True, "pipe", 0, 0, 0)


def test_running_and_ready(fake: Fake) -> None:
    fake.write("1000 0 1", state="R", wchan="0")
    assert fake.thread.look(0.0).wait == "run"
    fake.write("9000 500 2", state="R", wchan="0")
    assert fake.thread.look(1.0).wait == "run"
    fake.write("9100 90000 3", state="R", wchan="0")
    assert fake.thread.look(2.0).wait == "ready"
    fake.write("9900 90001 4", state="R", wchan="0")
    assert fake.thread.look(3.0).wait == "run"
    assert fake.thread.look(4.0).wait == "ready"  # has not run since, though it could


def test_a_reused_id_is_another_thread(fake: Fake) -> None:
    fake.write("5000 100 3", start=100)
    fake.thread.look(0.0)
    for turn in range(STAT_EVERY):
        fake.write(f"{10 + turn} 0 1", start=200)
        assert fake.thread.look(1.0 + turn).run_ns <= 1
    fake.write("20 0 1", start=200)
    with pytest.raises(Gone):
        fake.thread.look(9.0)


def test_a_stack_that_may_not_be_read_is_not_asked_for_again(fake: Fake) -> None:
    fake.write("5000 100 3", wchan="folio_wait_bit_common")
    (fake.folder / "stack").mkdir()  # reading it fails, as without the capability
    assert fake.thread.look(0.0).wait == "block-read"
    assert not fake.thread._access.stack


def test_descriptors_are_given_back(fake: Fake) -> None:
    fake.write("5000 100 3")
    before = len(list(Path("/proc/self/fd").iterdir()))
    fake.thread.look(0.0)
    fake.thread.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_loaders_take_turns_and_none_is_forgotten(tmp_path: Path) -> None:
    """A hundred loaders that run without end are looked at a few at a time, sleepers too."""
    looked: Counter[int] = Counter()

    class Still(Thread):
        def look(self, now: float) -> Look:
            looked[self.tid] += 1
            self.still = self.still + 1 if self.tid % 2 else 0
            return Look(moved=self.tid % 2 == 0, wait="run", run_ns=0, delay_ns=0, major_faults=0)

    reader = threads.Reader(Host(str(tmp_path)), lambda: 1000.0)
    rank = Rank("g", "0", None, cast("Any", None), (), (), None)
    for tid in range(1, 102):
        watched = Watched(Still(reader.host, tid, tid, Access()), is_main=True)
        watched.rank = rank
        watched.role = "main" if tid == 1 else "loader"
        reader._watched[tid, tid] = watched
    reader._sort(1000.0)
    for _ in range(5):
        before = sum(looked.values())
        reader.sample()
        assert sum(looked.values()) - before <= LOOKS + 1
    assert looked[1] == 5
    for _ in range(50):
        reader.sample()
    assert set(looked) == set(range(1, 102))
    assert min(looked.values()) >= 4


def crowd(root: Path, pid: int, threads: int) -> list[Watched]:
    """Threads of one process that nobody looked at yet."""
    every = []
    for tid in range(pid, pid + threads):
        watched = Watched(Thread(Host(str(root)), pid, tid, Access()), is_main=tid == pid)
        watched.role = "main" if tid == pid else "worker"
        every.append(watched)
    return every


def test_a_crowd_that_sleeps_is_looked_at_seldom_and_one_that_runs_often(tmp_path: Path) -> None:
    turns = Turns()
    every = crowd(tmp_path, 1000, 301) + crowd(tmp_path, 2000, 101)
    turns.sort(every, 1000.0, 5.0, lambda: {1000})
    looked = [w for _ in range(16) for w in turns.rest()]
    assert Counter(w.thread.pid for w in looked) == {1000: 16 * IN_SLEEP, 2000: 16 * IN_TURN}
    assert len(set(map(id, looked))) == len(looked)
    turns.sort(every[:50], 1000.0, 5.0, lambda: {1000})
    assert len(turns.rest()) == IN_TURN  # few are no crowd


def test_what_a_process_ran_and_nobody_saw(tmp_path: Path) -> None:
    stat = tmp_path / "proc/7/stat"
    stat.parent.mkdir(parents=True)

    def used(ticks: int) -> None:
        fields = "0 " * 9 + f"{ticks} 5" + " 0" * 30
        stat.write_text(f"7 (a) b) S 0 {fields}\n")

    used(100)
    unseen = Unseen(Host(str(tmp_path)), 7)
    assert unseen.is_much(10.0, 0)  # what was before is not known
    used(200)
    assert not unseen.is_much(20.0, 1_000_000_000)
    used(300)
    assert unseen.is_much(30.0, 1_700_000_000)
    assert not unseen.is_much(40.0, 1_700_000_000)
    stat.write_text("7 (a) S")
    assert unseen.is_much(50.0, 1_700_000_000)


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
    for tid in (7, 8):
        watched = Watched(Asleep(reader.host, 7, tid, Access()), is_main=tid == 7)
        watched.hot_until = hot_until if tid == 8 else 0.0
        reader._watched[7, tid] = watched
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
