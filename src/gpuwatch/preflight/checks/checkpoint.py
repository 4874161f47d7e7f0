"""checkpoint: how long one blocks the job, by what a path takes with fsync."""

from typing import NamedTuple

from gpuwatch.preflight.answers import Moved
from gpuwatch.preflight.check import Check, Limit, Site, not_judged
from gpuwatch.preflight.numbers import rate, size
from gpuwatch.preflight.places import Place, on_all_paths
from gpuwatch.preflight.result import Fact, Finding

__all__ = ["CHECK", "Took", "judged"]

PART, QUICK_PART = 8 * 10**9, 500 * 10**6
"""Bytes that a node writes at most: enough to pass a cache of some GB."""
PATIENCE_S = 60.0
BLOCKED = Limit(
    "blocked", 120.0, "s", "Seconds that one checkpoint may block the job",
    "140 GB (70B parameters in bf16) at 1 GB/s are 140 s; every half hour that is 8 % of the time",
)  # fmt: skip


class Took(NamedTuple):
    """What writing one file, and reading it back, came to."""

    written: Moved
    back: Moved


async def run(site: Site) -> list[Finding]:
    """Write a part on each path; judge by what the whole would take."""
    part = _part(site)

    async def attempt(place: Place) -> Took:
        ask, words = place.errand.ask, {"folder": place.folder, "limit_s": PATIENCE_S}
        written = await ask("write", Moved, 2 * PATIENCE_S + 60, size=part, **words)
        return Took(written, await ask("scan", Moved, PATIENCE_S + 30, **words))

    done, found = await on_all_paths(
        site, "checkpoint", part, attempt, lambda took: took.written.took_s
    )
    whole = site.options.checkpoint_bytes
    return found + [judged(place.subject, took, whole) for place, took in done]


def judged(subject: str, took: Took, whole: float | None) -> Finding:
    """Judge one path; without a size only its rates are told."""
    writes, reads = took.written.speed, took.back.speed
    if not writes:
        return not_judged(subject, f"{subject}: nothing was written in {PATIENCE_S:.0f} s")
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
