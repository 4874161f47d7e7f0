"""How large a recording is, and what writing it costs.

    python bench/recording.py [NODES]

Nodes of eight GPUs, drawn from a recording of the lab (`drawn.py`), are judged and recorded for an
hour and a minute as fast as it goes. The open hour is what lies on disk before it is merged whole:
segments of ten minutes, and of a minute. Beside it, atop (where it is installed) writes its own file
of this machine, each second for a minute, times sixty.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from drawn import Job
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.recording import Limits, Recorder, Session, create, manifest
from gpuwatch.recording.store import Folder
from gpuwatch.verdict.judge import Judge

SOURCE = Path(__file__).parents[1] / "recordings/net-loss"
OPEN_BUDGET_MB, BUDGET_MB = 8.0, 2.0
HOUR_S = 3600
LOG_S = 61
"""Seconds in a log: it ends with the first tick after a minute."""
AHEAD = 2000
"""Events that may wait for the disk: a live feed is slower than it."""
ATOP_S = 60


def record(place: Path, job: Job, seconds: int, limits: Limits) -> float:
    """Record a job; return the CPU seconds of all threads but the one that draws and judges."""
    judge, cluster = Judge(), Cluster(job.names, 1.0)
    facts = Session(
        job="bench", nodes=tuple(job.names), interval_s=1.0, version="bench",
        started_wall_us=1_790_000_000_000_000, started_mono_us=0,
    )  # fmt: skip
    began = time.process_time() - time.thread_time()
    recorder = create(place, facts, judge.state, limits)
    for second in job.seconds(seconds):
        for event in second:
            recorder.event(event)
            cluster.apply(event)
            if isinstance(event, Tick):
                judged(recorder, judge, cluster, event)
        await_disk(recorder, second[-1])
    while recorder.status.segments < seconds // LOG_S:
        time.sleep(0.05)
    recorder.close()
    return time.process_time() - time.thread_time() - began


def judged(recorder: Recorder, judge: Judge, cluster: Cluster, tick: Tick) -> None:
    """Judge a tick, and record the verdict."""
    view = cluster.view(tick)
    verdict = judge.job(view, [judge.node(view, node) for node in view.nodes])
    recorder.judged(tick, view, verdict)


def await_disk(recorder: Recorder, last: AnyEvent) -> None:
    """Let the disk come near."""
    while last.event_no - recorder.status.acknowledged_event_no > AHEAD:
        time.sleep(0.01)


def megabytes(place: Path) -> float:
    """Return what all segments that count hold."""
    return sum(entry.bytes for entry in manifest.read(Folder(place))[0].values()) / 1e6


def atop_mb(place: Path) -> float | None:
    """Return what atop writes in an hour, from a minute; None where it is not installed."""
    if shutil.which("atop") is None:
        return None
    file = place / "atop"
    subprocess.run(["atop", "-w", str(file), "1", str(ATOP_S)], check=True)
    return file.stat().st_size * HOUR_S / ATOP_S / 1e6


def row(name: str, size_mb: float, budget_mb: float | None, nodes: int) -> str:
    """Return one line of the table."""
    budget = "-" if budget_mb is None else f"{budget_mb:.0f} MB"
    return f"| {name} | {size_mb / nodes:.2f} MB | {budget} |"


def main() -> int:
    """Print the table; return 1 where a budget is passed."""
    nodes = int(sys.argv[1]) if sys.argv[1:] else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        usual = Limits(queue=1 << 16)
        record(folder / "open", Job(SOURCE, nodes), HOUR_S - 60, usual)
        open_mb = megabytes(folder / "open")
        cpu_s = record(folder / "merged", Job(SOURCE, nodes), HOUR_S + LOG_S, usual)
        merged_mb = max(e.bytes for e in manifest.read(Folder(folder / "merged"))[0].values()) / 1e6
        beside_mb = atop_mb(folder)
    print(
        f"{nodes} nodes of 8 GPUs, each second\n\n| | an hour, a node | budget |\n|---|---:|---:|"
    )
    print(row("the open hour", open_mb, OPEN_BUDGET_MB, nodes))
    print(row("**after the merge**", merged_mb, BUDGET_MB, nodes))
    if beside_mb is not None:
        print(row("atop, of this machine", beside_mb, None, 1))
    print(f"\nCPU of sealing and merging: {cpu_s / (HOUR_S + LOG_S):.2%} of one core")
    return int(open_mb > OPEN_BUDGET_MB * nodes or merged_mb > BUDGET_MB * nodes)


if __name__ == "__main__":
    sys.exit(main())
