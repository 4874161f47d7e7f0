"""small files: a tree of 100 KB files read in random order by 1, 8 and 32 threads, then once more."""

from typing import NamedTuple

from gpuwatch.preflight.answers import Done, Visited
from gpuwatch.preflight.check import Check, Limit, Site
from gpuwatch.preflight.places import Place, on_all_paths
from gpuwatch.preflight.result import Fact, Finding

__all__ = ["CHECK", "Passes", "judged"]

COUNT, QUICK_COUNT, SIZE = 20_000, 2_000, 100_000
WORKERS = ONE, SOME, MANY = 1, 8, 32
"""Threads of each pass."""
PATIENCE_S, QUICK_S = 60.0, 15.0
WRITE_S = 600.0
FILES_S = Limit(
    "files", 300.0, "files/s for a GPU", "Files a second by 32 threads from the store, a GPU",
    "an image model takes 300 images a second a GPU and more; each is a file where nothing is packed",
)  # fmt: skip


class Passes(NamedTuple):
    """Passes from the store by number of threads, and one more from the cache."""

    cold: dict[int, Visited]
    again: Visited


async def run(site: Site) -> list[Finding]:
    """Try each path of the job."""
    count = _count(site)
    patience_s = QUICK_S if site.options.quick else PATIENCE_S

    async def visit(place: Place, workers: int, seed: int, *, cold: bool) -> Visited:
        return await place.errand.ask(
            "visit", Visited, patience_s + 30, folder=place.folder, workers=workers, seed=seed,
            limit_s=patience_s, cold=cold,
        )  # fmt: skip

    async def attempt(place: Place) -> Passes:
        await place.errand.ask("tree", Done, WRITE_S, folder=place.folder, count=count, size=SIZE)
        cold = {n: await visit(place, n, seed, cold=True) for seed, n in enumerate(WORKERS)}
        return Passes(cold, await visit(place, MANY, len(WORKERS), cold=False))

    done, found = await on_all_paths(
        site, "small files", count * SIZE, attempt, lambda told: told.cold[SOME].p99_ms or 0.0
    )
    for place, passes in done:
        found.append(judged(place.subject, passes, await site.gpus_of(place.errand)))
    return found


def judged(subject: str, passes: Passes, gpus: int) -> Finding:
    """Judge what the passes say; files a second from the cache are only told."""
    many, need = passes.cold[MANY], FILES_S.value * gpus
    speeds = ", ".join(f"{told.speed:,.0f} files/s by {n}" for n, told in passes.cold.items())
    cached = f"{passes.again.speed:,.0f} once they are cached"
    text = f"{subject}: {speeds} (p99 {many.p99_ms or 0:.3g} ms); {cached}"
    facts = (Fact("files", many.speed, "/s", need or None), Fact("p99", many.p99_ms, "ms"))
    if many.speed < need:
        return Finding(
            subject=subject, judgement="fault", text=f"{text}; {gpus} GPUs may want {need:,.0f}", facts=facts,
            hint="pack samples into larger files (tar, WebDataset, MDS, Parquet), or keep them on local disks",
        )  # fmt: skip
    return Finding(subject=subject, judgement="fine", text=text, facts=facts)


def _count(site: Site) -> int:
    return QUICK_COUNT if site.options.quick else COUNT


def _seconds(site: Site) -> float:
    once = (len(WORKERS) + 1) * (QUICK_S if site.options.quick else PATIENCE_S)
    return float(2 * once * max(1, len(site.job.storage.paths)))


def _load(site: Site) -> str:
    return f"writes {_count(site):,} files of 100 KB ({_count(site) * SIZE / 1e9:.2g} GB) to each path and reads them; removed after"


CHECK = Check(
    name="small-files",
    does="writes 20,000 files of 100 KB in folders of a hundred, reads them in random order by 1, 8 and 32 threads with their pages let go, then once more from the cache",
    judges="fewer files a second than the node's GPUs may want",
    run=run,
    limits=(FILES_S,),
    seconds=_seconds,
    load=_load,
)
