"""storage: random and sequential reads by fio on each path of the job, past the page cache."""

import asyncio
from dataclasses import replace
from typing import Annotated, NamedTuple

import msgspec

from gpuwatch.preflight.check import Check, Limit, Site, not_judged, without
from gpuwatch.preflight.errand import ErrandError
from gpuwatch.preflight.numbers import rate, size, upper
from gpuwatch.preflight.places import Place, class_of, on_all_paths
from gpuwatch.preflight.result import Fact, Finding

__all__ = ["CHECK", "Figures", "Reads", "judged", "parsed"]

SIZE, QUICK_SIZE = 2 * 10**9, 250 * 10**6
SECONDS, QUICK = 20, 5
GPU_NEED = Limit(
    "gpu_read", 0.625, "GB/s for a GPU", "Sequential read that a node's GPUs want in all, a GPU",
    "5 GB/s for eight GPUs, as vendors' storage guides ask for image and video training",
)  # fmt: skip
READS = (
    Limit("reads_nvme", 50_000, "/s", "Random 4 KiB reads a second, local NVMe", "a quarter of what data sheets of slow ones tell"),
    Limit("reads_ssd", 2_500, "/s", "The same, SATA or a virtual disk", "clouds sell their plain volumes with 3,000"),
    Limit("reads_disk", 75, "/s", "The same, a disk that turns", "7,200 turns a minute and a seek are 12 ms"),
    Limit("reads_network", 1_000, "/s", "The same, a network or parallel file system", "256 at once at a quarter of a second each"),
)  # fmt: skip
SIBLINGS = Limit(
    "reads_alike", 3.0, "times", "How much slower one node's path is than the quicker quarter of the others'",
    "disks of one kind, and shares of one server, differ by less",
)  # fmt: skip
BY_CLASS = dict(zip(("NVMe", "SSD", "disk", "network"), READS, strict=True))


JOBS = {
    "random": ("--rw=randread", "--bs=4k", "--numjobs=8", "--iodepth=32"),
    "sequential": ("--rw=read", "--bs=1M", "--numjobs=4", "--iodepth=8", "--offset_increment=25%"),
}


class Reads(NamedTuple):
    """What one job of fio came to: reads and bytes a second, milliseconds of a read."""

    iops: float
    bytes_s: float
    mean_ms: float
    p99_ms: float


class Figures(NamedTuple):
    """What a place gives; `direct`: past the page cache, not only after it was let go."""

    random: Reads
    sequential: Reads
    direct: bool


async def run(site: Site) -> list[Finding]:
    """Try each path of the job."""
    lacking = await asyncio.gather(*(without(errand, "fio") for errand in site.errands))
    able = [errand for errand, lack in zip(site.errands, lacking, strict=True) if lack is None]
    found = [lack for lack in lacking if lack is not None]
    if not able:
        return found
    # A mean, as a p99 differs sixfold by chance alone.
    done, more = await on_all_paths(
        replace(site, errands=able), "fio", _size(site), lambda place: _figures(place, site),
        lambda figures: figures.random.mean_ms,
    )  # fmt: skip
    for place, figures in done:
        others = upper(told.random.iops for each, told in done if each.path == place.path)
        found.append(judged(place, figures, others, await site.gpus_of(place.errand)))
    return found + more


async def _figures(place: Place, site: Site) -> Figures:
    """Read at random, then in order; where direct I/O is refused, past a cache that is let go."""
    direct, found = True, {}
    for name in JOBS:
        told = await _reads(place, site, name, direct=direct)
        if isinstance(told, str) and direct:
            direct = False
            told = await _reads(place, site, name, direct=direct)
        if isinstance(told, str):
            raise ErrandError(f"{place.subject}: {told}")
        found[name] = told
    return Figures(found["random"], found["sequential"], direct)


async def _reads(place: Place, site: Site, name: str, *, direct: bool) -> Reads | str:
    """Run one job of fio; return why it failed where it did."""
    seconds = _lasting(site)
    argv = [
        "fio", "--output-format=json", f"--name={name}", f"--filename={place.folder}/fio", f"--size={_size(site)}",
        f"--runtime={seconds}", "--time_based", f"--ioengine={'libaio' if direct else 'psync'}",
        f"--direct={int(direct)}", "--invalidate=1", "--group_reporting", "--thread", *JOBS[name],
    ]  # fmt: skip
    ran = await place.errand.run(argv, seconds + 120.0)
    told = parsed(ran.out) if ran.ended_well else None
    return told or ran.why("fio")


_Amount = Annotated[float, msgspec.Meta(ge=0)]


class _Times(msgspec.Struct):
    mean: _Amount
    max: _Amount
    percentile: dict[str, _Amount] = {}


class _Side(msgspec.Struct):
    iops: _Amount
    bw_bytes: _Amount
    clat_ns: _Times


class _Job(msgspec.Struct):
    read: _Side


class _Report(msgspec.Struct):
    jobs: Annotated[list[_Job], msgspec.Meta(min_length=1)]


_REPORT = msgspec.json.Decoder(_Report)


def parsed(text: str) -> Reads | None:
    """Return what fio's JSON says of reads; None: it is none. Notes may stand before it."""
    try:
        read = _REPORT.decode(text[max(0, text.find("{")) :]).jobs[0].read
    except (msgspec.DecodeError, RecursionError):
        return None
    times = read.clat_ns
    p99 = times.percentile.get("99.000000", times.max)
    return Reads(read.iops, read.bw_bytes, times.mean / 1e6, p99 / 1e6)


def judged(place: Place, figures: Figures, others: float, gpus: int) -> Finding:
    """Judge a place by its class, by what the same path gives on other nodes, and by need."""
    kind, reads, whole = class_of(place), figures.random, figures.sequential.bytes_s
    refuses = "; it refuses direct I/O, so its cache was let go before, not gone round"
    said = (
        f"{place.subject} ({place.kind}, {kind}): {reads.iops:,.0f} random reads a second, p99 "
        f"{reads.p99_ms:.3g} ms, {rate(whole)} in order{'' if figures.direct else refuses}"
    )
    limit, need = BY_CLASS.get(kind), GPU_NEED.value * 1e9 * gpus
    facts = (
        Fact("random_reads", reads.iops, "/s", limit.value if limit else None),
        Fact("random_p99", reads.p99_ms, "ms"),
        Fact("sequential", whole, "B/s", need or None),
    )
    if kind == "memory":
        return not_judged(place.subject, f"{said}; this is memory")
    least = max(limit.value if limit else 0.0, others / SIBLINGS.value)
    if reads.iops < least:
        few = f"{least:,.0f} are little for its kind"
        than = f"{others:,.0f} on other nodes" if others > least else few
        hint = "iostat -x 1 on the node, or the server's own figures, while fio runs"
        return _fault(place, f"{said}: slow, {than}", facts, hint)
    if whole < need:
        hint = "a local cache of the data, more servers or stripes, larger reads; --gpus tells another need"
        return _fault(place, f"{said}: {gpus} GPUs may want {rate(need)}", facts, hint)
    return Finding(subject=place.subject, judgement="fine", text=said, facts=facts)


def _fault(place: Place, text: str, facts: tuple[Fact, ...], hint: str) -> Finding:
    return Finding(subject=place.subject, judgement="fault", text=text, facts=facts, hint=hint)


def _lasting(site: Site) -> int:
    return QUICK if site.options.quick else SECONDS


def _size(site: Site) -> int:
    return QUICK_SIZE if site.options.quick else SIZE


def _seconds(site: Site) -> float:
    once = len(JOBS) * _lasting(site) + 15
    return float(3 * once * max(1, len(site.job.storage.paths)))


def _load(site: Site) -> str:
    paths = ", ".join(site.job.storage.paths)
    if not paths:
        return ""
    return f"writes {size(_size(site))} to each of {paths} and reads them; on one node first, then on the others; removed after"


CHECK = Check(
    name="storage",
    does="fio: random reads of 4 KiB (8 jobs, depth 32) and reads in order of 1 MiB, direct; where a mount refuses that, its cache is let go before and that is said",
    judges="few reads a second for the class of the place (NVMe, SSD, disk, network), a third of what the same path gives other nodes, or too few bytes a second for the node's GPUs",
    run=run,
    limits=(GPU_NEED, *READS, SIBLINGS),
    seconds=_seconds,
    load=_load,
)
