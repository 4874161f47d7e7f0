"""Faults of what runs a program: competition for its CPU, a quota, a stopped or frozen process.

They find the job's processes by MATCH; a rank is a child of a launcher, in the order of ranks.
"""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.faults.look import LOOK_S, ToothlessError, named
from lab.node import HOME, PYTHON, Node, Process, inside
from lab.uml import Guest

MATCH = "lab.trainer"
LAUNCHER = "lab.launch"
RUN_DELAY = f"""
pids=$(pgrep -f {MATCH}) || exit 0
for pid in $pids; do cat /proc/$pid/task/*/schedstat 2>/dev/null; done
exit 0
"""
"""Each line: ns on a CPU, ns ready but without one, times (sched-stats of the kernel)."""
QUOTA = f"""
set -e
v2=/sys/fs/cgroup v1=/sys/fs/cgroup/cpu
if [ -e $v2/cgroup.controllers ]; then
    root=$v2; echo +cpu >$root/cgroup.subtree_control; mkdir -p $root/$1
    echo "$2 100000" >$root/$1/cpu.max
else
    root=$v1; mkdir -p $root/$1
    echo 100000 >$root/$1/cpu.cfs_period_us; echo $2 >$root/$1/cpu.cfs_quota_us
fi
for pid in $(pgrep -f {MATCH}); do echo $pid >$root/$1/cgroup.procs; done
"""
NO_QUOTA = """
for root in /sys/fs/cgroup /sys/fs/cgroup/cpu; do
    [ -d $root/$1 ] || continue
    for pid in $(cat $root/$1/cgroup.procs); do echo $pid >$root/cgroup.procs; done
    rmdir $root/$1
done
"""
CPU_STAT = "cat /sys/fs/cgroup/$1/cpu.stat /sys/fs/cgroup/cpu/$1/cpu.stat 2>/dev/null || true"
OTHERS = "for _ in $(seq $1); do (while :; do :; done) & done; wait"
STATE = "sed 's/.*) //' /proc/$(pgrep -P $(pgrep -of $1) | sed -n $2p)/stat"
SIGNAL = "kill -$3 $(pgrep -P $(pgrep -of $1) | sed -n $2p)"
GREETING = "import socket,sys; socket.create_connection((sys.argv[1], 22), 1).recv(4)"


@dataclass(frozen=True)
class Competition:
    """Other programs want the CPU of a guest."""

    on: str
    count: int = 4
    _others: list[Process] = field(default_factory=list, compare=False, repr=False)

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.count} other programs want the CPU of {self.on}"

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        words = ["sh", "-c", OTHERS, "sh", str(self.count)]
        self._others.append(named(nodes, self.on).start(words, {}, "others.log"))

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        for other in self._others:
            other.kill()
        self._others.clear()

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return how long the job's threads were ready and had no CPU."""
        node = named(nodes, self.on)
        before = _run_delay_s(node)
        time.sleep(LOOK_S)
        waited_s = _run_delay_s(node) - before
        told = f"the job's threads waited {waited_s:.1f} s for a CPU in {LOOK_S:.0f} s"
        if waited_s < LOOK_S / 10:
            raise ToothlessError(told)
        return told


@dataclass(frozen=True)
class Quota:
    """The job of a node may use only a part of one CPU (CFS bandwidth of its cgroup)."""

    on: str
    percent: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"the job on {self.on} may use {self.percent} % of one CPU"

    def _cgroup(self, nodes: Sequence[Node]) -> str:
        return f"{named(nodes, self.on).lab}-{self.on}"

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        words = ["sh", "-c", QUOTA, "sh", self._cgroup(nodes), str(self.percent * 1000)]
        named(nodes, self.on).run(words)

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        named(nodes, self.on).run(["sh", "-c", NO_QUOTA, "sh", self._cgroup(nodes)])

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return in how many periods the job was held."""
        before = self._throttled(nodes)
        time.sleep(LOOK_S)
        after = self._throttled(nodes)
        held, periods = after[0] - before[0], after[1] - before[1]
        told = f"held in {held} of {periods} periods of 100 ms"
        if not held:
            raise ToothlessError(told)
        return told

    def _throttled(self, nodes: Sequence[Node]) -> tuple[int, int]:
        said = named(nodes, self.on).run(["sh", "-c", CPU_STAT, "sh", self._cgroup(nodes)])
        if not said:
            raise ToothlessError("the job has no cgroup of its own")
        stat = dict(line.split() for line in said.splitlines())
        return int(stat["nr_throttled"]), int(stat["nr_periods"])


@dataclass(frozen=True)
class Stopped:
    """One rank of a node is stopped, as by a debugger or a signal gone astray."""

    on: str
    local_rank: int = 0

    @property
    def name(self) -> str:
        """What it is called."""
        return f"rank {self.local_rank} of {self.on} is stopped"

    def _words(self, script: str, *more: str) -> list[str]:
        return ["sh", "-c", script, "sh", LAUNCHER, str(self.local_rank + 1), *more]

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        named(nodes, self.on).run(self._words(SIGNAL, "STOP"))

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        named(nodes, self.on).run(self._words(SIGNAL, "CONT"))

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return the state of the rank."""
        state = named(nodes, self.on).run(self._words(STATE))[0]
        if state != "T":
            raise ToothlessError(f"state {state}")
        return f"state {state}"


@dataclass(frozen=True)
class Frozen:
    """A guest stands still as a whole, as a machine that hangs."""

    on: str

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.on} stands still"

    def _guest(self, nodes: Sequence[Node]) -> Guest:
        guest = named(nodes, self.on)
        assert isinstance(guest, Guest)
        return guest

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        self._guest(nodes).freeze()

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        self._guest(nodes).thaw()

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return that its sshd does not greet."""
        return _no_greeting(named(nodes, self.on))


@dataclass(frozen=True)
class NoSshd:
    """The sshd of a guest is gone, with every session; the job goes on."""

    on: str

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.on} has no sshd"

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        named(nodes, self.on).run(["pkill", "-KILL", "-x", "sshd"])

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        words = ["/usr/sbin/sshd", "-D", "-e", "-f", f"{HOME}/sshd_config"]
        named(nodes, self.on).start(words, {}, "sshd.log")

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return that nothing greets."""
        return _no_greeting(named(nodes, self.on))


@dataclass(frozen=True)
class ClockStep:
    """The wall clock of a guest jumps."""

    on: str
    seconds: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"the clock of {self.on} jumps by {self.seconds} s"

    def _step(self, nodes: Sequence[Node], seconds: int) -> None:
        shift = f"date -s @$(($(date +%s) + {seconds})).$(date +%N)"
        named(nodes, self.on).run(["sh", "-c", shift])

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        self._step(nodes, self.seconds)

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        self._step(nodes, -self.seconds)

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return how far its clock is from the host's."""
        off_s = float(named(nodes, self.on).run(["date", "+%s.%N"])) - time.time()
        if abs(off_s - self.seconds) > max(5, abs(self.seconds) / 2):
            raise ToothlessError(f"{off_s:.1f} s off")
        return f"{off_s:.1f} s off"


def _run_delay_s(node: Node) -> float:
    lines = node.run(["sh", "-c", RUN_DELAY]).splitlines()
    return sum(int(line.split()[1]) for line in lines) / 1e9


def _no_greeting(node: Node) -> str:
    words = inside(node.lab, PYTHON, "-Sc", GREETING, node.address)
    if subprocess.run(words, check=False, capture_output=True).returncode == 0:
        raise ToothlessError(f"{node.name} greets")
    return "no greeting from port 22 within 1 s"
