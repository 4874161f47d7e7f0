"""checkpoint: how long one blocks the job, by what a path takes with fsync."""

from typing import Any

from gpuwatch.preflight.check import Check, Limit, Site
from gpuwatch.preflight.numbers import rate, size
from gpuwatch.preflight.places import Place, on_all_paths
from gpuwatch.preflight.result import Fact, Finding

__all__ = ["CHECK", "judged"]

PART, QUICK_PART = 8 * 10**9, 500 * 10**6
"""Bytes that a node writes at most: enough to pass a cache of some GB."""
PATIENCE_S = 60.0
BLOCKED = Limit(
    "blocked", 120.0, "s", "Seconds that one checkpoint may block the job",
    "140 GB (70B parameters in bf16) at 1 GB/s are 140 s; every half hour that is 8 % of the time",
)  # fmt: skip


async def run(site: Site) -> list[Finding]:
    """Write a part on each path; judge by what the whole would take."""
    part = _part(site)

    async def attempt(place: Place) -> dict[str, Any]:
        written = await place.errand.ask(
            "write", 2 * PATIENCE_S + 60, folder=place.folder, size=part, limit_s=PATIENCE_S
        )
        back = await place.errand.ask(
            "scan", PATIENCE_S + 30, folder=place.folder, limit_s=PATIENCE_S
        )
        return {"write": written, "read": back, "took_s": written["took_s"]}

    done, found = await on_all_paths(site, "checkpoint", part, attempt, "took_s")
    return found + [
        judged(place.subject, told, site.options.checkpoint_bytes) for place, told in done
    ]


def judged(subject: str, told: dict[str, Any], whole: float | None) -> Finding:
    """Judge one path; without a size only its rates are told."""
    writes, reads = (
        told[way]["bytes"] / max(1e-9, told[way]["took_s"]) for way in ("write", "read")
    )
    text = f"{subject} takes {rate(writes)} with fsync, gives back {rate(reads)}"
    facts = [Fact("write", writes, "B/s"), Fact("read_back", reads, "B/s")]
    if whole is None:
        return Finding(
            subject=subject,
            judgement="fine",
            text=f"{text}; --checkpoint-size tells how long yours would block",
            facts=tuple(facts),
        )
    blocked_s = whole / writes
    facts.append(Fact("blocked", blocked_s, "s", BLOCKED.value))
    text = f"{text}: {size(whole)} written by one node block the job for {blocked_s:.3g} s"
    if blocked_s > BLOCKED.value:
        return Finding(
            subject=subject, judgement="fault", text=text, facts=tuple(facts),
            hint="asynchronous or sharded checkpoints (torch.distributed.checkpoint), or to local disks first",
        )  # fmt: skip
    return Finding(subject=subject, judgement="fine", text=text, facts=tuple(facts))


def _part(site: Site) -> int:
    most = QUICK_PART if site.options.quick else PART
    return int(min(most, site.options.checkpoint_bytes or most))


def _load(site: Site) -> str:
    return f"writes {size(_part(site))} to each path with fsync, on one node first, then on the others; removed after"


CHECK = Check(
    name="checkpoint",
    does="writes one file as a checkpoint is written, up to 8 GB, with fsync, and reads it back past the cache",
    judges="a checkpoint of --checkpoint-size that would block the job for too long",
    run=run,
    limits=(BLOCKED,),
    seconds=lambda site: (
        3 * PATIENCE_S * max(1, len(site.job.storage.paths)) * (0.3 if site.options.quick else 1.0)
    ),
    load=_load,
)
