"""The job's ranks, and what their threads wait in (5 Hz).

Looked at in each sample: the main thread of each rank; in turn: those of loaders and checkpoint
processes, and threads that lately used a CPU; of all others a few, which also finds those that begin
to use one (turns.py). Who the ranks are is asked anew when processes were started (/proc/stat says
so), when a rank ended, when NVML names other processes, and now and then.
"""

import time
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Set, Tuple

from gpuwatch.agent.host import Host, Member
from gpuwatch.agent.lines import after
from gpuwatch.agent.metric import (
    COUNTER,
    GAUGE,
    LABEL,
    Label,
    Labels,
    Metric,
    Reading,
    Value,
    Values,
)
from gpuwatch.agent.process import Process
from gpuwatch.agent.ranks import CHECKPOINT, Census, Rank
from gpuwatch.agent.tally import Tally
from gpuwatch.agent.thread import Access, Gone, is_strange, owner
from gpuwatch.agent.turns import KEPT_REST, LOOKS, ROLES, Turns
from gpuwatch.agent.waits import STORAGE
from gpuwatch.agent.watch import HOT_SHARE, Watch, Watched

ROWS = (
    Metric("group", "thread_group", LABEL, "str", "", "group", "Ranks of one job: `slurm:ID`, `rdzv:ADDRESS:PORT`, `match:PATTERN` or `session:ID-START`."),
    Metric("rank", "thread_group", LABEL, "str", "", "rank", "Global rank, else `local:N`, else `pid:N`."),
    Metric("role", "thread_group", LABEL, "str", "", "role", "`main`, `loader`, `checkpoint` or `worker` (other threads of the rank)."),
    Metric("pid", "thread_group", LABEL, "int", "", "pid", "Process of the rank's main thread."),
    Metric("gpu", "thread_group", LABEL, "int", "", "gpu", "The rank's GPU; null when it could not be told."),
    Metric("threads", "thread_group", GAUGE, "int", "1", "threads", "Threads of this role."),
    Metric("sampled_threads", "thread_group", GAUGE, "int", "1", "sampled", "Threads that are sampled now."),
    Metric("samples", "thread_group", COUNTER, "int", "1", "samples", "Thread samples that count."),
    Metric("run_ns", "thread_group", COUNTER, "int", "ns", "schedstat 0", "CPU time of the sampled threads."),
    Metric("delay_ns", "thread_group", COUNTER, "int", "ns", "schedstat 1", "Time that sampled threads could run and waited for a CPU."),
    Metric("major_faults", "thread_group", COUNTER, "int", "1", "stat majflt", "Page faults that had to read from storage."),
    Metric("storage_read_bytes", "thread_group", COUNTER, "int", "B", "io read_bytes", "Bytes that the role's processes made the storage read."),
    Metric("storage_write_bytes", "thread_group", COUNTER, "int", "B", "io write_bytes", "Bytes that the role's processes made the storage write."),
    Metric("world_size", "thread_group", GAUGE, "int", "1", "WORLD_SIZE", "Ranks of the whole job, as its environment says."),
    Metric("age_s", "thread_group", GAUGE, "int", "s", "stat starttime", "Age of the rank's main process."),
    Metric("group", "thread_wait", LABEL, "str", "", "group", "Ranks of one job: `slurm:ID`, `rdzv:ADDRESS:PORT`, `match:PATTERN` or `session:ID-START`."),
    Metric("rank", "thread_wait", LABEL, "str", "", "rank", "Global rank, else `local:N`, else `pid:N`."),
    Metric("role", "thread_wait", LABEL, "str", "", "role", "As in thread_group."),
    Metric("wait", "thread_wait", LABEL, "str", "", "wait", "Family of what threads were blocked on: see waits.py."),
    Metric("while_gpu", "thread_wait", LABEL, "str", "", "gpu state", "`idle`, `busy` or `unknown`: the rank's GPU at that moment."),
    Metric("wait_samples", "thread_wait", COUNTER, "int", "1", "samples", "Samples in which a thread was found so; of helpers that sleep none."),
)  # fmt: skip

States = Mapping[Optional[int], str]
"""GPU to `idle` or `busy`."""
BUSY_PCT = 50
"""Utilisation from which the rank's GPU counts as busy."""
COOL_S = 10.0
"""How long a thread stays hot after it last used that much of a CPU."""
STILL = 5
"""A thread that slept through so many looks is looked at when it had its turn so many times."""
TELLING = ("run", "ready", "memory") + STORAGE
"""What counts of a thread that is not its process's first and idle: helpers asleep are no loaders at rest."""
SORT_EVERY = 5
"""Ticks between two choices of the threads to look at, when nothing calls for one."""
LOOK_EVERY = 5
"""Ticks between two looks at /proc/stat for new processes."""
SCAN_S = 30.0
AGAIN_S = 2.0
"""Between two scans for what threads and processes of the ranks themselves do."""
MAX_THREADS = 8192


class Reader(object):
    """Reads them.

    Args:
        host: its board tells GPU utilisation and processes.
        clock: seconds, monotonic.
    """

    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self.host = host
        self._clock = clock
        self._census = Census(host, clock)
        self._stat = host.keep("/proc/stat")
        self._access = Access()
        self._ranks: List[Rank] = []
        self._watches: Dict[int, Watch] = {}
        self._turns = Turns()
        self._tally = Tally()
        self._tick = 0
        self._scanned_at: Optional[float] = None
        self._forks = b""
        self._holders: Set[int] = set()
        self._io_hidden = self._again = False
        self._unsorted = True
        self._samples = 0

    def sample(self) -> None:
        """Look at the threads whose turn it is."""
        now = self._clock()
        self._samples += 1
        states = self._gpu_states()
        for watched in self._turns.mains:
            self._visit(watched, now, states)
        hot = self._turns.hot
        looks = turns = 0
        while looks < LOOKS and turns < len(hot.all):
            turns += 1
            looks += self._visit(hot.next(), now, states)
        for watched in self._turns.rest():
            self._look(watched, now, states)
            if self._turns.is_crowd:
                watched.thread.close()

    def read(self) -> Reading:
        """Return the counters of all ranks, and look for new ranks when it is time."""
        now = self._clock()
        if self._due(now):
            self._scan(now)
        if self._unsorted or self._tick % SORT_EVERY == 0:
            self._sort(now)
        self._tick += 1
        if not self._ranks:
            return Reading([], {"threads": self._nobody()})
        rows: List[Tuple[str, Labels, Values]] = []
        for rank in self._ranks:
            rows.extend(self._group_rows(rank))
        live: Set[Tuple[Label, Label]] = {(rank.group, rank.rank) for rank in self._ranks}
        rows.extend(self._tally.wait_rows(live))
        return Reading(rows, self._missing())

    def close(self) -> None:
        """Give all descriptors back."""
        for watch in self._watches.values():
            watch.close()

    def _visit(self, watched: Watched, now: float, states: States) -> bool:
        """Look at a thread whose turn it is, but not each time at one that sleeps; tell whether."""
        if watched.thread.still >= STILL and len(watched.skipped) + 1 < STILL:
            watched.skipped.append(states)
            return False
        self._look(watched, now, states)
        return True

    def _look(self, watched: Watched, now: float, states: States) -> None:
        thread = watched.thread
        close = now - thread.looked_at <= self._turns.close_s
        try:
            look = thread.look(now)
        except Gone:
            self._lose(watched)
            return
        if watched.role == "worker" and CHECKPOINT.search(thread.comm):
            self._assign(watched, watched.rank, "checkpoint")
        rank, totals = watched.rank, watched.totals
        if rank is None:
            return
        if close:
            totals.run_ns += look.run_ns
            totals.delay_ns += look.delay_ns
        totals.major_faults += look.major_faults
        if thread.share is not None and thread.share >= HOT_SHARE:
            self._unsorted = self._unsorted or watched.hot_until <= now
            watched.hot_until = now + COOL_S
            self._turns.warm(watched)
        samples = [states] if look.moved else [states] + watched.skipped
        watched.skipped = []
        if look.wait not in TELLING and not watched.is_main and watched.hot_until <= now:
            return
        totals.samples += len(samples)
        gpu_states = [each.get(rank.gpu, "unknown") for each in samples]
        for state in set(gpu_states):
            labels = rank.group, rank.rank, watched.role, look.wait, state
            self._tally.wait(labels, gpu_states.count(state))

    def _gpu_states(self) -> States:
        """Return the state of each GPU whose utilisation is known."""
        utils = self.host.board.gpu_util.items()
        return {
            gpu: "busy" if util >= BUSY_PCT else "idle" for gpu, util in utils if util is not None
        }

    def _lose(self, watched: Watched) -> None:
        """Forget a thread that ended; with a main thread its rank or loader ended."""
        if watched.is_main and watched.role == "main":
            self._ranks = [rank for rank in self._ranks if rank is not watched.rank]
        self._turns.regroup()
        watched.rank = None
        watch = self._watches.get(watched.thread.pid)
        if watch is not None:
            watch.lose(watched.thread.tid)
        if watched.is_main:
            self._again = True
            board = self.host.board
            board.job = tuple(m for m in board.job if m.pid != watched.thread.pid)
        self._unsorted = True

    def _due(self, now: float) -> bool:
        """Tell whether the ranks may be others than before."""
        holders = set(self.host.board.gpu_pids)
        changed, self._holders = holders != self._holders, holders
        forked = False
        if self._tick % LOOK_EVERY == 0:
            forks = self._count_forks()
            forked, self._forks = forks != self._forks, forks
        if self._scanned_at is None or changed:
            return True
        age_s = now - self._scanned_at
        again = (self._again or self._census.unfinished) and age_s >= AGAIN_S
        return again or age_s >= SCAN_S or (forked and self._census.look())

    def _count_forks(self) -> bytes:
        try:
            return after(self._stat.read(), b"processes ") or b""
        except OSError:
            return b""

    def _scan(self, now: float) -> None:
        self._scanned_at = now
        self._again = False
        self._unsorted = True
        before = {rank: rank for rank in self._ranks}
        self._ranks = [before.get(rank, rank) for rank in self._census.ranks()]
        job: List[Member] = []
        for rank in self._ranks:
            for role, processes in _by_role(rank):
                for process in processes:
                    job.append(Member(process.pid, rank.group, rank.rank, role, rank.gpu))
                    self._follow(rank, role, process.pid)
        if self.host.board.job != tuple(job):
            self.host.board.job = tuple(job)
        for pid in set(self._watches) - {member.pid for member in job}:
            self._watches.pop(pid).close()
            self._turns.regroup()

    def _follow(self, rank: Rank, role: str, pid: int) -> None:
        """Put all threads of a process under watch."""
        watch = self._watches.get(pid)
        if watch is None:
            watch = self._watches[pid] = Watch(self.host, pid, self._access)
        if not watch.list(rank, role):
            return
        watch.follow(MAX_THREADS - self._count())
        self._turns.regroup()
        for watched in watch.threads.values():
            own = "worker" if role == "main" and not watched.is_main else role
            checkpoint = own == "worker" and CHECKPOINT.search(watched.thread.comm)
            self._assign(watched, rank, "checkpoint" if checkpoint else own)

    def _count(self) -> int:
        return sum(len(watch.threads) for watch in self._watches.values())

    def _threads(self) -> Iterator[Watched]:
        for watch in self._watches.values():
            yield from watch.threads.values()

    def _assign(self, watched: Watched, rank: Optional[Rank], role: str) -> None:
        self._turns.regroup()
        watched.rank = rank
        watched.role = role
        if rank is not None:
            watched.totals = self._tally.totals(_labels(rank, role))

    def _sort(self, now: float) -> None:
        """Choose whose turn it is from now on."""
        self._unsorted = False
        rate_hz = self.host.board.thread_rate_hz
        self._turns.sort(self._threads(), now, rate_hz, lambda: self._asleep(now))
        self._again = self._again or any(watch.has_changed for watch in self._watches.values())

    def _asleep(self, now: float) -> Set[int]:
        """Return the ranks' processes that did no more than what was seen of them."""
        asleep = set()
        for rank in self._ranks:
            watch = self._watches.get(rank.main.pid)
            seen = [self._tally.totals(_labels(rank, role)) for role in ("main", "worker")]
            if watch and not watch.unseen.is_much(now, sum(totals.run_ns for totals in seen)):
                asleep.add(watch.pid)
        return asleep

    def _group_rows(self, rank: Rank) -> List[Tuple[str, Labels, Values]]:
        rows: List[Tuple[str, Labels, Values]] = []
        processes = dict(_by_role(rank))
        age_s = max(0, int(self._clock() - rank.main.born_at))
        for role in ROLES:
            threads, sampled = self._turns.count(rank, role)
            if not threads:
                continue
            labels = _labels(rank, role)
            totals = self._tally.totals(labels)
            read: Value = None
            written: Value = None
            moved = self._moved(processes.get(role, ()))
            if moved is not None:
                totals.read_bytes += moved[0]
                totals.write_bytes += moved[1]
                read, written = totals.read_bytes, totals.write_bytes
            values: Values = (
                threads, sampled, totals.samples, totals.run_ns, totals.delay_ns,
                totals.major_faults, read, written, rank.world_size, age_s,
            )  # fmt: skip
            rows.append(("thread_group", labels, values))
        return rows

    def _moved(self, processes: Tuple[Process, ...]) -> Optional[Tuple[int, int]]:
        """Sum what these processes moved; None where there are none, or one hides it."""
        read = written = 0
        for process in processes:
            watch = self._watches.get(process.pid)
            main = watch.main if watch else None
            if watch is None or main is None or main.thread.still >= STILL:
                continue  # a process that sleeps moves nothing
            if main.thread.threads > KEPT_REST and (self._tick + process.pid) % 2:
                continue  # the kernel sums up all its threads
            moved = watch.io.moved()
            if moved is None:
                self._io_hidden = True
                return None
            read += moved[0]
            written += moved[1]
        return (read, written) if processes else None

    def _nobody(self) -> str:
        """Say that no rank is here, and how ranks were looked for."""
        if self.host.options.match:
            return "no process of the job: none matches %s" % self.host.options.match
        return "no process of the job: none holds a GPU, none has RANK and a GPU device open"

    def _missing(self) -> Dict[str, str]:
        missing: Dict[str, str] = {}
        access = self._access
        access.strange &= set(self._watches)
        refused = access.refused - access.strange
        access.strange.update(pid for pid in refused if is_strange(self.host, pid))
        access.refused.clear()
        if access.strange:
            missing["threads.wchan"] = "not permitted (uid %s)" % owner(
                self.host, min(access.strange)
            )
        if self._io_hidden:
            missing["threads.io"] = "not permitted"
        self._io_hidden = False
        if self._count() >= MAX_THREADS:
            missing["threads.threads"] = "more than %d" % MAX_THREADS
        return missing


def _by_role(rank: Rank) -> Tuple[Tuple[str, Tuple[Process, ...]], ...]:
    return ("main", (rank.main,)), ("loader", rank.loaders), ("checkpoint", rank.checkpoints)


def _labels(rank: Rank, role: str) -> Labels:
    return rank.group, rank.rank, role, rank.main.pid, rank.gpu
