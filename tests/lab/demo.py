"""Make the demo's recording: a real fault on a real network, recorded by gpuwatch itself.

    python tests/lab/demo.py recordings/network-loss

Two nodes, each with its own network, processes and sshd, train together: loaders read and decode
files, gradients go round a ring over TCP. Only the GPU library is simulated. After 30 s the link
towards gpu01, 1 Gb/s before, is held to a sixteenth with a short queue: packets are dropped and
sent again.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab.namespaces import cluster
from lab.node import HOME, PYTHON, Node, Process, inside, run
from nvml import sim

LAB = "gwdemo"
NAMES = ("gpu01", "gpu02")
HEALTHY_S = 30
"""Seconds before the fault."""
SECONDS = 110
LINK = ("rate", "1gbit", "burst", "128kb", "limit", "8mb")
FAULT = ("rate", "60mbit", "burst", "20kb", "limit", "200kb")
TRAINER = Path(__file__).with_name("trainer.py")
JOB = """\
job: demo-ring-2
nodes:
{nodes}
ssh: {{user: root, identity: {folder}/identity, known_hosts: {folder}/known_hosts}}
match: trainer.py
network: {{line_rate: {{eth0: 1Gbit}}}}
env: {{LD_LIBRARY_PATH: {home}/lib, GPUWATCH_SIM_STATE: {home}/gpu.state}}
"""


def furnish(node: Node, library: Path) -> None:
    """Give a node its data set, its GPU library and its copy of the trainer."""
    data = node.home / "data"
    data.mkdir()
    chosen = random.Random(node.name)
    for number in range(256):
        (data / f"{number:04}.z").write_bytes(zlib.compress(chosen.randbytes(1 << 16), 1))
    shutil.copytree(library, node.home / "lib")
    shutil.copy(TRAINER, node.home)
    (node.home / "nvml").mkdir()
    shutil.copy(sim.__file__, node.home / "nvml")


def shape(node: Node, tbf: tuple[str, ...]) -> None:
    """Let what goes to a node pass through a token bucket filter (tc-tbf(8))."""
    run("tc", "-n", LAB, "qdisc", "replace", "dev", node.port, "root", "tbf", *tbf)


def train(nodes: Sequence[Node]) -> list[Process]:
    """Start one rank on each node."""
    peers = ",".join(node.address for node in nodes)
    ranks = []
    for rank, node in enumerate(nodes):
        env = {
            "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(len(nodes)),
            "MASTER_ADDR": nodes[0].address, "MASTER_PORT": "29500", "CUDA_VISIBLE_DEVICES": "0",
        }  # fmt: skip
        words = [PYTHON, f"{HOME}/trainer.py", "--peers", peers, "--data", f"{HOME}/data",
                 "--state", f"{HOME}/gpu.state"]  # fmt: skip
        ranks.append(node.start(words, env))
    return ranks


def first_steps(nodes: Sequence[Node]) -> None:
    """Wait until every rank has made a few steps."""
    deadline = time.monotonic() + 60
    while not all(b"step 5 " in (node.home / "job.log").read_bytes() for node in nodes):
        if time.monotonic() > deadline:
            logs = b"".join((node.home / "job.log").read_bytes() for node in nodes)
            sys.exit(f"the job did not start: {logs.decode(errors='replace')}")
        time.sleep(0.2)


def make(out: Path) -> None:
    """Bring the cluster up, train, record, break the link, and keep the recording."""
    with tempfile.TemporaryDirectory() as name, cluster(LAB, NAMES, Path(name)) as nodes:
        folder = Path(name)
        library = folder / "lib"
        library.mkdir()
        sim.build(library)
        for node in nodes:
            furnish(node, library)
            shape(node, LINK)
        listing = "\n".join(f"  - {{name: {n.name}, host: {n.address}}}" for n in nodes)
        job = folder / "job.yaml"
        job.write_text(JOB.format(nodes=listing, folder=folder, home=HOME))
        ranks = train(nodes)
        try:
            first_steps(nodes)
            recorder = subprocess.Popen(
                inside(LAB, sys.executable, "-m", "gpuwatch", "record", str(job), "--out",
                       str(folder / "recording"), "--for", f"{SECONDS}s"),
            )  # fmt: skip
            time.sleep(HEALTHY_S)
            shape(nodes[0], FAULT)
            if recorder.wait() != 0:
                sys.exit("gpuwatch record failed")
        finally:
            for rank in ranks:
                rank.kill()
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder / "recording", out, ignore=shutil.ignore_patterns(".lock"))


def main() -> None:
    """Make it where the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    make(parser.parse_args().out)


if __name__ == "__main__":
    main()
