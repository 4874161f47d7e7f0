"""What the agent reads of this machine is what psutil reads of it.

psutil is asked before and after: what the agent reads of a counter lies between.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.context import SpawnProcess
from pathlib import Path

import psutil
import pytest

from agent.kit import named, read, reader
from gpuwatch.agent.host import Host, Options
from gpuwatch.agent.metric import Absent
from gpuwatch.agent.process import stat_of
from gpuwatch.agent.ranks import Census
from gpuwatch.agent.thread import Access, Thread

USER_HZ_MS = 10
"""psutil and the kernel round to clock ticks, each in its own way."""


def between(before: float, now: float, after: float, slack: float = 0) -> None:
    assert before - slack <= now <= after + slack


def test_cpu_times() -> None:
    before = psutil.cpu_times()
    cpu = named("cpu", read("cpu", Host()))["node"]
    after = psutil.cpu_times()
    # psutil takes guests' time out of `user` and `nice`, or not, by version: none runs here
    for name in ("user", "nice", "system", "idle", "irq", "softirq", "steal"):
        now = cpu[f"cpu_{name}_ms"]
        between(getattr(before, name) * 1000, now, getattr(after, name) * 1000, USER_HZ_MS * 2)
    iowait = sorted((before.iowait * 1000, after.iowait * 1000))  # may go back: proc_stat(5)
    between(iowait[0], cpu["cpu_iowait_ms"], iowait[1], 100)
    assert cpu["cpus"] == psutil.cpu_count()
    assert cpu["cpus_allowed"] == len(psutil.Process().cpu_affinity())


def test_memory() -> None:
    before = psutil.virtual_memory()
    node = named("memory", read("memory", Host()))["node"]
    swap = psutil.swap_memory()
    assert node["memory_total_bytes"] == before.total
    assert abs(node["memory_available_bytes"] - before.available) < before.total / 20
    assert node["swap_total_bytes"] == swap.total
    assert abs(node["swap_free_bytes"] - swap.free) <= swap.total / 20


def test_totals_of_network_ports() -> None:
    before = psutil.net_io_counters(pernic=True)
    try:
        ports = named("nic", read("nic", Host()))
    except Absent:
        assert set(before) <= {"lo"}, "only a machine without a port has none"
        return
    after = psutil.net_io_counters(pernic=True)
    for entity, now in ports.items():
        name = entity.removeprefix("nic ")
        for ours, theirs in (
            ("rx_bytes", "bytes_recv"), ("tx_bytes", "bytes_sent"), ("rx_packets", "packets_recv"),
            ("tx_packets", "packets_sent"), ("rx_errors", "errin"), ("tx_errors", "errout"),
        ):  # fmt: skip
            between(getattr(before[name], theirs), now[ours], getattr(after[name], theirs))
        speed, mtu = psutil.net_if_stats()[name].speed, psutil.net_if_stats()[name].mtu
        assert now["mtu_bytes"] == mtu
        assert now["speed_mbps"] in (speed or None, None)


def test_totals_of_disks() -> None:
    before = psutil.disk_io_counters(perdisk=True)
    disks = named("disk", read("disk", Host()))
    after = psutil.disk_io_counters(perdisk=True)
    assert disks
    for entity, now in disks.items():
        name = entity.removeprefix("disk ").rsplit(" ", 1)[0]
        for ours, theirs in (
            ("reads", "read_count"), ("writes", "write_count"), ("read_bytes", "read_bytes"),
            ("write_bytes", "write_bytes"), ("read_ms", "read_time"), ("write_ms", "write_time"),
            ("busy_ms", "busy_time"),
        ):  # fmt: skip
            between(getattr(before[name], theirs), now[ours], getattr(after[name], theirs))


def _sleep() -> None:
    signal.pause()


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _spin() -> None:
    while True:
        pass


@pytest.fixture
def processes() -> Iterator[dict[str, SpawnProcess]]:
    """Start a process for each state that can be had: sleeping, stopped, running, dead."""
    context = multiprocessing.get_context("spawn")
    started = {}
    for state, target in (("S", _sleep), ("T", _stop), ("R", _spin)):
        started[state] = context.Process(target=target, name=f"gpuwatch {state}")
        started[state].start()
    yield started
    for process in started.values():
        process.kill()
        process.join()


STATES = {
    "S": psutil.STATUS_SLEEPING, "T": psutil.STATUS_STOPPED, "R": psutil.STATUS_RUNNING,
    "D": psutil.STATUS_DISK_SLEEP, "Z": psutil.STATUS_ZOMBIE,
}  # fmt: skip


def settle(process: psutil.Process, status: str) -> None:
    """Wait until psutil sees it in this state."""
    deadline = time.monotonic() + 20
    while process.status() != status:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_states_and_times_of_processes(processes: dict[str, SpawnProcess]) -> None:
    for state, process in processes.items():
        pid = process.pid
        assert pid
        theirs = psutil.Process(pid)
        settle(theirs, STATES[state])
        stat = stat_of(Host().read(f"/proc/{pid}/stat"))
        assert stat
        assert (stat.state, stat.ppid, stat.threads) == (state, os.getpid(), theirs.num_threads())
        assert stat.comm.decode() == Path(f"/proc/{pid}/comm").read_text().strip()
        before = theirs.cpu_times()
        thread = Thread(Host(), pid, pid, Access())
        thread.look(time.monotonic())
        run_s = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
        thread.close()
        after = theirs.cpu_times()
        between(sum(before[:2]), run_s, sum(after[:2]), 0.1)


def test_age_and_environment_of_processes(processes: dict[str, SpawnProcess]) -> None:
    pid = processes["S"].pid
    host = Host(options=Options(match="multiprocessing.spawn"))
    census = Census(host)
    found = census.ranks()
    while census.unfinished:  # there are very many processes
        found = census.ranks()
    ranks = {rank.main.pid: rank.main for rank in found}
    theirs = psutil.Process(pid)
    assert pid in ranks
    age_s = time.time() - theirs.create_time()
    assert abs((time.monotonic() - ranks[pid].born_at) - age_s) < 1.5


def test_states_of_all_processes_that_stay_as_they_are() -> None:
    """Kernel threads and daemons: most states of a machine do not change within a millisecond."""
    alike = seen = 0
    for process in psutil.process_iter():
        try:
            before = process.status()
            stat = stat_of(Host().read(f"/proc/{process.pid}/stat"))
            same = before == process.status()
        except (psutil.NoSuchProcess, OSError):
            continue
        if same and stat and stat.state in STATES:
            seen += 1
            alike += STATES[stat.state] == before
    assert seen > 2
    assert alike >= seen * 0.95


def test_own_costs() -> None:
    source = reader("own", Host())
    own = psutil.Process()
    now = named("own", source.read())["node"]
    assert abs(now["agent_memory_bytes"] - own.memory_info().rss) < own.memory_info().rss / 2
    assert abs(now["agent_descriptors"] - own.num_fds()) <= 3
