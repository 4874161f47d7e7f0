"""bandwidth: iperf3 between pairs, in rounds; who is slow together is tried again alone."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from math import ceil
from statistics import median

from gpuwatch.preflight.addresses import addresses, line_rates
from gpuwatch.preflight.answers import Done, Listens
from gpuwatch.preflight.blame import Pair, common
from gpuwatch.preflight.check import Check, Limit, Site, not_judged, without
from gpuwatch.preflight.errand import Errand, ErrandError
from gpuwatch.preflight.iperf3 import Measure, parsed
from gpuwatch.preflight.numbers import count, gbit, upper
from gpuwatch.preflight.result import Fact, Finding
from gpuwatch.preflight.rounds import matchings

__all__ = ["CHECK", "better", "judged", "suspects", "tell"]

SECONDS, QUICK = 30, 5
"""A direction: below ten seconds slow start and the first losses weigh too much on long links."""
PORT = 5201
PROCESS_BITS_S = 25e9
"""What one process of iperf3 moves for certain (it has one thread a process before 3.16)."""
MOST_PROCESSES = 8
SUSPECTS, TRIES = 8, 2
"""Pairs that are tried again alone, and how often while they are slow."""
DEFICIT = Limit(
    "deficit", 0.15, "of the line rate", "What is missing to the line rate",
    "Ethernet, IP and TCP headers take 6 % of 1,500-byte frames; the rest is room for noise",
)  # fmt: skip
CPU = Limit(
    "cpu", 95.0, "% of a core", "A process of iperf3 that uses so much measures its core, not the link", "fasterdata.es.net, 100G tuning",
)  # fmt: skip
SHARED = Limit(
    "shared", 1 / 3, "of directions", "Directions that are slow beside others and well alone before the fabric is called short",
    "a narrow tier between two halves is crossed by half of all pairs; far fewer were chance, or a busy hour",
)  # fmt: skip
STEAL = Limit(
    "steal",
    0.05,
    "of the CPUs",
    "Time that the hypervisor took meanwhile",
    "a twentieth is seen in throughput",
)
LOSSES = Limit(
    "retransmits",
    1e-3,
    "of segments",
    "Segments sent again meanwhile",
    "as the live verdict: over 0.1 % is loss, not noise",
)


Measures = Mapping[Pair, Measure]
"""(sender, receiver) to what it carried."""


async def run(site: Site) -> list[Finding]:
    """Try pairs in rounds; then those that were slow alone, one after another."""
    found, able = await _able(site)
    if len(able) < 2:
        return [*found, not_judged("job", "no two nodes with iperf3")]
    places = await addresses(list(able.values()), site.job.network.interfaces)
    nominal = await line_rates(able, places, site)
    together: dict[Pair, Measure] = {}
    plan = matchings(list(able))
    for number, pairs in enumerate(plan, 1):
        site.progress(f"bandwidth: round {number} of {len(plan)}, {len(pairs)} pairs")
        told = await asyncio.gather(
            *(_both_ways(able[a], able[b], places, nominal, site) for a, b in pairs)
        )
        for outcome in told:
            if isinstance(outcome, Finding):
                found.append(outcome)
            else:
                together |= outcome
    alone: dict[Pair, Measure] = {}
    for _ in range(TRIES):
        for a, b in suspects({**together, **alone}, nominal):
            site.progress(f"bandwidth: {a} <-> {b} alone")
            outcome = await _both_ways(able[a], able[b], places, nominal, site)
            if not isinstance(outcome, Finding):
                alone = better(alone, outcome)
    if together:
        best = alone or together
        site.measured["bandwidth_bytes_s"] = median(m.bits_s for m in best.values()) / 8
    return found + judged(together, alone, nominal)


async def _able(site: Site) -> tuple[list[Finding], dict[str, Errand]]:
    lacking = await asyncio.gather(*(without(errand, "iperf3") for errand in site.errands))
    able = {e.node.name: e for e, lack in zip(site.errands, lacking, strict=True) if lack is None}
    return [lack for lack in lacking if lack is not None], able


def suspects(together: Measures, nominal: Mapping[str, float]) -> list[Pair]:
    """Return the pairs, each once, that were slow beside others; some of them where most were."""
    usual = upper(m.bits_s for m in together.values())
    slow = {(a, b) if a < b else (b, a) for a, b in _slow(together, nominal, usual)}
    rounds = {(a, b) if a < b else (b, a) for a, b in together}
    if len({node for pair in rounds for node in pair}) <= 2:
        return []
    return sorted(slow, key=lambda pair: together[pair].bits_s)[:SUSPECTS]


def better(one: Measures, other: Measures) -> dict[Pair, Measure]:
    """Return the more of two tries: a link that carried it once can carry it."""
    return {
        pair: max(one.get(pair, measure), measure, key=lambda m: m.bits_s)
        for pair, measure in {**one, **other}.items()
    }


async def _both_ways(
    one: Errand,
    other: Errand,
    places: Mapping[str, str],
    nominal: Mapping[str, float],
    site: Site,
) -> dict[Pair, Measure] | Finding:
    rate = min((nominal[e.node.name] for e in (one, other) if e.node.name in nominal), default=0.0)
    count = min(MOST_PROCESSES, max(1, ceil(rate / PROCESS_BITS_S)))
    found = {}
    try:
        for sender, receiver in ((one, other), (other, one)):
            found[sender.node.name, receiver.node.name] = await _measured(
                sender, receiver, places[receiver.node.name], count, site
            )
    except ErrandError as error:
        return not_judged(
            f"{one.node.name} <-> {other.node.name}",
            error.what,
            f"a firewall must let TCP ports {PORT} to {PORT + count - 1} through between nodes",
        )
    return found


async def _measured(sender: Errand, receiver: Errand, to: str, count: int, site: Site) -> Measure:
    """Run so many processes at once from one node to another."""
    seconds = QUICK if site.options.quick else SECONDS
    ports = range(PORT, PORT + count)
    try:
        for port in ports:
            argv = ["iperf3", "-s", "-1", "-p", str(port)]
            await receiver.ask("start", Done, name=f"iperf3-{port}", argv=argv)
            if not (await receiver.ask("listens", Listens, 6.0, port=port, timeout_s=5.0)).listens:
                raise ErrandError(f"{receiver.node.name}: iperf3 does not listen on port {port}")
        before = [await _cpu(end) for end in (sender, receiver)]
        words = [*f"iperf3 -J -P 4 -t {seconds} --connect-timeout 3000 -c".split(), to]
        runs = await asyncio.gather(
            *(sender.run([*words, "-p", str(port)], seconds + 15.0) for port in ports)
        )
        after = [await _cpu(end) for end in (sender, receiver)]
    finally:
        for port in ports:
            await receiver.ask("stop", Done, 8.0, name=f"iperf3-{port}")
    told = [parsed(ran.out) for ran in runs]
    if not all(isinstance(each, Measure) for each in told):
        raise ErrandError(
            f"{sender.node.name} to {receiver.node.name}: {next(e for e in told if isinstance(e, str))}"
        )
    measures = [each for each in told if isinstance(each, Measure)]
    again = [m.again for m in measures if m.again is not None]
    return Measure(
        sum(m.bits_s for m in measures), max(again, default=None), max(m.cpu_pct for m in measures),
        max(_stolen(b, a) for b, a in zip(before, after, strict=True)),
    )  # fmt: skip


async def _cpu(errand: Errand) -> list[int]:
    """Return the ticks of all CPUs, as the first line of /proc/stat has them."""
    text = (await errand.texts("/proc/stat")).get("/proc/stat", "")
    ticks = map(count, text.partition("\n")[0].split()[1:9])
    return [tick for tick in ticks if tick is not None]


def _stolen(before: list[int], after: list[int]) -> float:
    grown = [max(0, a - b) for b, a in zip(before, after, strict=False)]
    total = sum(grown)
    return grown[7] / total if len(grown) > 7 and total else 0.0


def judged(together: Measures, alone: Measures, nominal: Mapping[str, float]) -> list[Finding]:
    """Tell a slow node, a slow pair, and a fabric that cannot carry all at once apart."""
    usual = upper(m.bits_s for m in together.values())
    slow = _slow(together, nominal, usual)
    cpu = {pair for pair in slow if together[pair].cpu_pct >= CPU.value}
    found = [_cpu_bound(pair, together[pair]) for pair in sorted(cpu)]
    slow -= cpu
    tried = slow & alone.keys()
    clean = tried - _slow(alone, nominal, usual)
    if clean:
        found.append(_crowded(clean, together, alone))
        # Where all that were tried again are in order alone, so are the rest.
        slow -= slow if clean == tried else clean
    best = {**together, **alone}
    for node, mine in _nodes(slow, together).items():
        found.append(_one_node(node, mine, best, nominal))
        slow -= mine
    pairs = {tuple(sorted(pair)) for pair in slow if pair in alone or not alone}
    for a, b in sorted(pairs):
        ways = [pair for pair in ((a, b), (b, a)) if pair in slow]
        found.append(_one_pair(ways, best, nominal))
    if not found and together:
        least = min(together.values(), key=lambda m: m.bits_s)
        text = f"{gbit(least.bits_s)} and more between all nodes, on {len(together) // 2} pairs"
        found.append(
            Finding(
                subject="job",
                judgement="fine",
                text=text,
                facts=(Fact("bandwidth", least.bits_s, "bit/s"),),
            )
        )
    return found


def _nodes(slow: Collection[Pair], tried: Collection[Pair]) -> dict[str, set[Pair]]:
    """Return the nodes out of which, or into which, every direction that was tried is slow."""
    ends = {(f"out {a}", f"into {b}"): (a, b) for a, b in tried}
    bad = {end for end, pair in ends.items() if pair in slow}
    found: dict[str, set[Pair]] = {}
    for end in common(bad, ends):
        mine = found.setdefault(end.partition(" ")[2], set())
        mine |= {ends[each] for each in bad if end in each}
    return found


def _slow(measures: Measures, nominal: Mapping[str, float], usual: float) -> set[Pair]:
    """Return directions below the line rate; where none is known, below what is usual there."""
    return {
        pair
        for pair, measure in measures.items()
        if measure.bits_s < (1 - DEFICIT.value) * _wanted(pair, nominal, usual)
    }


def _wanted(pair: Pair, nominal: Mapping[str, float], usual: float = 0.0) -> float:
    return min((nominal[node] for node in pair if node in nominal), default=usual)


def _one_node(
    node: str, slow: Collection[Pair], best: Measures, nominal: Mapping[str, float]
) -> Finding:
    worst = min(slow, key=lambda pair: best[pair].bits_s)
    ways = {"out of" if pair[0] == node else "into" for pair in slow}
    return Finding(
        subject=node, judgement="fault", facts=_facts(best[worst], _wanted(worst, nominal)),
        text=f"{node} is slow with every other node, {' and '.join(sorted(ways))} it: {tell(best[worst], _wanted(worst, nominal))}",
        hint="its cable, port and driver: ethtool for speed and ring sizes, ethtool -S for errors, the switch's port",
    )  # fmt: skip


def _one_pair(ways: list[Pair], best: Measures, nominal: Mapping[str, float]) -> Finding:
    worst = min(ways, key=lambda pair: best[pair].bits_s)
    arrow = "<->" if len(ways) == 2 else "->"
    others = ", and with others both are not" if len(best) > len({worst, worst[::-1]}) else ""
    return Finding(
        subject=f"{worst[0]} {arrow} {worst[1]}", judgement="fault", facts=_facts(best[worst], _wanted(worst, nominal)),
        text=f"{worst[0]} {arrow} {worst[1]} is slow{others}: {tell(best[worst], _wanted(worst, nominal))}",
        hint="the way between the two: traceroute, the switches' ports and uplinks on it",
    )  # fmt: skip


def _crowded(clean: Collection[Pair], together: Measures, alone: Measures) -> Finding:
    """Tell of pairs that are in order alone: of many the fabric is short, of few it was chance."""
    beside, by_itself = (median(m[pair].bits_s for pair in clean) for m in (together, alone))
    pairs = {frozenset(pair) for pair in clean}
    facts = (
        Fact("together", beside, "bit/s", (1 - DEFICIT.value) * by_itself),
        Fact("alone", by_itself, "bit/s"),
    )
    few = len(clean) < SHARED.value * min(len(together), 2 * SUSPECTS)
    if len(pairs) == 1 or few or beside > (1 - DEFICIT.value) * by_itself:
        names = sorted(" <-> ".join(sorted(pair)) for pair in pairs)
        text = f"{', '.join(names[:3])} had {gbit(beside)} once, and {gbit(by_itself)} when tried alone"
        subject = names[0] if len(names) == 1 else "job"
        return Finding(subject=subject, judgement="not judged", text=text, facts=facts)
    text = (
        f"the fabric is oversubscribed: {len(pairs)} pairs have {gbit(by_itself)} alone and "
        f"{gbit(beside)} while others run; no node is to blame"
    )
    hint = (
        "uplinks of the switches between: place the job under fewer of them, or have them widened"
    )
    return Finding(subject="job", judgement="fault", text=text, facts=facts, hint=hint)


def _cpu_bound(pair: Pair, measure: Measure) -> Finding:
    return not_judged(
        f"{pair[0]} -> {pair[1]}",
        f"CPU-bound at {gbit(measure.bits_s)}: a process of iperf3 had {measure.cpu_pct:.0f} % of its core",
        "more is measured by iperf3 3.16 or newer, which has a thread a stream",
    )


def tell(measure: Measure, wanted: float) -> str:
    """Say how slow, and what was seen meanwhile that explains it."""
    short = f"{gbit(measure.bits_s)} of {gbit(wanted)}" if wanted else gbit(measure.bits_s)
    return "; ".join([short, *_why(measure)])


def _why(measure: Measure) -> Iterator[str]:
    if measure.steal > STEAL.value:
        yield f"the hypervisor took {measure.steal * 100:.0f} % of the CPUs meanwhile"
    if measure.again is not None and measure.again > LOSSES.value:
        yield f"{measure.again * 100:.2f} % of segments were sent again: loss or a full queue"


def _facts(measure: Measure, wanted: float) -> tuple[Fact, ...]:
    return (
        Fact("bandwidth", measure.bits_s, "bit/s", (1 - DEFICIT.value) * wanted or None),
        Fact("retransmits", measure.again, LOSSES.unit, LOSSES.value), Fact("cpu", measure.cpu_pct, CPU.unit, CPU.value),
        Fact("steal", measure.steal, STEAL.unit, STEAL.value),
    )  # fmt: skip


def _seconds(site: Site) -> float:
    once = 2 * ((QUICK if site.options.quick else SECONDS) + 1)
    return float(
        once * (len(matchings([errand.node.name for errand in site.errands])) + SUSPECTS * TRIES)
    )


def _load(site: Site) -> str:
    return f"TCP at full speed between pairs of nodes, {QUICK if site.options.quick else SECONDS} s a direction, in rounds over all nodes at once"


CHECK = Check(
    name="bandwidth",
    does="iperf3 of 4 streams both ways (30 s each), all pairs up to 16 nodes and log2(n) rounds above, no node in two tests at once; who was slow is tried again alone; over 25 Gb/s several processes",
    judges="15 % under the line rate: of all pairs of one node, of one pair, or only while the others run (oversubscribed); where a process had a whole core it is not judged",
    run=run,
    limits=(DEFICIT, SHARED, CPU, STEAL, LOSSES),
    seconds=_seconds,
    load=_load,
)
