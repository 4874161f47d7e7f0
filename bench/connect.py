"""What it costs the viewer to reach many nodes, and to keep them streaming.

    python bench/connect.py [NODES [SECONDS]]

The nodes are asyncssh servers, all in one process beside the viewer's: each takes a login, answers
the start command as an interpreter does, takes the agent's sources, and then sends what an agent of
the lab recorded, a frame a second. The viewer is gpuwatch's own feed, with the cluster that the judge
looks at; no judge, no screen and no recording. CPU is the viewer's, in user and system mode; programs that it
starts (`ssh -G`, once a node) are told apart.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import asyncssh

import gpuwatch.recording
from gpuwatch.agent import catalogue, frame
from gpuwatch.feed.live import Live
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Link, Sample, Tick
from gpuwatch.transport.node import Node, Ssh

SOURCE = Path(__file__).parents[1] / "recordings/net-loss"
NODES = 200
SECONDS = 20.0
PATIENCE_S = 120.0
CPU_BUDGET_MS = 12.0
FACTS = {"hostname": "bench", "kernel": "6.18", "addresses": "127.0.0.1"}


def recorded() -> list[frame.Rows]:
    """Return what one node read, second by second."""
    found = []
    for event in gpuwatch.recording.open(SOURCE).events():
        if isinstance(event, Sample) and event.node == "gpu02":
            tables = zip(catalogue.SCOPES, event.tables, strict=True)
            found.append({s: {r.labels: list(r.values) for r in rows} for s, rows in tables})
    return found


class Agent:
    """What a node sends: the greeting, the names, and a frame a second."""

    def __init__(self, readings: list[frame.Rows]) -> None:
        self._readings = readings
        self._names = frame.Names(catalogue.SCOPES)
        self._beat = (0, 0)

    def greeting(self) -> bytes:
        """Return the first message."""
        return frame.pack(["hello", catalogue.SCHEMA, os.urandom(8).hex(), "boot", FACTS])

    def heard(self, line: bytes) -> None:
        """Take a heartbeat."""
        words = line.split()
        if len(words) > 1 and words[0] == b"beat":
            self._beat = int(words[1]), _now_us()

    def frames(self) -> Iterator[bytes]:
        """Yield frames, over and over."""
        sequence = 0
        while True:
            rows = self._readings[sequence % len(self._readings)]
            told = b""
            if self._names.settle(rows):
                told = frame.pack(self._names.message(catalogue.SCHEMA))
            stamps = (_now_us(), time.time_ns() // 1000, *self._beat)
            scopes = catalogue.SCOPES
            yield told + frame.pack(
                frame.data(catalogue.SCHEMA, sequence, stamps, self._names, scopes, rows)
            )
            sequence += 1


def _now_us() -> int:
    return time.monotonic_ns() // 1000


class Anybody(asyncssh.SSHServer):
    """Lets everybody in."""

    def begin_auth(self, username: str) -> bool:  # noqa: ARG002 - asyncssh names it
        """Ask for nothing."""
        return False


async def serve(count: int) -> None:
    """Be so many nodes; print their ports and their host key."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    readings = recorded()

    async def run(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        agent = Agent(readings)
        marker = (process.command or "").split()[-1].rstrip('"')
        process.stdout.write(marker[::-1].encode())
        await process.stdin.readexactly(int(await process.stdin.readline()))
        header = json.loads(await process.stdin.readline())
        await process.stdin.readexactly(header["size"])
        process.stdout.write(agent.greeting())
        sending = asyncio.create_task(_send(process, agent))
        while line := await process.stdin.readline():
            agent.heard(line)
        sending.cancel()
        process.exit(0)

    ports = []
    for _ in range(count):
        server = await asyncssh.listen(
            "127.0.0.1", 0, server_factory=Anybody, server_host_keys=[key],
            process_factory=run, encoding=None,
        )  # fmt: skip
        ports.append(server.get_port())
    public = key.export_public_key("openssh").decode().strip()
    print(json.dumps({"ports": ports, "key": public}), flush=True)
    await asyncio.Event().wait()


async def _send(process: "asyncssh.SSHServerProcess[bytes]", agent: Agent) -> None:
    start = time.monotonic()
    for number, content in enumerate(agent.frames(), 1):
        process.stdout.write(content)
        await asyncio.sleep(start + number - time.monotonic())


class Figures:
    """What was measured."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.cpu_s = _cpu_s()
        self.first_s: dict[str, float] = {}
        self.samples = 0
        self.late_ms: list[float] = []
        self.lost = 0


async def watch(nodes: list[Node], seconds: float) -> None:
    """Connect to all, stream for a while, and print what it took."""
    live, cluster, figures = Live(nodes), Cluster([node.name for node in nodes], 1.0), Figures()
    connected: tuple[float, float] | None = None
    steady_s = 0.0
    due_us = 0
    async for event in live:
        cluster.apply(event)
        now = time.monotonic()
        if isinstance(event, Sample):
            figures.samples += connected is not None
            figures.first_s.setdefault(event.node, now - figures.began_s)
        elif isinstance(event, Tick):
            cluster.view(event)
            figures.late_ms += (
                [abs(event.arrived_us - due_us) / 1e3] if due_us and connected else []
            )
            due_us = event.arrived_us + 1_000_000
        elif isinstance(event, Link):
            figures.lost += event.state in ("lost", "refused")
        if connected is None and len(figures.first_s) == len(nodes):
            connected = now - figures.began_s, _cpu_s() - figures.cpu_s
            steady_s, figures.cpu_s = now, _cpu_s()
        if (connected and now - steady_s >= seconds) or now - figures.began_s > PATIENCE_S:
            break
    steady_cpu_s, passed_s = _cpu_s() - figures.cpu_s, time.monotonic() - steady_s
    await live.close()
    told(len(nodes), figures, connected, steady_cpu_s / passed_s)


def told(count: int, figures: Figures, connected: tuple[float, float] | None, share: float) -> None:
    """Print the table."""
    if connected is None:
        sys.exit(f"{len(figures.first_s)} of {count} nodes stream after {PATIENCE_S:.0f} s")
    times = sorted(figures.first_s.values())
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = (
        ("first samples, half of the nodes", f"{median(times):.1f} s"),
        ("first samples, all nodes", f"{times[-1]:.1f} s"),
        ("CPU a node until all stream (budget 12 ms)", f"{1e3 * connected[1] / count:.1f} ms"),
        ("the same of programs started", f"{1e3 * (children.ru_utime + children.ru_stime) / count:.1f} ms"),
        ("CPU while streaming", f"{share:.1%} of a core, {1e3 * share / count:.2f} ms a node a second"),
        ("memory, at most", f"{memory_mb:.0f} MB"),
        ("ticks late, at most", f"{max(figures.late_ms, default=0.0):.0f} ms"),
        ("links lost or refused", str(figures.lost)),
    )  # fmt: skip
    print(f"{count} nodes\n\n| | |\n|---|---:|")
    for name, figure in rows:
        print(f"| {name} | {figure} |")


def _cpu_s() -> float:
    return time.process_time()


def main() -> int:
    """Start the nodes, and watch them."""
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(int(sys.argv[2])))
        return 0
    count = int(sys.argv[1]) if sys.argv[1:] else NODES
    seconds = float(sys.argv[2]) if sys.argv[2:] else SECONDS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16 * count + 256)), hard))
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(count)], stdout=subprocess.PIPE, text=True
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_STATE_HOME"] = folder
            assert server.stdout
            said = json.loads(server.stdout.readline())
            known = Path(folder) / "known_hosts"
            known.write_text("".join(f"[127.0.0.1]:{p} {said['key']}\n" for p in said["ports"]))
            ssh = Ssh(known_hosts=known)
            nodes = [
                Node(name=f"n{number:03}", host="127.0.0.1", port=port, user="ann", ssh=ssh)
                for number, port in enumerate(said["ports"])
            ]
            asyncio.run(watch(nodes, seconds))
    finally:
        server.kill()
        server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
