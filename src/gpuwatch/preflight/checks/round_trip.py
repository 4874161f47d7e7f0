"""round trip: a hundred small packets between each pair, against the other pairs."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from gpuwatch.preflight.addresses import addresses
from gpuwatch.preflight.answers import Connected
from gpuwatch.preflight.blame import common
from gpuwatch.preflight.check import Check, Limit, Site, not_judged
from gpuwatch.preflight.errand import Errand, ErrandError
from gpuwatch.preflight.numbers import lower
from gpuwatch.preflight.result import Fact, Finding
from gpuwatch.preflight.rounds import matchings

__all__ = ["CHECK", "Trip", "judged", "parsed"]

COUNT, QUICK, PAUSE_S = 100, 50, 0.05
"""Packets and seconds between two; faster than 0.2 s ping lets any user since iputils 20210202."""
SSH = 22
LOSS = Limit(
    "loss", 0.01, "of packets", "Packets without an answer, of a hundred",
    "a fabric in order loses none; one of a hundred is chance, more are a path that drops",
)  # fmt: skip
SLOWER = Limit(
    "slower", 3.0, "times", "Median round trip against that of the quicker quarter of pairs",
    "pairs of one fabric differ by hops, tens of us; three times is another way or a queue",
)  # fmt: skip
LEAST = Limit(
    "least_ms", 0.3, "ms", "What a pair is slower by at least", "schedulers and idle states of CPUs alone make a tenth of a ms",
)  # fmt: skip
ANSWER = re.compile(r"\b([0-9]{1,9}) packets transmitted, ([0-9]{1,9}) received")
_MS = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
TIMES = re.compile(rf"= {_MS}/{_MS}/{_MS}/{_MS} ms")
EACH = re.compile(rf"\btime={_MS} ms")


class Trip(NamedTuple):
    """What came back: share lost, then milliseconds (None where nothing did); packets sent.

    It is judged by the median: a machine that stood still once made a mean of 170 ms of 0.07.
    """

    loss: float
    mean_ms: float | None
    jitter_ms: float | None
    sent: int = COUNT
    median_ms: float | None = None

    @property
    def usual_ms(self) -> float | None:
        """Median; the mean where single packets are not told."""
        return self.mean_ms if self.median_ms is None else self.median_ms


async def run(site: Site) -> list[Finding]:
    """Go through the pairs in rounds in which no node is in two."""
    errands = {errand.node.name: errand for errand in site.errands}
    places = await addresses(site.errands, site.job.network.interfaces)
    trips: dict[tuple[str, str], Trip] = {}
    found: list[Finding] = []
    plan = matchings(list(errands))
    for number, pairs in enumerate(plan, 1):
        site.progress(f"round trip: round {number} of {len(plan)}, {len(pairs)} pairs")
        told = await asyncio.gather(
            *(_trip(errands[a], errands[b], places[b], site) for a, b in pairs)
        )
        for (a, b), trip in zip(pairs, told, strict=True):
            if isinstance(trip, Finding):
                found.append(trip)
            else:
                trips[a, b] = trip
    return found + judged(trips)


async def _trip(one: Errand, other: Errand, place: str, site: Site) -> Trip | Finding:
    pair = f"{one.node.name} <-> {other.node.name}"
    count = QUICK if site.options.quick else COUNT
    try:
        if await one.lacks("ping"):
            return await _connected(one, other, place, count)
        words = [*f"ping -n -c {count} -i {PAUSE_S} -W 1".split(), place]
        ran = await one.run(words, 2 * count * PAUSE_S + 10)
        trip = parsed(ran.out)
        if trip is None:  # no right to send any, or no such name there
            return await _connected(one, other, place, count)
    except ErrandError as error:
        return not_judged(pair, error.what)
    return trip


async def _connected(one: Errand, other: Errand, place: str, count: int) -> Trip:
    """Return what TCP connections to the other's login took: an answer comes from its kernel."""
    answer = await one.ask(
        "connect", Connected, 2 * count + 10, host=place, port=other.node.port or SSH, times=count,
        pause_s=PAUSE_S, timeout_s=1.0,
    )  # fmt: skip
    took = [ms for ms in answer.ms if ms is not None]
    if not took:
        return Trip(1.0, None, None, count)
    mean = sum(took) / len(took)
    return Trip(
        1 - len(took) / count,
        mean,
        sum(abs(ms - mean) for ms in took) / len(took),
        count,
        median(took),
    )


def parsed(text: str) -> Trip | None:
    """Return what ping (iputils, busybox) says, None where that is nothing."""
    counts, times = ANSWER.search(text.replace("packets received", "received")), TIMES.search(text)
    if counts is None or int(counts[1]) == 0:
        return None
    loss = 1 - min(1.0, int(counts[2]) / int(counts[1]))
    if times is None:
        return Trip(loss, None, None, int(counts[1]))
    each = [float(ms) for ms in EACH.findall(text)]
    typical = median(each) if each else None
    return Trip(loss, float(times[2]), float(times[4]), int(counts[1]), typical)


def judged(trips: Mapping[tuple[str, str], Trip]) -> list[Finding]:
    """Judge pairs against each other; a node that all its pairs have in common is named itself."""
    usual = lower(t.usual_ms for t in trips.values() if t.usual_ms is not None)
    bad = {pair: why for pair, trip in trips.items() if (why := _wrong(trip, usual))}
    found = []
    for node in common(bad, trips):
        pairs = [pair for pair in bad if node in pair]
        worst = max(pairs, key=lambda pair: (trips[pair].loss, trips[pair].usual_ms or 0.0))
        found.append(
            _fault(
                node, f"all {len(pairs)} ways from and to {node}: {bad[worst]}", trips[worst], usual
            )
        )
        bad = {pair: why for pair, why in bad.items() if node not in pair}
    found += [
        _fault(f"{a} <-> {b}", f"{a} <-> {b}: {why}", trips[a, b], usual)
        for (a, b), why in bad.items()
    ]
    if trips and not found:
        text = f"{usual:.2f} ms between nodes, no packet of more than one in a hundred lost, on {len(trips)} pairs"
        found.append(
            Finding(
                subject="job", judgement="fine", text=text, facts=(Fact("median", usual, "ms"),)
            )
        )
    return found


def _wrong(trip: Trip, usual: float) -> str:
    typical = trip.usual_ms
    if typical is None:
        return "no packet comes back"
    if trip.loss * trip.sent > max(1.5, LOSS.value * trip.sent):  # one alone is chance
        return f"{trip.loss * 100:.0f} % of packets are lost"
    if typical > SLOWER.value * usual and typical - usual > LEAST.value:
        return f"a round trip takes {typical:.2f} ms, {usual:.2f} ms between others"
    return ""


def _fault(subject: str, text: str, trip: Trip, usual: float) -> Finding:
    facts = (
        Fact("loss", trip.loss, LOSS.unit, LOSS.value),
        Fact("median", trip.usual_ms, "ms", SLOWER.value * usual),
        Fact("mean", trip.mean_ms, "ms"),
        Fact("jitter", trip.jitter_ms, "ms"),
    )
    hint = "mtr or ping -f between the two; then cables, and queues and errors of the switch ports between"
    return Finding(subject=subject, judgement="fault", text=text, facts=facts, hint=hint)


def _seconds(site: Site) -> float:
    names: Sequence[str] = [errand.node.name for errand in site.errands]
    return len(matchings(names)) * ((QUICK if site.options.quick else COUNT) * PAUSE_S + 1)


CHECK = Check(
    name="round-trip",
    does="100 pings a pair, or as many TCP connections to its login where ping is missing; all pairs up to 16 nodes, above that log2(n) rounds",
    judges="a pair that loses packets, or whose round trip is far above that of the other pairs; 1 and 2 to 5 us are RDMA's and are not asked of ping",
    run=run,
    limits=(LOSS, SLOWER, LEAST),
    seconds=_seconds,
)
