"""fit: what a step's exchange of gradients takes at the bandwidth that was measured, and on other fabrics."""

from collections.abc import Iterator

from gpuwatch.preflight.check import Check, Limit, Options, Site, not_judged
from gpuwatch.preflight.numbers import rate, size
from gpuwatch.preflight.result import Fact, Finding

__all__ = ["CHECK", "exchanged_bytes", "exposed_s", "judged"]

GPUS_A_NODE = 8
OVERLAP = 2 / 3
"""Share of a step's computation beside which gradients can be exchanged: the backward pass takes two
thirds of it (two of three matrix products)."""
FABRICS = (("10 GbE", 1.15e9), ("100 Gb/s RoCE", 11.5e9), ("400 Gb/s InfiniBand or RoCE", 46e9))
"""Bytes a second that a node's port carries at best, headers taken off."""
EXPOSED = Limit(
    "exposed",
    0.15,
    "of a step",
    "Time of a step that waits for gradients",
    "what tuned jobs of some nodes lose; more is worth a faster fabric or fewer bytes",
)
RULES = (
    "usual rules: over 10B parameters or 32 GPUs InfiniBand pays; under 10B tuned RoCE comes within 10 %; "
    "up to 8 nodes 10 GbE does with compressed gradients"
)


async def run(site: Site) -> list[Finding]:
    """Reckon; nothing is run."""
    options = site.options
    if options.parameters is None:
        return [
            not_judged(
                "job",
                "--params 70B --gpus 32 [--dtype bf16] [--step-seconds 1.2] tell what is trained",
            )
        ]
    return list(judged(options, site.measured.get("bandwidth_bytes_s"), len(site.errands)))


def exchanged_bytes(parameters: float, bytes_a_value: int, nodes: int) -> float:
    """Return what a node sends in a step: a ring's all-reduce of the gradients, 2 (n-1)/n of them."""
    return 2 * (nodes - 1) / nodes * parameters * bytes_a_value if nodes > 1 else 0.0


def exposed_s(exchange_s: float, step_s: float) -> float:
    """Return how long a step waits for what does not fit beside its backward pass."""
    return max(0.0, exchange_s - OVERLAP * step_s)


def judged(options: Options, bandwidth_bytes_s: float | None, reached: int) -> Iterator[Finding]:
    """Judge the measured bandwidth, where there is one; tell of the usual fabrics."""
    if options.parameters is None:
        return
    nodes = -(-options.gpus // GPUS_A_NODE) if options.gpus else reached
    moved = exchanged_bytes(options.parameters, options.bytes_a_value, nodes)
    others = "; ".join(f"{name} {_told(moved / speed, options.step_s)}" for name, speed in FABRICS)
    head = f"{options.parameters / 1e9:.3g}B parameters on {nodes} nodes: each sends {size(moved)} a step"
    if bandwidth_bytes_s is None:
        yield Finding(
            subject="job",
            judgement="not judged",
            text=f"{head}; {others}; {RULES}",
            hint="the bandwidth check measures your own fabric",
        )
        return
    exchange_s = moved / bandwidth_bytes_s
    text = f"{head}, at the measured {rate(bandwidth_bytes_s)} {_told(exchange_s, options.step_s)}; {others}; {RULES}"
    facts = [Fact("exchange", exchange_s, "s"), Fact("sent", moved, "B")]
    lost = 0.0
    if options.step_s:
        lost = exposed_s(exchange_s, options.step_s) / (
            options.step_s + exposed_s(exchange_s, options.step_s)
        )
        facts.append(Fact("exposed", lost, EXPOSED.unit, EXPOSED.value))
    bad = lost > EXPOSED.value
    hint = (
        "compressed gradients, larger batches, sharding within a node first, a faster fabric"
        if bad
        else ""
    )
    yield Finding(
        subject="job",
        judgement="fault" if bad else "fine",
        text=text,
        facts=tuple(facts),
        hint=hint,
    )


def _told(exchange_s: float, step_s: float | None) -> str:
    if not step_s:
        return f"{exchange_s:.3g} s"
    lost = exposed_s(exchange_s, step_s)
    return f"{exchange_s:.3g} s, of which {lost:.3g} s are waited for"


CHECK = Check(
    name="fit",
    does="reckons what a step exchanges (--params, --gpus, --dtype) and how long that takes at the measured bandwidth, and on 10 GbE, RoCE and InfiniBand; runs nothing",
    judges="with --step-seconds: more than 15 % of a step that would wait for gradients",
    run=run,
    limits=(EXPOSED,),
)
