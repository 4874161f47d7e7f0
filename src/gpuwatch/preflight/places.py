"""Where storage is tried: each path of the job on one node first, then on the others together."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from gpuwatch.preflight.check import Site, not_judged
from gpuwatch.preflight.errand import Errand, ErrandError
from gpuwatch.preflight.result import Finding

__all__ = ["NETWORK", "Place", "class_of", "on_all_paths"]

NETWORK = (
    "nfs",
    "nfs4",
    "lustre",
    "ceph",
    "cifs",
    "smb3",
    "beegfs",
    "gpfs",
    "wekafs",
    "9p",
    "virtiofs",
    "glusterfs",
    "fuse",
)
"""Types of file systems that something beyond the node's own disks answers for."""
VIRTUAL = ("/dev/vd", "/dev/xvd")
"""Disks of virtual machines, which say that they turn whatever is behind them."""
FOLDER_S = 10.0


class Place(NamedTuple):
    """A folder of the errand's own on a path of the job.

    Attributes:
        errand: on whose node.
        path: of the job.
        folder: of the errand, on it; removed in the end.
        kind: type of file system.
        source: what is mounted there.
        rotational: whether its disk turns; None: no disk is behind it.
    """

    errand: Errand
    path: str
    folder: str
    kind: str
    source: str
    rotational: bool | None

    @property
    def subject(self) -> str:
        """Its name in findings."""
        return f"{self.errand.node.name}:{self.path}"


Try = Callable[[Place], Awaitable[dict[str, Any]]]


def class_of(place: Place) -> str:
    """Return the class that a place is judged by: network, memory, disk that turns, SSD or NVMe."""
    if place.kind.partition(".")[0] in NETWORK or place.kind.startswith("fuse"):
        return "network"
    if place.kind in {"tmpfs", "ramfs"}:
        return "memory"
    if place.rotational and not place.source.startswith(VIRTUAL):
        return "disk"
    return "NVMe" if "nvme" in place.source else "SSD"


async def on_all_paths(
    site: Site, what: str, need_bytes: int, attempt: Try, latency: str
) -> tuple[list[tuple[Place, dict[str, Any]]], list[Finding]]:
    """Try each path on one node first, then on all others at once where that node's stayed quick.

    Shared storage that is slow for many at once is left alone by the rest: it stops where the second
    node's latency is five times the first's.

    Args:
        site: the nodes.
        what: is tried, for progress and findings.
        need_bytes: that are written on a path by a node.
        attempt: what is done on a place.
        latency: which of its figures is a latency.
    """
    done: list[tuple[Place, dict[str, Any]]] = []
    found: list[Finding] = []
    if not site.job.storage.paths:
        return done, [
            not_judged(
                "job",
                "no path of the job is known",
                "storage: {paths: [/data, /scratch]} in the job file",
            )
        ]
    for path in site.job.storage.paths:
        first, *others = site.errands
        site.progress(f"{what}: {path} on {first.node.name}")
        groups = [[first], others[:1], others[1:]]
        alone: float | None = None
        for group in groups:
            tried = await asyncio.gather(
                *(_tried(errand, path, need_bytes, attempt) for errand in group)
            )
            done += [each for each in tried if not isinstance(each, Finding)]
            found += [each for each in tried if isinstance(each, Finding)]
            slowest = max(
                (each[1].get(latency) or 0.0 for each in tried if not isinstance(each, Finding)),
                default=0.0,
            )
            if alone and slowest > 5 * alone:
                found.append(
                    not_judged(
                        f"job:{path}",
                        f"stopped: {what} took {slowest / alone:.0f} times as long beside another node",
                    )
                )
                break
            alone = alone or slowest
    return done, found


async def _tried(
    errand: Errand, path: str, need_bytes: int, attempt: Try
) -> tuple[Place, dict[str, Any]] | Finding:
    try:
        made = await errand.ask("folder", FOLDER_S, path=path, need_bytes=need_bytes)
        turns = made.get("rotational")
        place = Place(
            errand,
            path,
            str(made["folder"]),
            str(made["type"]),
            str(made["source"]),
            turns if isinstance(turns, bool) else None,
        )
        try:
            return place, await attempt(place)
        finally:
            await errand.ask("remove", 60.0, folder=place.folder)
    except ErrandError as error:
        return not_judged(f"{errand.node.name}:{path}", error.what)
