"""all-reduce: NCCL's own test on each node, against the other nodes."""

import re

from gpuwatch.preflight.check import GPUS, Check, Limit, Site, not_judged
from gpuwatch.preflight.errand import Errand, ErrandError
from gpuwatch.preflight.numbers import rate
from gpuwatch.preflight.result import Fact, Finding

__all__ = ["CHECK", "judged", "parsed"]

SECONDS = 120.0
LOAD = 'for each in $1; do module load "$each" || exit 1; done; shift; exec "$@"'
ROW = re.compile(
    r"^\s*([0-9]{1,18})\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]+\s+[\d.]+\s+([0-9]{1,9}(?:\.[0-9]{1,9})?)\s",
    re.MULTILINE,
)
"""size, count, type, operation, root, then time, algorithm and bus bandwidth in GB/s, out of place."""
DEFICIT = Limit(
    "all_reduce",
    0.15,
    "of the best node",
    "Bus bandwidth that is missing to the best node",
    "nodes of one kind differ by some percent; 15 % is the limit for links as well",
)


async def run(site: Site) -> list[Finding]:
    """Run it on one node after another."""
    program = site.job.preflight.all_reduce
    if program is None:
        return [
            not_judged(
                "job",
                "preflight: {all_reduce: PATH} names no all_reduce_perf",
                "build nccl-tests on the nodes, and name it in the job file",
            )
        ]
    found: list[Finding] = []
    best: dict[str, float] = {}
    for errand in site.errands:
        site.progress(f"all-reduce: {errand.node.name}")
        told = await _measured(errand, program, site.job.preflight.modules)
        if isinstance(told, Finding):
            found.append(told)
        else:
            best[errand.node.name] = told
    return found + judged(best)


async def _measured(errand: Errand, program: str, modules: tuple[str, ...]) -> float | Finding:
    name = errand.node.name
    try:
        gpus = len(await errand.texts(GPUS))
        if gpus < 2:
            return not_judged(
                name, f"{name} has {gpus or 'no'} GPU{'s' * (gpus != 1)}: nothing to reduce"
            )
        words = [program, "-b", "8M", "-e", "1G", "-f", "4", "-g", str(gpus)]
        ran = await errand.run([*_loaded(modules), *words], SECONDS)
    except ErrandError as error:
        return not_judged(name, error.what)
    sizes = parsed(ran.out)
    if not ran.ended_well or not sizes:
        return not_judged(name, f"{name}: {ran.why('all_reduce_perf')}")
    return max(sizes.values())


def _loaded(modules: tuple[str, ...]) -> list[str]:
    """Return the words before a program's that load environment modules: a login shell knows how."""
    return ["bash", "-lc", LOAD, "sh", " ".join(modules)] if modules else []


def parsed(text: str) -> dict[int, float]:
    """Return bus bandwidth in bytes a second by size, of what all_reduce_perf prints."""
    return {int(size): float(gigabytes) * 1e9 for size, gigabytes in ROW.findall(text)}


def judged(best: dict[str, float]) -> list[Finding]:
    """Judge nodes against the best of them."""
    if not best:
        return []
    most = max(best.values())
    slow = {name: value for name, value in best.items() if value < (1 - DEFICIT.value) * most}
    found = [
        Finding(
            subject=name, judgement="fault", text=f"{name} reduces at {rate(value)} between its own GPUs, the best node at {rate(most)}",
            facts=(Fact("bus_bandwidth", value, "B/s", (1 - DEFICIT.value) * most),), hint="nvidia-smi nvlink -s and topo -m: links that are down, or a path over PCIe",
        )
        for name, value in slow.items()
    ]  # fmt: skip
    if not found:
        found.append(
            Finding(
                subject="job",
                judgement="fine",
                text=f"{rate(min(best.values()))} and more of bus bandwidth between the GPUs of each of {len(best)} nodes",
            )
        )
    return found


CHECK = Check(
    name="all-reduce",
    does="all_reduce_perf of the job file, 8 MB to 1 GB, on the GPUs of each node",
    judges="bus bandwidth 15 % under the best node's; between nodes it needs MPI and is not run here",
    run=run,
    limits=(DEFICIT,),
    seconds=lambda site: SECONDS * len(site.errands) if site.job.preflight.all_reduce else 0.0,
    load=lambda site: "all GPUs of one node after another" if site.job.preflight.all_reduce else "",
)
