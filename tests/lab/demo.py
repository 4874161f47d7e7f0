"""Make the demo's recording: a real fault on a real network, recorded by gpuwatch itself.

    python tests/lab/demo.py recordings/network-loss

Two nodes, each with its own network, processes and sshd, train together: loaders read and decode
files, gradients go round a ring over TCP. Only the GPU library is simulated. After 30 s the link
towards gpu01, 1 Gb/s before, is held to a sixteenth with a short queue: packets are dropped and
sent again.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab import job
from lab.namespaces import cluster
from lab.node import Node, inside, run

LAB = "gwdemo"
NAMES = ("gpu01", "gpu02")
HEALTHY_S = 30
"""Seconds before the fault."""
SECONDS = 110
GRADIENTS = "8e6"
"""Bytes that each step reduces: some time on the link, much on the broken one."""
LINK = ("rate", "1gbit", "burst", "128kb", "limit", "8mb")
FAULT = ("rate", "60mbit", "burst", "20kb", "limit", "200kb")


def shape(node: Node, tbf: tuple[str, ...]) -> None:
    """Let what goes to a node pass through a token bucket filter (tc-tbf(8))."""
    run("tc", "-n", LAB, "qdisc", "replace", "dev", node.port, "root", "tbf", *tbf)


def make(out: Path) -> None:
    """Bring the cluster up, train, record, break the link, and keep the recording."""
    with tempfile.TemporaryDirectory() as name, cluster(LAB, NAMES, Path(name)) as nodes:
        folder = Path(name)
        job.equip(nodes, folder)
        for node in nodes:
            shape(node, LINK)
        file = job.job_file(nodes, folder, "demo-ring-2")
        launchers = job.train(nodes, arguments=("--bytes", GRADIENTS))
        try:
            job.await_steps(nodes, 5)
            recorder = subprocess.Popen(
                inside(LAB, sys.executable, "-m", "gpuwatch", "record", str(file), "--out",
                       str(folder / "recording"), "--for", f"{SECONDS}s"),
            )  # fmt: skip
            time.sleep(HEALTHY_S)
            shape(nodes[0], FAULT)
            if recorder.wait() != 0:
                sys.exit("gpuwatch record failed")
        finally:
            job.stop(launchers)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder / "recording", out, ignore=shutil.ignore_patterns(".lock"))


def main() -> None:
    """Make it where the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    make(parser.parse_args().out)


if __name__ == "__main__":
    main()
