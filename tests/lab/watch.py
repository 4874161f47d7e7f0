"""Runs one scenario: boots, trains, records as a user would, breaks things, and scores."""

import contextlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from gpuwatch import recording
from gpuwatch.model.event import Tick
from lab import job, namespaces, store, uml
from lab.felt import Phase, felt
from lab.load import Load
from lab.node import LOCAL, Node, inside, mortal
from lab.scenario import Fault, Scenario
from lab.score import Score, Seen, Truth, score

LAB = "gwlab"
FIRST_S = 60.0
"""Until when the recorder must have judged once."""
LATE_S = 60.0
"""After onset, for who comes late."""
STEPS = 5
"""Steps that the job has made before it is watched."""
REACHED: dict[str, Callable[[uml.Guest, Sequence[Node]], str]] = {
    "nfs": store.mount,
    "fuse": store.mount_fuse,
    "object": lambda keeper, _nodes: store.address(keeper),
}
"""How nodes reach a data set that another guest keeps."""


class Way(msgspec.Struct, frozen=True):
    """How a scenario is watched: from a minute after onset only, and as whom."""

    late: bool = False
    user: str = "root"


class Result(msgspec.Struct):
    """One run of one scenario: how it was broken, how it was judged.

    `bites` tells what plain tools saw of each fault, `toothless` whether one was not there at all.
    Steps are means by the job's log, for two loaders in turn make one long and one short step.
    Times of `truth` are on this machine's monotonic clock. `felt_after_s` is how long after onset the
    first slow step of any rank began.
    """

    scenario: str
    score: Score
    truth: Truth
    bites: dict[str, str]
    toothless: bool
    step_s: float | None
    fault_step_s: float | None
    busy: float
    others: float
    way: Way
    felt_after_s: float | None = None


def watch(scenario: Scenario, out: Path, way: Way) -> Result:
    """Run a scenario; its recording is kept in a directory `out`, its ranks' truth logs beside it.

    Args:
        scenario: which.
        out: must not exist.
        way: who comes late sees as much of the fault: it lasts a minute longer.

    Raises:
        RuntimeError: when nodes, job or recorder do not come up.
    """
    # The guests' disks and memory grow there; /tmp is hidden in guests.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="gwlab-") as name:
        folder = Path(name)
        with _cluster(scenario, folder) as every, _job(scenario, every, way.user) as nodes:
            kernels = [node.kernel_pid for node in every if isinstance(node, uml.Guest)]
            return _watched(scenario, every, nodes, Load(kernels), folder, out, way)


@contextlib.contextmanager
def _cluster(scenario: Scenario, folder: Path) -> Iterator[Sequence[Node]]:
    """Bring up the nodes, and the store behind them where data come from one."""
    if scenario.kind == "host":
        with namespaces.cluster(LAB, scenario.names, folder) as nodes:
            yield nodes
        return
    stores = () if scenario.data == "disk" else (store.STORE,)
    with uml.cluster(LAB, (*scenario.names, *stores), folder) as guests:
        yield guests


@contextlib.contextmanager
def _job(scenario: Scenario, every: Sequence[Node], user: str) -> Iterator[Sequence[Node]]:
    """Train; yield the nodes that do."""
    nodes = every[: scenario.nodes]
    job.equip(nodes)
    data = f"{LOCAL}/data"
    if scenario.data != "disk":
        keeper = every[-1]
        assert isinstance(keeper, uml.Guest)
        store.serve(keeper, job.data_set())
        data = REACHED[scenario.data](keeper, nodes)
    for node in nodes:
        job.switch(node, scenario.options)
    gradients = ("--bytes", str(scenario.gradients))
    launchers = job.train(nodes, scenario.ranks, data, gradients, user)
    try:
        if not scenario.from_start:
            job.await_steps(nodes, STEPS)
        yield nodes
    finally:
        job.stop(launchers)


def _watched(
    scenario: Scenario,
    every: Sequence[Node],
    nodes: Sequence[Node],
    load: Load,
    folder: Path,
    out: Path,
    way: Way,
) -> Result:
    """Watch a job that trains, break what the scenario says, and score."""
    file = job.job_file(nodes, folder, scenario.name, way.user)
    with contextlib.ExitStack() as stack:
        load.start()
        stack.callback(load.stop)
        if not way.late:
            begin_s = stack.enter_context(_recorded(file, out))
            time.sleep(scenario.healthy_s)
        before = len(job.steps(nodes[0]))
        onset_s = time.monotonic()
        bites, toothless = _break(scenario.faults, every)
        if way.late:
            time.sleep(max(0.0, onset_s + LATE_S - time.monotonic()))
            begin_s = onset_s = stack.enter_context(_recorded(file, out))
        time.sleep(max(0.0, onset_s + scenario.fault_s - time.monotonic()))
        lift_s = time.monotonic()
        steps = job.steps(nodes[0])
        for fault in scenario.faults:
            fault.lift(every)
        time.sleep(scenario.after_s)
        end_s = time.monotonic()
    for node in nodes:
        for log in node.home.glob("truth.*.jsonl"):
            shutil.copy(log, out.with_name(f"{out.name}.{log.name}"))
    to_wall_s = time.time() - time.monotonic()
    truth = Truth(begin_s, onset_s, lift_s, end_s, load.starved())
    return Result(
        scenario.name,
        score(scenario, truth, seen(out)),
        truth,
        bites,
        toothless,
        statistics.fmean(steps[1:before]) if before > 1 else None,
        statistics.fmean(steps[before + 1 :]) if len(steps) > before + 1 else None,
        statistics.fmean(second.busy for second in load.seconds),
        statistics.fmean(second.others for second in load.seconds),
        way,
        _felt(out, onset_s + to_wall_s, lift_s + to_wall_s),
    )


def _felt(out: Path, onset: float, lift: float) -> float | None:
    """Return after how many seconds a rank first felt the fault; None where none did."""
    found = []
    for file in sorted(out.parent.glob(f"{out.name}.truth.*.jsonl")):
        phases = [msgspec.json.decode(line, type=Phase) for line in file.read_bytes().splitlines()]
        found.append(felt(phases, onset, lift))
    return min((after_s for after_s in found if after_s is not None), default=None)


def _break(faults: Sequence[Fault], nodes: Sequence[Node]) -> tuple[dict[str, str], bool]:
    """Begin faults; return what plain tools see of each, and whether one is not there."""
    bites, toothless = {}, False
    for fault in faults:
        fault.apply(nodes)
    for fault in faults:
        try:
            bites[fault.name] = fault.bites(nodes)
        except RuntimeError as error:
            bites[fault.name] = str(error)
            toothless = True
    return bites, toothless


@contextlib.contextmanager
def _recorded(file: Path, out: Path) -> Iterator[float]:
    """Record with gpuwatch itself, from inside the lab; yield when the first verdict came."""
    log = file.with_name("record.log")
    words = [sys.executable, "-m", "gpuwatch", "record", str(file), "--out", str(out)]
    with log.open("wb") as stream:
        command = mortal(*inside(LAB, *words))
        recorder = subprocess.Popen(command, stdout=stream, stderr=stream)
    try:
        deadline = time.monotonic() + FIRST_S
        while b" nodes, " not in log.read_bytes():
            if recorder.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"gpuwatch record: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        yield time.monotonic()
        if recorder.poll() is not None:
            raise RuntimeError(f"gpuwatch record ended: {log.read_text(errors='replace')[-2000:]}")
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait(30)


def seen(directory: Path) -> list[Seen]:
    """Return the verdicts that a recording shows, with the times of their ticks."""
    found = []
    for chunk in recording.open(directory).chunks():
        at_s = {e.event_no: e.arrived_us / 1e6 for e in chunk.events if isinstance(e, Tick)}
        found += [Seen(at_s[s.event_no], s.verdict) for s in chunk.shown]
    return found
