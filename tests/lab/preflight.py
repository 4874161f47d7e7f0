"""`make lab-preflight`: the checks before a job on nodes in namespaces, with real faults and real tools.

Four nodes behind two switches with an uplink between, 1 Gbit/s each; iperf3, fio and ping are real. Each
fault is planted alone; what preflight says must name it, and nothing else. Last, its figures are held
against the same tools run by hand.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.job.types import Job, JobNode, Network, Storage
from gpuwatch.preflight.check import Check, Options, Site
from gpuwatch.preflight.checks import bandwidth, checkpoint, links, round_trip, storage
from gpuwatch.preflight.errand import Errand
from gpuwatch.preflight.result import Result
from gpuwatch.preflight.run import opened, run
from gpuwatch.transport.node import Node
from gpuwatch.transport.transports import Transports

ADDRESSES = {f"gpu{number:02}": f"10.98.0.{number}" for number in range(1, 5)}
SWITCHES = {"gpu01": "pf-a", "gpu02": "pf-a", "gpu03": "pf-b", "gpu04": "pf-b"}
RATE, SHARED = "1gbit", "1200mbit"
"""Of each port, and of the uplink where it is narrow: 60 % of what two nodes send."""
BUCKET = ("burst", "256kb", "latency", "20ms")
SLOW_DISK = Path("/sys/fs/cgroup/blkio/gpuwatch-preflight")
LOSS = "add table inet loss; add chain inet loss in { type filter hook input priority 0; }; add rule inet loss in ip saddr %s numgen random mod 100 < 5 drop"
NETWORK: tuple[Check, ...] = (links.CHECK, round_trip.CHECK, bandwidth.CHECK)
DISK: tuple[Check, ...] = (storage.CHECK, checkpoint.CHECK)
NOISE = 0.15
TIMES = 3


@dataclass(frozen=True)
class Fault:
    """One fault: commands that plant it, checks to run, and (check, subject) that may be said."""

    name: str
    commands: tuple[str, ...] = ()
    checks: tuple[Check, ...] = NETWORK
    subjects: frozenset[str] = frozenset()
    word: str = ""


FAULTS = (
    Fault("healthy", checks=(*NETWORK, *DISK)),
    Fault("a node sends at 400 Mbit/s", (f"ip netns exec 10.98.0.2 tc qdisc replace dev eth0 root tbf rate 400mbit {' '.join(BUCKET)}",), subjects=frozenset({"gpu02"})),
    Fault("5 % of packets lost from one node to another", (f"ip netns exec 10.98.0.3 nft {LOSS % '10.98.0.2'}",), subjects=frozenset({"gpu02 <-> gpu03", "gpu02 -> gpu03", "gpu03 -> gpu02"})),
    Fault("another MTU", ("ip -n 10.98.0.4 link set eth0 mtu 1400",), checks=(links.CHECK,), subjects=frozenset({"gpu04"}), word="MTU"),
    Fault("the uplink carries 60 % of the sum", tuple(f"ip netns exec {switch} tc qdisc add dev uplink root tbf rate {SHARED} {' '.join(BUCKET)}" for switch in ("pf-a", "pf-b")), subjects=frozenset({"job"}), word="oversubscribed"),
)  # fmt: skip
"""A port of another speed can't be had of a veth, which always tells 10 Gb/s: tests/preflight has it."""


def sh(line: str) -> str:
    """Run one line; what it printed."""
    done = subprocess.run(["sh", "-c", line], check=True, capture_output=True, text=True)
    return done.stdout


@contextmanager
def cabled() -> Iterator[None]:
    """Lay the cables, and take all away in the end."""
    try:
        for switch in sorted(set(SWITCHES.values())):
            sh(
                f"ip netns add {switch} && ip -n {switch} link add name br0 type bridge && ip -n {switch} link set br0 up"
            )
        sh("ip -n pf-a link add name uplink type veth peer name uplink netns pf-b")
        for switch in ("pf-a", "pf-b"):
            sh(f"ip -n {switch} link set uplink master br0 up")
        for name, address in ADDRESSES.items():
            switch = SWITCHES[name]
            sh(
                f"ip netns add {address} && ip -n {switch} link add name {name} type veth peer name eth0 netns {address}"
            )
            sh(
                f"ip -n {switch} link set {name} master br0 up && ip -n {address} addr add {address}/24 dev eth0"
            )
            sh(f"ip -n {address} link set eth0 up && ip -n {address} link set lo up")
            sh(
                f"ip netns exec {address} tc qdisc add dev eth0 root tbf rate {RATE} {' '.join(BUCKET)}"
            )
        yield
    finally:
        for netns in (*ADDRESSES.values(), *sorted(set(SWITCHES.values()))):
            with suppress(subprocess.CalledProcessError):
                sh(f"ip netns del {netns}")


def nodes(slow_disk: str = "") -> list[Node]:
    """Return the nodes; one of them may start in a cgroup whose disk is slow."""
    found = []
    for name, address in ADDRESSES.items():
        # Before the namespace is entered: there `ip` mounts a /sys without cgroups.
        enter = f"echo $$ >{SLOW_DISK}/cgroup.procs && " if name == slow_disk else ""
        enter += 'exec ip netns exec {node} sh -c "$0"'
        words = ("sh", "-c", enter, "{agent}")
        found.append(Node(name=name, host=address, transport="command", command=words))
    return found


async def checked(checks: Sequence[Check], path: Path, slow_disk: str = "") -> Result:
    """Run some checks as the command does."""
    transports = Transports()
    errands = [Errand(node, transports) for node in nodes(slow_disk)]
    job = Job(
        name="lab", nodes=tuple(JobNode(name=n, host=a) for n, a in ADDRESSES.items()),
        network=Network(line_rate={"eth0": 1e9}), storage=Storage(paths=(str(path),)),
    )  # fmt: skip
    try:
        there, unreached = await opened(errands)
        return await run(Site(job, there, Options(quick=True), lambda _: None), checks, unreached)
    finally:
        await asyncio.gather(*(errand.close() for errand in errands))
        await transports.close()


def told(name: str, result: Result, subjects: frozenset[str], word: str = "") -> bool:
    """Print what was said; tell whether it names what may be said, and that alone."""
    faults = [finding for _, finding in result.faults()]
    named = {finding.subject for finding in faults}
    right = bool(named & subjects) if subjects else not named
    right = right and named <= subjects and all(word in finding.text for finding in faults)
    print(
        f"{'ok  ' if right else 'BAD '} {name}: {'; '.join(f.text for f in faults) or 'no fault'}",
        flush=True,
    )
    return right


@contextmanager
def throttled(path: Path) -> Iterator[None]:
    """Let what starts in a cgroup read 50 times a second from the disk of a path (cgroup v1, blkio)."""
    device = path.stat().st_dev
    SLOW_DISK.mkdir()
    try:
        (SLOW_DISK / "blkio.throttle.read_iops_device").write_text(
            f"{device >> 8}:{device & 255} 50"
        )
        yield
    finally:
        while (SLOW_DISK / "cgroup.procs").read_text():
            time.sleep(0.1)  # the watcher clears up yet
        SLOW_DISK.rmdir()


def by_hand() -> list[str]:
    """Run iperf3 and ping between two nodes as a person would, beside what preflight says."""
    here, there = "10.98.0.1", "10.98.0.2"
    server = subprocess.Popen(
        ["ip", "netns", "exec", there, "iperf3", "-s", "-1", "-p", "6201"],
        stdout=subprocess.DEVNULL,
    )
    try:
        words = f"ip netns exec {here} sh -c 'until iperf3 -c {there} -p 6201 -t 5 -P 4 -J >/dev/shm/by-hand.json; do sleep 0.1; done'"
        sh(words)
        said = json.loads(Path("/dev/shm/by-hand.json").read_text())
    finally:
        server.wait(10)
    rate = said["end"]["sum_received"]["bits_per_second"]
    trip = round_trip.parsed(sh(f"ip netns exec {here} ping -n -c 20 -i 0.05 {there}"))
    result = asyncio.run(checked((round_trip.CHECK, bandwidth.CHECK), Path("/")))
    facts = {
        fact.name: fact.value
        for outcome in result.outcomes
        for finding in outcome.findings
        for fact in finding.facts
    }
    mine = float(facts["bandwidth"] or 0)
    print(
        f"by hand {rate / 1e9:.3f} Gb/s and {trip.median_ms if trip else None} ms; preflight {mine / 1e9:.3f} Gb/s and {facts['median']} ms"
    )
    return [] if abs(mine - rate) <= NOISE * rate else ["the figures differ"]


def main() -> int:
    """Plant each fault; 1 where one was not found, or something else was."""
    bad: list[str] = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        path = Path(name)
        for fault in FAULTS:
            with cabled():
                for command in fault.commands:
                    sh(re.sub(r"(nft) (.*)$", r"\1 '\2'", command))
                if not told(
                    fault.name, asyncio.run(checked(fault.checks, path)), fault.subjects, fault.word
                ):
                    bad.append(fault.name)
        with cabled():
            if SLOW_DISK.parent.is_dir():
                with throttled(path):
                    result = asyncio.run(checked((storage.CHECK,), path, slow_disk="gpu03"))
                    if not told(
                        "a disk of 50 reads a second", result, frozenset({f"gpu03:{path}"})
                    ):
                        bad.append("slow disk")
            bad += by_hand()
        left = list(path.iterdir())
        if left:
            bad.append(f"left behind: {left}")
    print("; ".join(bad) or "each fault was named, and nothing else")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
