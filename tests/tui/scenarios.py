"""Jobs for the screen's tests: healthy, a slow mount with waiting peers, a node that is not reached."""

from dataclasses import dataclass

import msgspec

from gpuwatch.model.event import AnyEvent, Link
from gpuwatch.model.verdict import (
    Candidate,
    Culprit,
    Finding,
    JobVerdict,
    Missing,
    Recurring,
    Verdict,
)
from gpuwatch.model.view import View
from gpuwatch.verdict.judge import Judge
from tui.scripted import (
    COMPUTING,
    SPINNING,
    START_US,
    STARVED,
    UNSTAMPED,
    Load,
    Machine,
    Told,
    play,
    replace,
    second,
    verdict_of,
)

ONSET = 8
"""Second at which a fault begins."""


@dataclass(frozen=True)
class Scenario:
    """A job: machines, a judge, seconds of events."""

    title: str
    machines: tuple[Machine, ...]
    judge: Told | Judge
    seconds: int = 44

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(m.name for m in self.machines)

    def events(self) -> list[AnyEvent]:
        return play(self.machines, self.seconds)


def _slow(load: Load, **power: float) -> Load:
    return replace(load, gpu={**load.gpu, **power})


SPIN = _slow(Load(), power_w=183, util_pct=100, memory_util_pct=2)
SPIN = replace(
    SPIN,
    nic={**SPIN.nic, "rx_bytes": 2e4, "tx_bytes": 2e4},
    disk={**SPIN.disk, "reads": 0, "read_bytes": 0, "read_ms": 0, "busy_ms": 0},
    waits={("main", "run"): 5.0, ("loader", "futex"): 20.0},
)
READING = _slow(Load(), power_w=134, util_pct=11, memory_util_pct=1)
READING = replace(
    READING,
    nic={**READING.nic, "rx_bytes": 3.9e7, "tx_bytes": 2e6},
    disk={**READING.disk, "reads": 120, "read_bytes": 31e6, "read_ms": 10_080, "busy_ms": 990},
    node={**READING.node, "cpu_iowait_ms": 260},
    kworker={"rpciod": 21},
    waits={
        ("main", "futex"): 4.5,
        ("main", "run"): 0.5,
        ("loader", "block-read"): 17.0,
        ("loader", "run"): 3.0,
    },
)


def computing(
    nodes: tuple[str, ...], now_us: int, gpus: int, since_us: int = START_US
) -> JobVerdict:
    """Return the verdict of a job that is well."""
    like = Verdict(
        scope="job", state="COMPUTE", episode_us=since_us, suspected_us=since_us,
        confirmed_us=since_us + 30_000_000 if now_us >= since_us + 30_000_000 else None,
        confidence=0.93, shares=COMPUTING, text="all nodes compute",
        support=(Finding("gpu.compute", 94.0, "%", 80.0, "GPUs compute 94 %, over 80 %"),),
    )  # fmt: skip
    own, ranks = zip(*(verdict_of(n, gpus, like) for n in nodes), strict=True)
    return JobVerdict(job=like, nodes=own, ranks=tuple(r for rs in ranks for r in rs), slowdown=1.0)


def starving(nodes: tuple[str, ...], culprit: str, now_us: int, gpus: int) -> JobVerdict:
    """Return the verdict of a job in which one node reads slowly and the others wait for it."""
    onset = START_US + ONSET * 1_000_000
    suspected, confirmed = onset + 5_000_000, onset + 30_000_000
    blamed = (Culprit("node", culprit, (culprit,)),)
    peers = tuple(n for n in nodes if n != culprit)
    slow = Verdict(
        scope="job", state="STORAGE", cause="read", culprits=blamed, waiting=peers, episode_us=onset,
        suspected_us=suspected if now_us >= suspected else None,
        confirmed_us=confirmed if now_us >= confirmed else None,
        confidence=0.91, shares=STARVED,
        text=f"{culprit} waits for reads: loaders stand in disk reads 85 % of the time, 84 ms a read",
        support=(
            Finding("thread_wait.block-read", 85.0, "%", 30.0, "loaders blocked in disk reads while their GPU was idle 85 %, over 30 %"),
            Finding("gpu.starved", 86.0, "%", 30.0, "GPUs starved 86 %, over 30 %"),
            Finding("disk.await", 84.0, "ms", 20.0, "a read on nvme0n1 takes 84 ms, over 20 ms"),
        ),
        against=(Finding("disk.queue", 1.2, "1", 4.0, "few reads in flight: the loaders may be too few"),),
        missing=(Missing("gpm", "pre-Hopper GPU"), Missing("pressure", "kernel built without PSI")),
        candidates=(Candidate("CPU", "data-prep", 0.22),),
    )  # fmt: skip
    peer = Verdict(
        scope="node", state="PEER", culprits=blamed, episode_us=onset, suspected_us=slow.suspected_us,
        confirmed_us=slow.confirmed_us, confidence=0.88, shares=SPINNING, text=f"spins in a collective for {culprit}",
    )  # fmt: skip
    own: list[Verdict] = []
    ranks: list[Verdict] = []
    for name in nodes:
        node, its = verdict_of(name, gpus, slow if name == culprit else peer)
        own.append(msgspec.structs.replace(node, waiting=()))
        ranks += its
    job = msgspec.structs.replace(
        slow, shares=msgspec.structs.replace(SPINNING, compute=0.07, spin=0.9)
    )
    again = Recurring("node", nodes[0], "STORAGE", "checkpoint", 11, 9.1, 302.0, 0.03)
    return JobVerdict(
        job=job, nodes=tuple(own), ranks=tuple(ranks), recurring=(again,), slowdown=2.9
    )


def healthy(nodes: int = 2, gpus: int = 8) -> Scenario:
    names = tuple(f"gpu{i + 1:02d}" for i in range(nodes))
    machines = tuple(Machine(n, gpus) for n in names)
    return Scenario("llama-70b-sft", machines, Told(lambda v: computing(names, v.now_us, gpus)))


def storage(nodes: int = 4, gpus: int = 8) -> Scenario:
    names = tuple(f"gpu{i + 1:02d}" for i in range(nodes))
    culprit = names[2 if nodes > 2 else 1]

    def machine(name: str) -> Machine:
        fault = READING if name == culprit else SPIN
        return Machine(name, gpus, lambda s: fault if s >= ONSET else Load())

    def script(view: View) -> JobVerdict:
        if second(view) < ONSET + 4:
            return computing(names, view.now_us, gpus)
        return starving(names, culprit, view.now_us, gpus)

    return Scenario("llama-70b-sft", tuple(machine(n) for n in names), Told(script))


def unreachable() -> Scenario:
    """Four nodes: one well, one refuses the login, one has no python3, one no GPU library."""
    refused = Link(
        node="gpu02", state="refused", step="login", reason="Permission denied for user ann (publickey)",
        hint="add your key to gpu02: ssh-copy-id ann@gpu02", **UNSTAMPED,
    )  # fmt: skip
    bare = Link(
        node="gpu03", state="refused", step="python", reason="no Python 3.6 or newer found in 4 places",
        hint="name one in job.yaml: python: /path/to/python3", **UNSTAMPED,
    )  # fmt: skip
    machines = (
        Machine("gpu01", 4),
        Machine("gpu02", 4, link=refused),
        Machine("gpu03", 4, link=bare),
        Machine(
            "gpu04", 0, absent=(("nvml", "no libnvidia-ml.so.1"), ("pressure", "no /proc/pressure"))
        ),
    )

    def script(view: View) -> JobVerdict:
        good = computing(("gpu01",), view.now_us, 4)
        unknown = Verdict(scope="node", state="UNKNOWN", episode_us=START_US, confidence=0.0)
        rest = tuple(msgspec.structs.replace(unknown, node=n) for n in ("gpu02", "gpu03", "gpu04"))
        job = msgspec.structs.replace(
            unknown, scope="job", confidence=0.2, text="only 1 of 4 nodes can be judged",
            missing=(Missing("nvml", "gpu04: no libnvidia-ml.so.1"),),
        )  # fmt: skip
        return msgspec.structs.replace(good, job=job, nodes=good.nodes + rest)

    return Scenario("resnet-ddp", machines, Told(script))


def lost() -> Scenario:
    """Two nodes, the second of which falls silent."""
    names = ("gpu01", "gpu02")
    machines = (Machine("gpu01"), Machine("gpu02", load=lambda s: Load() if s < 24 else None))
    return Scenario("llama-70b-sft", machines, Told(lambda v: computing(names, v.now_us, 8)))
