"""small files: a tree of 100 KB files read in random order by 1, 8 and 32 threads, then once more."""

from typing import Any

from gpuwatch.preflight.check import Check, Limit, Site
from gpuwatch.preflight.places import Place, on_all_paths
from gpuwatch.preflight.result import Fact, Finding

__all__ = ["CHECK", "judged"]

COUNT, QUICK_COUNT, SIZE = 20_000, 2_000, 100_000
WORKERS = (1, 8, 32)
PATIENCE_S, QUICK_S = 60.0, 15.0
WRITE_S = 600.0
FILES_S = Limit(
    "files", 300.0, "files/s for a GPU", "Files a second by 32 threads from the store, a GPU",
    "an image model takes 300 images a second a GPU and more; each is a file where nothing is packed",
)  # fmt: skip


async def run(site: Site) -> list[Finding]:
    """Try each path of the job."""
    count = QUICK_COUNT if site.options.quick else COUNT
    patience_s = QUICK_S if site.options.quick else PATIENCE_S

    async def attempt(place: Place) -> dict[str, Any]:
        await place.errand.ask("tree", WRITE_S, folder=place.folder, count=count, size=SIZE)
        passes = {}
        for number, workers in enumerate(WORKERS):
            passes[f"by {workers}"] = await place.errand.ask(
                "visit",
                patience_s + 30,
                folder=place.folder,
                workers=workers,
                seed=number,
                limit_s=patience_s,
                cold=True,
            )
        passes["again"] = await place.errand.ask(
            "visit",
            patience_s + 30,
            folder=place.folder,
            workers=WORKERS[-1],
            seed=len(WORKERS),
            limit_s=patience_s,
            cold=False,
        )
        return {**passes, "p99_ms": passes["by 8"]["p99_ms"]}

    done, found = await on_all_paths(site, "small files", count * SIZE, attempt, "p99_ms")
    for place, passes in done:
        gpus = await site.gpus_of(place.errand)
        found.append(judged(place.subject, passes, gpus))
    return found


def judged(subject: str, passes: dict[str, Any], gpus: int) -> Finding:
    """Judge what the passes say; files a second from the cache are only told."""
    speeds = {
        name: told["files"] / told["took_s"]
        for name, told in passes.items()
        if isinstance(told, dict) and told.get("took_s")
    }
    text = f"{subject}: " + ", ".join(
        f"{speeds[f'by {n}']:,.0f} files/s by {n}" for n in WORKERS if f"by {n}" in speeds
    )
    many = f"by {WORKERS[-1]}"
    text += f" (p99 {passes[many]['p99_ms'] or 0:.3g} ms); {speeds.get('again', 0):,.0f} once they are cached"
    need = FILES_S.value * gpus
    facts = (
        Fact("files", speeds.get(many), "/s", need or None),
        Fact("p99", passes[many]["p99_ms"], "ms"),
    )
    if need and speeds.get(many, 0.0) < need:
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
