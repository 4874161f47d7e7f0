"""What one look at a thread costs and tells, and whose turn it is, on fake nodes."""

import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from agent.kit import stat_text
from gpuwatch.agent.host import Host
from gpuwatch.agent.ranks import Rank
from gpuwatch.agent.sources import threads
from gpuwatch.agent.thread import STAT_EVERY, Access, Gone, Look, Thread
from gpuwatch.agent.turns import IN_SLEEP, IN_TURN, LOOKS, Turns
from gpuwatch.agent.watch import Unseen, Watch, Watched


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
        reader._watches[tid] = Watch(reader.host, tid, Access())
        reader._watches[tid].threads[tid] = watched
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


def test_threads_are_listed_again_when_their_number_changed() -> None:
    stop = [threading.Event() for _ in range(3)]
    running = [threading.Thread(target=event.wait) for event in stop]
    host, rank = Host(), Rank("g", "0", None, cast("Any", None), (), (), None)
    watch = Watch(host, os.getpid(), Access())

    def followed() -> bool:
        changed = watch.list(rank, "main")
        watch.follow(100)
        return changed

    running[0].start()
    try:
        assert followed()
        assert running[0].native_id in watch.threads
        assert not followed()
        running[1].start()
        assert followed()
        stop[0].set()
        running[0].join()
        running[2].start()  # as many as before: known once the one that ended was looked at
        watch.lose(running[0].native_id)
        assert followed()
        assert {running[1].native_id, running[2].native_id} <= set(watch.threads)
    finally:
        for event in stop:
            event.set()
        watch.close()


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
    turns.regroup()
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
