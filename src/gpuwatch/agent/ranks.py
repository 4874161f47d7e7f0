"""The job's ranks on this node: which processes they are, what serves them, what they are called.

A rank is one process with a GPU (or with RANK or LOCAL_RANK in its environment) and its tree. What
identifies the job is, in this order: `match`; processes with a GPU context; processes with RANK or
LOCAL_RANK that have an NVIDIA device open. Environments and command lines are looked at here and go
no further than agent/allow.py lets them.
"""

import re
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Pattern, Set, Tuple

from gpuwatch.agent import allow, nccl
from gpuwatch.agent.host import Host
from gpuwatch.agent.process import NUMBER, TICKS_A_SECOND, Process, stat_of, uptime_s

MAX_NEW = 1500
"""Processes looked at for the first time in one scan; the rest wait for the next."""
MAX_RANKS = 64
ROUNDS = 12
"""A known process is looked at again in every so many scans: its pid may have been reused."""
YOUNG_S = 30.0
"""Until this age each scan looks again: a launcher forks first and becomes the rank by exec."""
MAX_ENVIRON = 1 << 18
MAX_COMMAND = 1 << 13
"""Bytes of a command line that are looked at, and kept: a node may run thousands of processes, and
`match` may take a time that grows with the square of this."""
MAX_DEVICES = 256
"""Descriptors of one process that are looked through for a GPU."""
LAUNCHER = re.compile(
    r"^(ba|da|z|k|fi|c|tc)?sh\b|(^|\s)(torchrun|accelerate|deepspeed|srun|mpirun|mpiexec|orterun|sudo|env"
    r"|timeout|nohup|tmux|screen|ssh|sshd|vim?|nano|less|tail|gpuwatch)$|torch\.distributed\.(run|launch)"
)
LOADER = re.compile(rb"^(pt_|python|pypy)")
CHECKPOINT = re.compile(rb"ckpt|checkpoint", re.IGNORECASE)
SERVANT = re.compile(
    rb"resource_tracker|semaphore_tracker|multiprocessing\.forkserver|compile_worker"
)
"""Python children that load nothing: trackers, fork servers, compilers."""


class Rank(NamedTuple):
    """One rank: its names, its main process, and the processes that serve it by role."""

    group: str
    rank: str
    gpu: Optional[int]
    main: Process
    loaders: Tuple[Process, ...]
    checkpoints: Tuple[Process, ...]
    world_size: Optional[int]


class Census(object):
    """Keeps the list of processes, and finds the ranks among them.

    Args:
        host: its options name the match, its board the GPUs' processes.
        clock: seconds, monotonic.

    Attributes:
        unfinished: the last scan left new processes for the next.
    """

    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self.unfinished = False
        self._host = host
        self._clock = clock
        self._processes: Dict[int, Process] = {}
        self._children: Dict[int, List[Process]] = {}
        self._tracked: Set[int] = set()
        self._kernel: Set[int] = {2}
        self._round = 0
        self._booted_at = 0.0
        self._match = _pattern(host.options.match)
        self._nccl = nccl.Told(host)

    def look(self) -> bool:
        """Scan, and tell whether a process came or went that may make the ranks others."""
        before = set(self._tracked)
        fresh = self._scan()
        if not before <= set(self._processes):
            return True
        return any(process.ppid in before or self._concerns(process) for process in fresh)

    def _concerns(self, process: Process) -> bool:
        if self._match is not None:
            return bool(self._match.search(self._command(process)))
        self._environ(process)
        return any(process.identity) or process.pid in self._host.board.gpu_pids

    def ranks(self) -> List[Rank]:
        """Scan, and return the ranks in order of their pids."""
        self._scan()
        mains = self._mains(self._job())
        pids = {main.pid for main in mains}
        mains.sort(key=lambda process: process.pid)
        self._tracked = set()
        ranks = []
        for main in mains[:MAX_RANKS]:
            tree = self._tree(main, pids)
            self._tracked.update([main.pid], (process.pid for process in tree))
            ranks.append(self._rank(main, tree))
        environs = [(main.pid, self._environ(main)) for main in mains[:MAX_RANKS]]
        self._host.board.nccl = self._nccl.of(environs)
        return ranks

    def _scan(self) -> List[Process]:
        """Bring the list of processes up to date; return those that are new, or new programs."""
        now = self._clock()
        self._booted_at = now - uptime_s(self._host)
        present = {int(name) for name in self._host.listdir("/proc") if name.isdigit()}
        for pid in set(self._processes) - present:
            del self._processes[pid]
        self._kernel &= present | {2}
        self._round = (self._round + 1) % ROUNDS
        seen_first = 0
        fresh = []
        for pid in sorted(present - self._kernel):
            known = self._processes.get(pid)
            if known is None:
                seen_first += 1
                if seen_first > MAX_NEW:
                    continue
            elif pid % ROUNDS != self._round and now - known.born_at > YOUNG_S:
                continue
            self._look(pid, known, now)
            process = self._processes.get(pid)
            if process and (
                known is None or known.start != process.start or known.comm != process.comm
            ):
                fresh.append(process)
        self.unfinished = seen_first > MAX_NEW
        self._children = {}
        for process in self._processes.values():
            self._children.setdefault(process.ppid, []).append(process)
        return fresh

    def _look(self, pid: int, known: Optional[Process], now: float) -> None:
        try:
            stat = stat_of(self._host.read("/proc/%d/stat" % pid, 1024))
        except OSError:
            stat = None
        if stat is None:
            self._processes.pop(pid, None)
        elif stat.ppid == 2:
            self._kernel.add(pid)
        elif known is None or now - known.born_at <= YOUNG_S or not known.is_still(stat):
            same = known is not None and known.start == stat.start
            born_at = min(now, self._booted_at + stat.start / TICKS_A_SECOND)
            process = Process(pid, stat, known.born_at if known and same else born_at)
            if known and same and now - known.born_at > YOUNG_S:
                process.environ, process.command = known.environ, known.command
            self._processes[pid] = process

    def _environ(self, process: Process) -> Dict[str, str]:
        """Return what is allowed of a process's environment, {} where it may not be read."""
        if process.environ is None:
            try:
                raw = self._host.read("/proc/%d/environ" % process.pid, MAX_ENVIRON)
                process.environ = allow.environ(raw)
            except OSError:
                process.environ = {}
        return process.environ

    def _command(self, process: Process) -> bytes:
        if process.command is None:
            try:
                path = "/proc/%d/cmdline" % process.pid
                process.command = self._host.read(path, MAX_COMMAND).replace(b"\0", b" ")
            except OSError:
                process.command = b""
        return process.command

    def _program(self, process: Process) -> str:
        try:
            return allow.program(self._host.read("/proc/%d/cmdline" % process.pid, MAX_COMMAND))
        except OSError:
            return ""

    def _job(self) -> List[Process]:
        """Return the processes that are the job's, loaders and launchers among them."""
        board = self._host.board
        ours = [p for p in self._processes.values() if p.pid not in board.own_pids]
        if self._match is not None:
            found = {p.pid: p for p in ours if self._match.search(self._command(p))}
            for process in list(found.values()):
                found.update((p.pid, p) for p in self._tree(process, board.own_pids))
            for process in found.values():
                self._environ(process)
            return list(found.values())
        holders = [p for p in ours if p.pid in board.gpu_pids and self._may_watch(p)]
        if holders:
            return holders
        for process in ours:
            self._environ(process)
        return [p for p in ours if any(p.identity) and self._has_device(p)]

    def _may_watch(self, process: Process) -> bool:
        """Tell whether a process is this user's: a stranger's environment cannot be read."""
        self._environ(process)
        try:
            self._host.listdir("/proc/%d/fd" % process.pid)
        except OSError:
            return False
        return True

    def _has_device(self, process: Process) -> bool:
        folder = "/proc/%d/fd" % process.pid
        try:
            for name in self._host.listdir(folder)[:MAX_DEVICES]:
                if self._host.readlink(folder + "/" + name).startswith("/dev/nvidia"):
                    return True
        except OSError:
            pass
        return False

    def _mains(self, job: List[Process]) -> List[Process]:
        """Return the ranks' own processes: neither what serves them nor what launched them."""
        holding = self._host.board.gpu_pids
        strong = [p for p in job if any(p.identity) or p.pid in holding]
        chosen = strong or [p for p in job if not LAUNCHER.search(self._program(p))]
        mains = {p.pid: p for p in map(self._top, chosen)}
        for process in list(mains.values()):
            for above in self._ancestors(process):
                if above.pid not in mains:
                    continue
                if any(process.identity) and process.identity != above.identity:
                    if above.pid not in holding:
                        del mains[above.pid]  # it launched this one
                else:
                    mains.pop(process.pid, None)
        return list(mains.values())

    def _top(self, process: Process) -> Process:
        """Climb to the process from which this one has its rank."""
        for above in self._ancestors(process):
            self._environ(above)
            if not any(process.identity) or above.identity != process.identity:
                break
            process = above
        return process

    def _ancestors(self, process: Process) -> List[Process]:
        found: List[Process] = []
        above = self._processes.get(process.ppid)
        while above is not None and len(found) < 64:
            found.append(above)
            above = self._processes.get(above.ppid)
        return found

    def _tree(self, top: Process, others: Set[int]) -> List[Process]:
        """Return all below a process, but for these others and what is below them.

        Each once: of processes read one after the other, one may seem to be its own ancestor, when the
        pid of a parent that ended was given to what its child started.
        """
        found: List[Process] = []
        seen = others | {top.pid}
        open_ = [top]
        while open_:
            below = [p for p in self._children.get(open_.pop().pid, ()) if p.pid not in seen]
            seen.update(p.pid for p in below)
            found.extend(below)
            open_.extend(below)
        return found

    def _rank(self, main: Process, tree: List[Process]) -> Rank:
        environ = self._environ(main)
        rank, local = main.identity
        size = environ.get("WORLD_SIZE", "")
        loaders, checkpoints = [], []
        for process in tree:
            command = self._command(process)
            if CHECKPOINT.search(process.comm) or CHECKPOINT.search(_script(command)):
                checkpoints.append(process)
            elif (LOADER.match(process.comm) and not SERVANT.search(command)) or (
                process.comm == main.comm and not SERVANT.search(command)
            ):
                loaders.append(process)
        return Rank(
            group=self._group(main, environ),
            rank=rank or (local and "local:" + local) or "pid:%d" % main.pid,
            gpu=self._gpu([main] + tree, environ, local),
            main=main,
            loaders=tuple(loaders),
            checkpoints=tuple(checkpoints),
            world_size=int(size) if NUMBER.match(size) else None,
        )

    def _group(self, main: Process, environ: Dict[str, str]) -> str:
        if environ.get("SLURM_JOB_ID"):
            return "slurm:" + environ["SLURM_JOB_ID"]
        if environ.get("MASTER_ADDR"):
            return "rdzv:%s:%s" % (environ["MASTER_ADDR"], environ.get("MASTER_PORT", ""))
        if self._host.options.match:
            return "match:" + self._host.options.match
        leader = self._processes.get(main.session)
        return "session:%d" % main.session + ("-%d" % leader.start if leader else "")

    def _gpu(self, tree: List[Process], environ: Dict[str, str], local: str) -> Optional[int]:
        """Return the rank's GPU: what NVML says, else what its environment means."""
        board = self._host.board
        for process in tree:
            if process.pid in board.gpu_pids:
                return min(board.gpu_pids[process.pid])
        visible = environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        if visible == [""]:
            word = local
        elif len(visible) == 1:
            word = visible[0].strip()  # each rank sees its own alone
        else:
            word = visible[int(local)].strip() if local and int(local) < len(visible) else ""
        if not NUMBER.match(word) or (board.gpu_util and int(word) not in board.gpu_util):
            return None
        return int(word)


def _pattern(match: Optional[str]) -> Optional[Pattern[bytes]]:
    """Compile `match`; what is no regular expression of bytes here is looked for as it stands."""
    if not match:
        return None
    try:
        return re.compile(match.encode("utf-8", "replace"))
    except (re.error, ValueError, OverflowError, RecursionError):
        return re.compile(re.escape(match.encode("utf-8", "replace")))


def _script(command: bytes) -> bytes:
    """Return the program and its first argument, where a script's name stands."""
    return b" ".join(command.split(None, 2)[:2])
