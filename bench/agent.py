"""What the agent costs a node, beside other monitors, under the same crowd of processes.

    python bench/agent.py [SECONDS]

The agent is started as on a node: shipped over its stdin, isolated, all sources on, with eight
simulated GPUs. Cost is the CPU time of the whole process tree after a warm-up. Other monitors are
measured where they are installed (see Makefile: bench-agent), in turn, under the same crowd.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gpuwatch.transport.bootstrap import FLAGS, PROGRAM, new_marker
from gpuwatch.transport.node import Node
from gpuwatch.transport.payload import agent_config, payload
from nvml import sim

ROOT = Path(__file__).parents[1]
GPUS = 8
SECONDS = 30.0
WARM_UP_S = 8.0
SETTLE_S = 31.0
"""A node's processes are not all new: the agent looks at young ones again and again, as they may exec."""
PORT = 19100
TOOLS = ROOT / "build/bench-tools/bin"
CORE_BUDGET = 0.010
PSS_BUDGET = 40e6
DESCRIPTOR_BUDGET = 600
WIRE_BUDGET = 2048
PSUTIL = """
import psutil, time
while True:
    fields = ["pid", "ppid", "name", "status", "cpu_times", "io_counters"]
    for process in psutil.process_iter(fields):
        process.info
    psutil.net_io_counters(pernic=True); psutil.disk_io_counters(perdisk=True)
    psutil.cpu_times(); psutil.virtual_memory()
    time.sleep(1)
"""
NVITOP = """
import time
from nvitop import Device, ResourceMetricCollector
collector = ResourceMetricCollector(Device.all())
with collector(tag="job"):
    while True:
        collector.collect()
        time.sleep(1)
"""
CROWD = """
import ctypes, os, signal, sys, threading, time
threads, forks, name = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode()
libc = ctypes.CDLL(None)
for _ in range(forks):
    if not os.fork():
        libc.prctl(1, signal.SIGKILL, 0, 0, 0)
        libc.prctl(15, name, 0, 0, 0)
        time.sleep(1e6)
for _ in range(threads - 1):
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
print("ready", flush=True)
while threads:
    time.sleep(0.01)
time.sleep(1e6)
"""
"""MARK THREADS FORKS NAME: a rank with its loaders, or, without threads, who has nothing to do with it."""
KERNEL_THREADS = """
import array, fcntl, socket, struct, subprocess, sys, time
pair = ["bench0", "bench1"]
queues = ["numrxqueues", sys.argv[1], "numtxqueues", sys.argv[1]]
subprocess.run(["mount", "-t", "sysfs", "none", "/sys"], check=True)
subprocess.run(
    ["ip", "link", "add", pair[0], *queues, "type", "veth", "peer", "name", pair[1], *queues], check=True
)
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for name in pair:
    receive_offload = array.array("I", [0x2C, 1])
    request = struct.pack("16sP16x", name.encode(), receive_offload.buffer_info()[0])
    fcntl.ioctl(asker, 0x8946, request)
    subprocess.run(["ip", "link", "set", name, "up"], check=True)
for name in pair:
    with open(f"/sys/class/net/{name}/threaded", "w") as file:
        file.write("1")
print("ready", flush=True)
time.sleep(1e6)
"""
"""QUEUES: the kernel starts a thread for each queue of two interfaces (threaded NAPI), in a network
namespace that ends with this process."""


@dataclass(frozen=True)
class Crowd:
    """What runs on the node: idle processes, and ranks of a job with threads and loaders."""

    name: str
    idle: int
    ranks: int
    threads: int
    loaders: int
    kernel_threads: int = 0


CROWDS = (
    Crowd("8 ranks x 9 threads, 200 processes", 200, 8, 9, 0),
    Crowd("8 ranks x 9 threads, 3,000 processes", 3000, 8, 9, 0),
    Crowd("8 ranks x 400 threads, 128 loaders", 200, 8, 400, 16),
    Crowd("8 ranks x 9 threads, 2,000 kernel threads", 200, 8, 9, 0, 2000),
)


@dataclass(frozen=True)
class Cost:
    """What a program cost: share of one core, bytes, descriptors, bytes written a second."""

    core: float
    pss: float
    descriptors: int
    wire: float | None = None

    def over(self) -> list[str]:
        """Name the agent's budgets that it passes."""
        limits = (
            ("CPU", self.core, CORE_BUDGET), ("memory", self.pss, PSS_BUDGET),
            ("descriptors", self.descriptors, DESCRIPTOR_BUDGET), ("wire", self.wire or 0, WIRE_BUDGET),
        )  # fmt: skip
        return [name for name, value, limit in limits if value > limit]


@contextlib.contextmanager
def started(
    words: list[str],
    env: dict[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program in a process group of its own, and end all of it."""
    process = subprocess.Popen(
        words,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def gathered(crowd: Crowd) -> Iterator[list[int]]:
    """Let a crowd be there; yield the ranks' process ids."""
    with contextlib.ExitStack() as stack:
        python = [sys.executable, "-c", CROWD]
        words = [*python, "bystander", "0", str(crowd.idle), "idle"]
        await_ready(stack.enter_context(started(words, {}, stdout=subprocess.PIPE)))
        if crowd.kernel_threads:
            queues = str(crowd.kernel_threads // 2)
            words = ["unshare", "--net", "--mount", sys.executable, "-c", KERNEL_THREADS, queues]
            await_ready(stack.enter_context(started(words, {**os.environ}, stdout=subprocess.PIPE)))
        pids = []
        for rank in range(crowd.ranks):
            words = [*python, "benchjob", str(crowd.threads), str(crowd.loaders), "pt_data_worker"]
            env = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(crowd.ranks)}
            process = stack.enter_context(started(words, env, stdout=subprocess.PIPE))
            await_ready(process)
            pids.append(process.pid)
        time.sleep(SETTLE_S)
        yield pids


def await_ready(process: "subprocess.Popen[bytes]") -> None:
    """Wait until all that a process starts is there.

    Raises:
        RuntimeError: it ended; kernel threads need root.
    """
    assert process.stdout
    if not process.stdout.readline():
        raise RuntimeError(f"could not be started: {process.args!r}")


def measured(process: "subprocess.Popen[bytes]", seconds: float) -> Cost:
    """Measure a program and all that it starts."""
    time.sleep(WARM_UP_S)
    top = psutil.Process(process.pid)
    began, before = time.monotonic(), spent(top)
    time.sleep(seconds)
    core = (spent(top) - before) / (time.monotonic() - began)
    family = [top, *top.children(recursive=True)]
    pss = sum(one.memory_full_info().pss for one in family)
    return Cost(core, pss, max(one.num_fds() for one in family))


def spent(top: psutil.Process) -> float:
    """Return the CPU seconds of a process, its children and those that it waited for."""
    total = 0.0
    for one in [top, *top.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
            total += times.children_user + times.children_system
    return total


def agent(env: dict[str, str], seconds: float) -> Cost:
    """Run the agent as a node does."""
    node = Node(name="bench", host="localhost", match="benchjob")
    marker = new_marker()
    words = ["/usr/bin/python3", *FLAGS, "-c", PROGRAM, marker]
    with started(words, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(payload().message(agent_config(node, 1.0)))
        process.stdin.flush()
        sizes = list[tuple[float, int]]()
        threading.Thread(target=drain, args=(process, sizes), daemon=True).start()
        threading.Thread(target=beat, args=(process,), daemon=True).start()
        cost = measured(process, seconds)
        late = [size for at, size in sizes if at > sizes[-1][0] - seconds]
        return Cost(cost.core, cost.pss, cost.descriptors, sum(late) / seconds)


def drain(process: "subprocess.Popen[bytes]", sizes: list[tuple[float, int]]) -> None:
    """Take what the agent writes, and note how much."""
    assert process.stdout
    while data := os.read(process.stdout.fileno(), 1 << 20):
        sizes.append((time.monotonic(), len(data)))


def beat(process: "subprocess.Popen[bytes]") -> None:
    """Let the agent know each second that somebody watches."""
    assert process.stdin
    with contextlib.suppress(OSError):
        while True:
            process.stdin.write(b"\n")
            process.stdin.flush()
            time.sleep(1)


def other(words: list[str], env: dict[str, str], seconds: float, scrape: str = "") -> Cost:
    """Run another monitor; `scrape` is an address that is asked each second."""
    with started(words, env) as process:
        if scrape:
            threading.Thread(target=ask, args=(process, scrape), daemon=True).start()
        return measured(process, seconds)


def ask(process: "subprocess.Popen[bytes]", address: str) -> None:
    """Scrape each second while it runs."""
    while process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address, timeout=5).read()
        time.sleep(1)


def others() -> dict[str, tuple[list[str], str]]:
    """Return the monitors that are installed: name to command and address."""
    found = {"psutil, what the agent reads of processes": ([sys.executable, "-c", PSUTIL], "")}
    python = str(TOOLS / "python")
    if (TOOLS / "nvitop").exists():
        found["nvitop's collector"] = ([python, "-c", NVITOP], "")
    if (TOOLS / "glances").exists():
        csv = ["--quiet", "--export", "csv", "--export-csv-file", "/dev/null", "-t", "1"]
        found["glances"] = ([str(TOOLS / "glances"), *csv], "")
    exporter = Path("/usr/bin/prometheus-node-exporter")
    if exporter.exists():
        listen = f"--web.listen-address=127.0.0.1:{PORT}"
        command = [str(exporter), listen, "--collector.processes"]
        found["node_exporter, processes on"] = (command, f"http://127.0.0.1:{PORT}/metrics")
    return found


def row(name: str, cost: Cost, own: float) -> str:
    """Return a line of the table."""
    wire = "-" if cost.wire is None else f"{cost.wire:,.0f}"
    return (
        f"| {name} | {cost.core:.2%} | {cost.core / own:.1f} x | {cost.pss / 1e6:.0f} MB"
        f" | {cost.descriptors} | {wire} |"
    )


def main() -> int:
    """Print the table; return 1 where the agent passes a budget."""
    seconds = float(sys.argv[1]) if sys.argv[1:] else SECONDS
    over = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sim.build(folder)
        gpus = sim.Sim(folder / "state", GPUS)
        env = {**os.environ, **gpus.env, "LD_LIBRARY_PATH": name, "LC_ALL": "C"}
        for crowd in CROWDS:
            if crowd.kernel_threads and os.geteuid():
                print(f"\n{crowd.name}: not measured, as only root can start them")
                continue
            print(
                f"\n{crowd.name}\n\n| | CPU of one core | to the agent | PSS | descriptors | wire, bytes/s |"
            )
            print("|---|---:|---:|---:|---:|---:|")
            with gathered(crowd) as pids:
                for gpu, pid in enumerate(pids):
                    gpus.phase(gpu, "compute")
                    gpus.process(gpu, pid, 60_000_000_000)
                own = agent(env, seconds)
                print(row("**gpuwatch agent**", own, own.core), flush=True)
                for tool, (words, scrape) in others().items():
                    print(row(tool, other(words, env, seconds, scrape), own.core), flush=True)
                for gpu, pid in enumerate(pids):
                    gpus.left(gpu, pid)
            if passed := own.over():
                over = True
                print(f"\nover budget: {', '.join(passed)}")
    print(
        f"\nbudget: {CORE_BUDGET:.0%} of one core, {PSS_BUDGET / 1e6:.0f} MB,"
        f" {DESCRIPTOR_BUDGET} descriptors, {WIRE_BUDGET} bytes a tick"
    )
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
