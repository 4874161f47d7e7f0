"""storage: random and sequential reads by fio on each path of the job, past the page cache."""

import json
from typing import Any

from gpuwatch.preflight.check import Check, Limit, Site, not_judged, without
from gpuwatch.preflight.errand import ErrandError
from gpuwatch.preflight.numbers import rate, upper
from gpuwatch.preflight.places import Place, class_of, on_all_paths
from gpuwatch.preflight.result import Fact, Finding

__all__ = ["CHECK", "judged", "parsed"]

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


async def run(site: Site) -> list[Finding]:
    """Try each path of the job."""
    found: list[Finding] = []
    able = []
    for errand in site.errands:
        lack = await without(errand, "fio")
        if lack is None:
            able.append(errand)
        else:
            found.append(lack)
    if not able:
        return found
    seconds = QUICK if site.options.quick else SECONDS
    size = QUICK_SIZE if site.options.quick else SIZE

    async def attempt(place: Place) -> dict[str, Any]:
        return await _fio(place, size, seconds)

    only = Site(site.job, able, site.options, site.progress, site.measured)
    done, more = await on_all_paths(only, "fio", size, attempt, "latency_ms")
    for place, figures in done:
        others = upper(f["random_iops"] for p, f in done if p.path == place.path)
        found.append(judged(place, figures, others, await site.gpus_of(place.errand)))
    return found + more


async def _fio(place: Place, size: int, seconds: int) -> dict[str, Any]:
    """Read at random, then in order; where direct I/O is refused, past a cache that is let go."""
    direct = True
    figures: dict[str, Any] = {}
    jobs = (
        ("random", "--rw=randread", "--bs=4k", "--numjobs=8", "--iodepth=32"),
        (
            "sequential",
            "--rw=read",
            "--bs=1M",
            "--numjobs=4",
            "--iodepth=8",
            "--offset_increment=25%",
        ),
    )
    for name, *words in jobs:
        while True:
            argv = [
                "fio", "--output-format=json", f"--name={name}", f"--filename={place.folder}/fio", f"--size={size}",
                f"--runtime={seconds}", "--time_based", "--ioengine=libaio" if direct else "--ioengine=psync",
                f"--direct={int(direct)}", "--invalidate=1", "--group_reporting", "--thread", *words,
            ]  # fmt: skip
            ran = await place.errand.run(argv, seconds + 120.0)
            told = parsed(ran.out)
            if told is not None and ran.ended_well:
                break
            if not direct:
                raise ErrandError(f"{place.subject}: {ran.why('fio')}")
            direct = False
        figures |= {f"{name}_{key}": value for key, value in told.items()}
    figures["direct"] = direct
    figures["latency_ms"] = figures["random_mean_ms"]  # a p99 differs sixfold by chance alone
    return figures


def parsed(text: str) -> dict[str, float] | None:
    """Return reads a second, bytes a second and milliseconds (mean, p99) of fio's JSON; None: it is none."""
    try:
        read = json.loads(text[text.index("{") :])["jobs"][0]["read"]
        times = read.get("clat_ns") or read["lat_ns"]
        return {
            "iops": float(read["iops"]), "bytes_s": float(read["bw_bytes"]), "mean_ms": float(times["mean"]) / 1e6,
            "p99_ms": float(times.get("percentile", {}).get("99.000000", times["max"])) / 1e6,
        }  # fmt: skip
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def judged(place: Place, figures: dict[str, Any], others: float, gpus: int) -> Finding:
    """Judge a place by its class, by what the same path gives on other nodes, and by need."""
    kind = class_of(place)
    cached = (
        ""
        if figures["direct"]
        else "; it refuses direct I/O, so its cache was let go before, not gone round"
    )
    said = (
        f"{place.subject} ({place.kind}, {kind}): {figures['random_iops']:,.0f} random reads a second, p99 "
        f"{figures['random_p99_ms']:.3g} ms, {rate(figures['sequential_bytes_s'])} in order{cached}"
    )
    limit, need = BY_CLASS.get(kind), GPU_NEED.value * 1e9 * gpus
    facts = (
        Fact("random_reads", figures["random_iops"], "/s", limit.value if limit else None),
        Fact("random_p99", figures["random_p99_ms"], "ms"),
        Fact("sequential", figures["sequential_bytes_s"], "B/s", need or None),
    )
    if kind == "memory":
        return not_judged(place.subject, f"{said}; this is memory")
    least = max(limit.value if limit else 0.0, others / SIBLINGS.value)
    if figures["random_iops"] < least:
        than = (
            f"{others:,.0f} on other nodes"
            if others > least
            else f"{least:,.0f} are little for its kind"
        )
        return _fault(
            place,
            f"{said}: slow, {than}",
            facts,
            "iostat -x 1 on the node, or the server's own figures, while fio runs",
        )
    if need and figures["sequential_bytes_s"] < need:
        return _fault(
            place,
            f"{said}: {gpus} GPUs may want {rate(need)}",
            facts,
            "a local cache of the data, more servers or stripes, larger reads; --gpus tells another need",
        )
    return Finding(subject=place.subject, judgement="fine", text=said, facts=facts)


def _fault(place: Place, text: str, facts: tuple[Fact, ...], hint: str) -> Finding:
    return Finding(subject=place.subject, judgement="fault", text=text, facts=facts, hint=hint)


def _seconds(site: Site) -> float:
    once = 2 * (QUICK if site.options.quick else SECONDS) + 15
    return float(3 * once * max(1, len(site.job.storage.paths)))


def _load(site: Site) -> str:
    size = QUICK_SIZE if site.options.quick else SIZE
    if not site.job.storage.paths:
        return ""
    return f"writes {size / 1e9:.2g} GB to each of {', '.join(site.job.storage.paths)} and reads them; on one node first, then on the others; removed after"


CHECK = Check(
    name="storage",
    does="fio: random reads of 4 KiB (8 jobs, depth 32) and reads in order of 1 MiB, direct; where a mount refuses that, its cache is let go before and that is said",
    judges="few reads a second for the class of the place (NVMe, SSD, disk, network), a third of what the same path gives other nodes, or too few bytes a second for the node's GPUs",
    run=run,
    limits=(GPU_NEED, *READS, SIBLINGS),
    seconds=_seconds,
    load=_load,
)
