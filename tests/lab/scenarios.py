"""The lab's scenarios: what is broken, and what may be said of it, with the reasons.

Acceptable sets stand here before a run and follow from what the fault is, not from what gpuwatch
can tell today. Nodes are called gpu01 and so on; the ring goes from each to the next.
"""

from lab.faults.load import Competition, Frozen, Quota, Stopped
from lab.faults.network import Delay, Flap, Loss, Rate
from lab.faults.storage import FullDisk, SlowDisk, SlowNfs, SlowObjects
from lab.node import SHARED
from lab.scenario import WELL, Accept, Scenario
from lab.store import STORE
from lab.switches import HANGS, Switch

__all__ = ["FAULTS", "HEALTHY", "SCENARIOS", "SHORT"]

_MAIN = Accept(
    ("CPU/main-thread",), "the main thread works before each step and its GPU waits for it"
)
_DECODE = Accept(
    ("CPU/data-prep",), "loaders use all the CPU time they get and the GPU waits for data"
)
_SAVE = Accept(("STORAGE/checkpoint",), "its first rank writes and syncs while its GPU waits")
_THROTTLED = Accept(
    ("GPU/throttled",), "clocks down for heat, reason bits set, the same work takes longer"
)
_HELD = Accept(("HUNG",), "a signal holds its processes")
_STANDS = Accept(
    ("HUNG",),
    "nothing moves any more, on any node; until a minute has passed so it may be a long wait",
    early=("UNKNOWN",),
    early_s=60,
)
_STANDS_TOO = Accept(
    ("HUNG", "PEER"), "nothing moves; seen alone it waits for the rank that stands"
)
_UNREAD = Accept(
    ("COMPUTE", "UNKNOWN"), "it is well, and of its GPU too little is read to be sure of that"
)
_ENDED = Accept(
    ("IDLE", "UNKNOWN"), "no process of the job is left and GPUs are idle; not at fault in any way"
)
_STARTS = Accept(
    ("STARTUP", "STARTUP/compile"), "it works on its first step and none was made before"
)

_NEAR = Accept(
    ("PEER", "NETWORK/loss", "NETWORK/path"),
    "it waits in the collective, or is at the other end of what is lost",
)
_LOST = Accept(("NETWORK/loss",), "netem drops packets, and they are sent again")
_FULL = Accept(
    ("NETWORK/bandwidth", "NETWORK/congestion", "NETWORK/loss"),
    "traffic is held at a rate, and what does not fit into its short queue is dropped",
)
_FAR = Accept(
    ("NETWORK/path", "NETWORK/congestion"), "round trips are longer, with bandwidth to spare"
)
_FLAPS = Accept(("NETWORK/link", "NETWORK/loss"), "its link goes down and loses what is on the way")
_READ = Accept(("STORAGE/read",), "loaders are blocked in reads and the GPU waits for data")
_OBJECT = Accept(("STORAGE/object",), "loaders wait for answers of a store outside the job")
_CROWDED = Accept(
    ("CPU/system", "CPU/main-thread"), "others hold the CPU, and the main thread runs late"
)
_QUOTA = Accept(("CPU/quota",), "the cgroup's quota holds the job in most periods")
_GONE = Accept(("UNKNOWN",), "nothing of it can be seen")

_WAYS_OF_GPU02 = (
    "gpu02",
    "gpu02 -> gpu03",
    "gpu01 -> gpu02",
    "gpu01 <-> gpu02",
    "gpu02 <-> gpu03",
)
"""A round trip is long both ways, so a way of the culprit may be named without its direction."""
_MUCH = 4e6
"""Gradients of jobs whose network breaks: enough to lose time by it."""
_NETWORK = (
    Scenario(
        name="net-loss", kind="uml", nodes=3, gradients=_MUCH,
        faults=(Loss("gpu02", 9),),
        job=_LOST, on={"gpu02": _LOST}, rest=_NEAR, culprits=("gpu02", "gpu02 -> gpu03"),
    ),
    Scenario(
        name="net-loss-ingress", kind="uml", nodes=3, gradients=_MUCH,
        faults=(Loss("gpu02", 9, "ingress"),),
        job=_LOST, rest=_NEAR, culprits=("gpu02", "gpu01 -> gpu02"),
    ),
    Scenario(
        name="net-loss-pair", kind="uml", nodes=3, gradients=_MUCH,
        faults=(Loss("gpu01", 9, "gpu02"),),
        job=_LOST, rest=_NEAR,
        culprits=("gpu01 -> gpu02", "gpu01 <-> gpu02", "gpu02 -> gpu01"),
    ),
    Scenario(
        name="net-rate", kind="uml", nodes=2, ranks=2, gradients=_MUCH,
        faults=(Rate("gpu02", 16),),
        job=_FULL, on={"gpu02": _FULL}, rest=_NEAR,
        culprits=("gpu02", "gpu02 -> gpu01", "gpu01 <-> gpu02"),
    ),
    Scenario(
        name="net-rate-fabric", kind="uml", nodes=3, gradients=_MUCH,
        faults=(Rate("", 16),),
        job=_FULL, rest=_FULL, culprits=("network",),
    ),
    Scenario(
        name="net-delay", kind="uml", nodes=3, gradients=_MUCH,
        faults=(Delay("gpu02", 60),),
        job=_FAR, on={"gpu02": _FAR}, rest=_NEAR,
        culprits=_WAYS_OF_GPU02,
    ),
    Scenario(
        name="net-jitter", kind="uml", nodes=3, gradients=_MUCH,
        faults=(Delay("gpu02", 40, 20),),
        job=_FAR, on={"gpu02": _FAR}, rest=_NEAR,
        culprits=_WAYS_OF_GPU02,
    ),
    Scenario(
        name="net-flap", kind="uml", nodes=3, gradients=_MUCH,
        faults=(Flap("gpu02"),),
        job=_FLAPS, on={"gpu02": _FLAPS}, rest=_NEAR,
        culprits=("gpu02", "gpu02 -> gpu03", "gpu01 -> gpu02"),
    ),
)  # fmt: skip

_CPU = (
    Scenario(
        name="cpu-competition", kind="uml", nodes=3, faults=(Competition("gpu02", 24),),
        job=_CROWDED, on={"gpu02": _CROWDED}, culprits=("gpu02", "rank 1 of gpu02"),
    ),
    Scenario(
        name="cpu-quota", kind="host", nodes=2, faults=(Quota("gpu02", 10),),
        job=_QUOTA, on={"gpu02": _QUOTA}, culprits=("gpu02", "rank 1 of gpu02"),
    ),
    Scenario(
        name="main-thread", kind="uml", nodes=3,
        faults=(Switch("main thread works 1 s a step", "gpu02", {"main_busy_s": 1.0}, slower=1.5),),
        job=_MAIN, on={"gpu02": _MAIN}, culprits=("gpu02", "rank 1 of gpu02"),
    ),
    Scenario(
        name="main-thread-one-of-four", kind="host", nodes=1, ranks=4,
        faults=(
            Switch(
                "main thread of rank 2 works 1 s a step", "gpu01",
                {"ranks": {"2": {"main_busy_s": 1.0}}}, slower=1.5,
            ),
        ),
        job=_MAIN, on={"gpu01": _MAIN}, culprits=("rank 2 of gpu01", "gpu01"),
    ),
    Scenario(
        name="decode", kind="uml", nodes=3,
        faults=(Switch("files are decoded 300 times", "gpu02", {"decode": 300}, slower=1.5),),
        job=_DECODE, on={"gpu02": _DECODE}, culprits=("gpu02", "rank 1 of gpu02"),
    ),
    Scenario(
        name="decode-one-of-four", kind="uml", nodes=2, ranks=2,
        faults=(
            Switch("files of rank 3 are decoded 300 times", "gpu02",
                   {"ranks": {"1": {"decode": 300}}}, slower=1.5),
        ),
        job=_DECODE, on={"gpu02": _DECODE}, culprits=("rank 3 of gpu02", "gpu02"),
    ),
    Scenario(
        name="loaders-pinned", kind="host", nodes=2,
        faults=(
            Switch("loaders on CPU 0, files decoded 250 times", "gpu02",
                   {"decode": 250, "pin": [0]}, slower=1.3),
        ),
        job=Accept(("CPU/pinned", "CPU/data-prep"), "two loaders share one CPU while another is free"),
        on={"gpu02": Accept(("CPU/pinned", "CPU/data-prep"), "the same, seen on the node")},
        culprits=("gpu02", "rank 1 of gpu02"),
    ),
)  # fmt: skip

_STORAGE = (
    Scenario(
        name="disk-slow", kind="uml", nodes=3, faults=(SlowDisk("gpu02", 150),),
        job=_READ, on={"gpu02": _READ}, culprits=("gpu02", "rank 1 of gpu02"),
    ),
    Scenario(
        name="disk-slow-two-ranks", kind="uml", nodes=2, ranks=2, faults=(SlowDisk("gpu01", 150),),
        job=_READ, on={"gpu01": _READ},
        culprits=("gpu01", "rank 0 of gpu01", "rank 1 of gpu01"),
    ),
    Scenario(
        name="nfs-slow", kind="uml", nodes=2, data="nfs", faults=(SlowNfs(ms=200),),
        job=_READ, rest=_READ, culprits=("all nodes", SHARED, "10.77.0.3:/"),
    ),
    Scenario(
        name="fuse-slow", kind="uml", nodes=2, data="fuse", faults=(SlowDisk(STORE, 150),),
        job=_READ, rest=_READ, culprits=("all nodes", SHARED, "root@10.77.0.3:/mnt/data"),
    ),
    Scenario(
        name="object-store-slow", kind="uml", nodes=2, data="object", faults=(SlowObjects(200),),
        job=_OBJECT, rest=_OBJECT, culprits=("all nodes", "10.77.0.3:8080"),
    ),
    Scenario(
        name="checkpoint", kind="uml", nodes=3,
        faults=(
            Switch("rank 0 writes a checkpoint", "gpu01",
                   {"checkpoint_every_s": 1, "checkpoint_s": 300}, slower=0),
        ),
        job=_SAVE, on={"gpu01": _SAVE}, culprits=("gpu01", "rank 0 of gpu01"),
    ),
    Scenario(
        name="checkpoint-one-of-four", kind="uml", nodes=2, ranks=2,
        faults=(
            Switch("rank 0 writes a checkpoint", "gpu01",
                   {"checkpoint_every_s": 1, "checkpoint_s": 300}, slower=0),
        ),
        job=_SAVE, on={"gpu01": _SAVE}, culprits=("gpu01", "rank 0 of gpu01"),
    ),
    Scenario(
        name="checkpoint-recurring", kind="uml", nodes=2, fault_s=180,
        faults=(
            Switch("rank 0 writes for 8 s each minute", "gpu01",
                   {"checkpoint_every_s": 52, "checkpoint_s": 8}, slower=0.8),
        ),
        job=Accept(("COMPUTE", "STORAGE/checkpoint"), "it computes, but for 8 s of each minute"),
        on={"gpu01": Accept(("COMPUTE", "STORAGE/checkpoint"), "the same, on the node that writes")},
        rest=Accept(("COMPUTE", "PEER"), "it computes, but for 8 s of each minute"),
        culprits=("gpu01", "rank 0 of gpu01"), recurring="STORAGE/checkpoint",
    ),
)  # fmt: skip

_GPU = (
    Scenario(
        name="gpu-throttled", kind="uml", nodes=3,
        faults=(
            Switch("the GPU slows down for heat", "gpu02", {"gpu": "throttled", "compute": 2.2}, slower=1.5),
        ),
        job=_THROTTLED, on={"gpu02": _THROTTLED},
        culprits=("gpu02", "rank 1 of gpu02", "GPU 0 of gpu02"),
    ),
    Scenario(
        name="gpu-throttled-one-of-four", kind="uml", nodes=2, ranks=2,
        faults=(
            Switch("GPU 1 slows down for heat", "gpu02",
                   {"ranks": {"1": {"gpu": "throttled", "compute": 2.2}}}, slower=1.5),
        ),
        job=_THROTTLED, on={"gpu02": _THROTTLED},
        culprits=("gpu02", "rank 3 of gpu02", "GPU 1 of gpu02"),
    ),
    Scenario(
        name="gpu-lost", kind="uml", nodes=3,
        faults=(
            Switch("the GPU is off the bus", "gpu02", {"hang": True, "nvml": ["* * error 15"]}, slower=0),
        ),
        job=Accept(("GPU/fault",), "a lost GPU is what the job stands still for"),
        on={"gpu02": Accept(("GPU/fault",), "NVML answers that the GPU is lost")}, rest=_STANDS_TOO,
        culprits=("gpu02", "rank 1 of gpu02", "GPU 0 of gpu02"),
    ),
    Scenario(
        name="no-utilisation-main-thread", kind="uml", nodes=2,
        options={"nvml": ["* nvmlDeviceGetUtilizationRates error 3"]},
        faults=(
            Switch("main thread works 1 s a step", "gpu02",
                   {"main_busy_s": 1.0, "nvml": ["* nvmlDeviceGetUtilizationRates error 3"]}, slower=1.5),
        ),
        job=_MAIN, on={"gpu02": _MAIN}, culprits=("gpu02", "rank 1 of gpu02"),
    ),
)  # fmt: skip

_STILL = (
    Scenario(
        name="rank-stopped", kind="uml", nodes=3, faults=(Stopped("gpu02"),),
        job=_HELD, on={"gpu02": _HELD}, rest=_STANDS_TOO, culprits=("gpu02", "rank 1 of gpu02"),
    ),
    Scenario(
        name="node-frozen", kind="uml", nodes=3, faults=(Frozen("gpu02"),),
        job=Accept(("UNKNOWN", "HUNG"), "all wait for a node of which nothing can be seen"),
        on={"gpu02": _GONE}, rest=_STANDS_TOO, culprits=("gpu02",),
    ),
    Scenario(
        name="deadlock", kind="uml", nodes=3, fault_s=75,
        faults=(Switch("a rank waits for a lock for ever", "gpu02", {"hang": True}, slower=0),),
        job=_STANDS, on={"gpu02": _STANDS}, rest=_STANDS_TOO, culprits=("gpu02", "rank 1 of gpu02"),
    ),
    Scenario(
        name="job-ends", kind="uml", nodes=2,
        faults=(Switch("the job ends", "", {"end": True}, slower=0),),
        job=_ENDED, rest=_ENDED,
    ),
    Scenario(
        name="startup", kind="uml", nodes=2, healthy_s=0, from_start=True,
        options={"startup_s": 300}, job=_STARTS, rest=_STARTS,
    ),
)  # fmt: skip


def _odd(name: str, words: str, switches: dict[str, object], slower: float, why: str) -> Scenario:
    accept = Accept(("COMPUTE",), why)
    return Scenario(
        name=f"odd-{name}", kind="uml", nodes=2, healthy_s=20, fault_s=114,
        faults=(Switch(words, "", switches, slower=slower),), job=accept, rest=accept,
    )  # fmt: skip


_INNOCENT = (
    Scenario(
        name="disk-full", kind="uml", nodes=2,
        options={"checkpoint_every_s": 20, "checkpoint_s": 0.5}, faults=(FullDisk("gpu01"),),
        job=Accept(("COMPUTE",), "saving fails at once and nobody waits for it"), rest=WELL,
    ),
    Scenario(
        name="checkpoint-apart", kind="uml", nodes=2,
        faults=(
            Switch("a child of rank 0 writes checkpoints", "gpu01",
                   {"checkpoint_every_s": 1, "checkpoint_s": 20, "checkpoint_apart": True}, slower=0.8),
        ),
        job=Accept(("COMPUTE",), "an asynchronous checkpoint that nobody waits for"), rest=WELL,
    ),
    Scenario(
        name="nvml-hangs", kind="uml", nodes=2,
        faults=(Switch("NVML hangs", "gpu02", {"nvml": ["* * hang"]}, nvml=HANGS),),
        job=_UNREAD, on={"gpu02": _UNREAD}, rest=WELL,
    ),
    Scenario(
        name="no-utilisation", kind="uml", nodes=2,
        faults=(
            Switch("no utilisation", "gpu02", {"nvml": ["* nvmlDeviceGetUtilizationRates error 3"]},
                   nvml="code 3"),
        ),
        job=_UNREAD, on={"gpu02": _UNREAD}, rest=WELL,
    ),
)  # fmt: skip

HEALTHY = (
    Scenario(name="healthy", kind="uml", nodes=3, healthy_s=1200, fault_s=0),
    _odd("evaluation", "8 batches are evaluated each 10 steps",
         {"evaluate_every": 10, "evaluate_batches": 8}, 0.8,
         "evaluation computes and exchanges nothing"),
    _odd("accumulation", "4 batches are computed for each exchange", {"accumulate": 4}, 2.0,
         "network silence between exchanges is normal"),
    _odd("gaps", "0.08 s of nothing after each step", {"gap_s": 0.08}, 1.0,
         "small gaps between steps are no loss that anybody can be named for"),
    _odd("spin", "the main thread spins while its GPU computes", {"spin_main": True}, 0.8,
         "CUDA spins by default: a main thread at 100 % with a busy GPU waits for nothing"),
    _odd("offload", "8 MB of state are written and read each step", {"offload_bytes": 8 << 20}, 0.8,
         "writes beside the computation that no step waits for"),
    *_INNOCENT,
)  # fmt: skip

FAULTS = (
    *_NETWORK,
    *_STORAGE,
    *_CPU,
    *_GPU,
    *_STILL,
)
SHORT = ("net-loss", "checkpoint", "main-thread")
"""One of each of network, storage and CPU."""
SCENARIOS = {scenario.name: scenario for scenario in (*FAULTS, *HEALTHY)}
