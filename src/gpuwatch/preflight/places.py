"""Where storage is tried: each path of the job on one node first, then on the others together."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from gpuwatch.agent.mountinfo import REMOTE
from gpuwatch.preflight.answers import Done, Folder
from gpuwatch.preflight.check import Site, not_judged
from gpuwatch.preflight.errand import Errand, ErrandError
from gpuwatch.preflight.result import Finding

__all__ = ["Place", "class_of", "on_all_paths"]

VIRTUAL = ("/dev/vd", "/dev/xvd")
"""Disks of virtual machines, which say that they turn whatever is behind them."""
FOLDER_S, REMOVE_S = 10.0, 60.0
CROWDED = 5.0
"""Times as long beside another node, from which a path is left to itself."""
T = TypeVar("T")


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


def class_of(place: Place) -> str:
    """Return the class that a place is judged by: network, memory, disk that turns, SSD or NVMe."""
    if REMOTE.match(place.kind):
        return "network"
    if place.kind in {"tmpfs", "ramfs"}:
        return "memory"
    if place.rotational and not place.source.startswith(VIRTUAL):
        return "disk"
    return "NVMe" if "nvme" in place.source else "SSD"


async def on_all_paths(
    site: Site,
    what: str,
    need_bytes: int,
    attempt: Callable[[Place], Awaitable[T]],
    latency: Callable[[T], float],
) -> tuple[list[tuple[Place, T]], list[Finding]]:
    """Try each path on one node, then on a second, then on all others at once.

    A path that is slow for two is left alone by the rest: it stops where the second node's latency is
    CROWDED times the first's.

    Args:
        site: the nodes.
        what: is tried, for progress and findings.
        need_bytes: that are written on a path by a node.
        attempt: what is done on a place.
        latency: of what came of it.
    """
    done: list[tuple[Place, T]] = []
    found: list[Finding] = []
    if not site.job.storage.paths:
        hint = "storage: {paths: [/data, /scratch]} in the job file"
        return done, [not_judged("job", "no path of the job is known", hint)]
    for path in site.job.storage.paths:
        first, *others = site.errands
        site.progress(f"{what}: {path} on {first.node.name}")
        alone: float | None = None
        for group in ([first], others[:1], others[1:]):
            tried = await asyncio.gather(*(_tried(e, path, need_bytes, attempt) for e in group))
            came = [each for each in tried if not isinstance(each, Finding)]
            done += came
            found += [each for each in tried if isinstance(each, Finding)]
            slowest = max((latency(told) for _, told in came), default=0.0)
            if alone and slowest > CROWDED * alone:
                times = f"{slowest / alone:.0f} times as long on another node"
                found.append(not_judged(f"job:{path}", f"stopped: {what} took {times}"))
                break
            alone = alone or slowest
    return done, found


async def _tried(
    errand: Errand, path: str, need_bytes: int, attempt: Callable[[Place], Awaitable[T]]
) -> tuple[Place, T] | Finding:
    try:
        made = await errand.ask("folder", Folder, FOLDER_S, path=path, need_bytes=need_bytes)
        place = Place(errand, path, made.folder, made.type, made.source, made.rotational)
        try:
            return place, await attempt(place)
        finally:
            await errand.ask("remove", Done, REMOVE_S, folder=place.folder)
    except ErrandError as error:
        return not_judged(f"{errand.node.name}:{path}", error.what)
