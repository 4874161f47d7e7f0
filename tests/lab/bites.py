"""Shows that every fault of the lab bites, and that it is gone when lifted; without gpuwatch.

    python tests/lab/bites.py [WORD...]     # all faults, or those whose names contain a word

Needs root and the Debian packages of debian-packages.txt. Takes about five minutes.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab import job, namespaces, store, uml
from lab.faults.load import ClockStep, Competition, Frozen, NoSshd, Quota, Stopped
from lab.faults.look import ToothlessError
from lab.faults.network import Delay, Flap, Loss, Rate
from lab.faults.storage import FullDisk, SlowDisk, SlowNfs, SlowObjects
from lab.node import LOCAL, SHARED, Node
from lab.scenario import Fault

LAB = "gwbites"
NAMES = ("gpu01", "gpu02", "gpu03")
LIFTED_S = 40.0
"""Seconds in which a fault must be gone once lifted: TCP backs off for some."""
ON_DISK: tuple[Fault, ...] = (
    Loss("gpu02", 3),
    Loss("gpu02", 3, "ingress"),
    Loss("gpu02", 5, "gpu03"),
    Delay("gpu02", 40),
    Delay("gpu02", 30, jitter_ms=20),
    Rate("gpu02", 40),
    Rate("gpu02", 40, "ingress"),
    Rate("", 40),
    Flap("gpu02"),
    SlowDisk("gpu02", 40),
    FullDisk("gpu02"),
    Competition("gpu02"),
    Quota("gpu02", 15),
    Stopped("gpu02"),
    NoSshd("gpu02"),
    ClockStep("gpu02", 3600),
    Frozen("gpu02"),
)
ON_NFS: tuple[Fault, ...] = (SlowNfs(),)
ON_OBJECTS: tuple[Fault, ...] = (SlowObjects(400),)
ON_FUSE: tuple[Fault, ...] = (SlowDisk(store.STORE, 40),)
ON_HOST: tuple[Fault, ...] = (
    Rate("gpu02", 40),
    Flap("gpu02"),
    Quota("gpu02", 15),
    Stopped("gpu02"),
)


def prove(fault: Fault, nodes: Sequence[Node]) -> None:
    """Apply a fault, look, lift it, and look until it is gone."""
    fault.apply(nodes)
    try:
        told = fault.bites(nodes)
    finally:
        fault.lift(nodes)
    lifted = time.monotonic()
    while True:
        try:
            still = fault.bites(nodes)
        except ToothlessError:
            break
        if time.monotonic() - lifted > LIFTED_S:
            raise RuntimeError(f"{fault.name} is lifted and still bites: {still}")
    print(f"{fault.name}: {told}", flush=True)


def during(
    faults: Sequence[Fault], nodes: Sequence[Node], beside: Sequence[Node] = (), data: str = ""
) -> None:
    """Prove faults while a job trains on the nodes."""
    if not faults:
        return
    for node in nodes:
        (node.home / "job.log").unlink(missing_ok=True)
    ranks = job.train(nodes, data=data or f"{LOCAL}/data")
    try:
        job.await_steps(nodes, 3)
        for fault in faults:
            prove(fault, [*nodes, *beside])
    finally:
        job.stop(ranks)


def main() -> None:
    """Prove the faults that the command line asks for."""

    def asked(faults: Sequence[Fault]) -> list[Fault]:
        return [f for f in faults if not sys.argv[1:] or any(w in f.name for w in sys.argv[1:])]

    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as name,
        uml.cluster(LAB, [*NAMES, store.STORE], Path(name)) as guests,
    ):
        *nodes, keeper = guests
        job.equip(nodes)
        during(asked(ON_DISK), nodes)
        store.serve(keeper, Path(name) / "data")
        during(asked(ON_NFS), nodes, [keeper], store.mount(keeper, nodes))
        for node in nodes:
            node.run(["umount", SHARED])
        during(asked(ON_FUSE), nodes, [keeper], store.mount_fuse(keeper, nodes))
        during(asked(ON_OBJECTS), nodes, [keeper], store.address(keeper))
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as name,
        namespaces.cluster(LAB, NAMES[:2], Path(name)) as hosts,
    ):
        job.equip(hosts)
        during(asked(ON_HOST), hosts)


if __name__ == "__main__":
    main()
