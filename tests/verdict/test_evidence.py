"""Every verdict shows its evidence, what speaks against it, and what could not be read."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verdict.evident import lacking
from verdict.scenario import (
    DECODES,
    GOOD,
    HALF,
    HOT,
    LATE,
    LOSES,
    PEERS,
    READS,
    SENDS,
    VICTIM,
    WRITES,
    Gpu,
    Node,
    Play,
    named,
    quickly,
    rank,
)

KINDS = (
    GOOD, HALF, HOT, LATE, LOSES, READS, SENDS, VICTIM, WRITES, DECODES,
    rank(gpu=Gpu(util=None, power=None, memory=None)),
    rank(gpu=Gpu(util=0, power=110, memory=0), main={"run": 1.0}, loader={}, age_s=30.0),
    rank(gpu=Gpu(util=0, power=120, memory=0), main={"poll": 1.0}, loader={}, main_run=0.0),
    rank(gpu=Gpu(util=0, power=120, memory=0), main={"stopped": 1.0}, loader={}, main_run=0.0),
    rank(gpu=Gpu(util=60, power=300), main={"pipe": 0.7, "run": 0.3}, loader={"memory": 0.7}),
    Node(ranks=(), gpus=(Gpu(lost=True, util=None, power=None),)),
    Node(ranks=(), gpus=(Gpu(util=0, power=70, memory=0),), held=False),
)  # fmt: skip
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@few
@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    st.lists(st.sampled_from(KINDS), min_size=4, max_size=4),
)
def test_every_tick_of_any_job_has_evidence(before: list[Node], after: list[Node]) -> None:
    """Also in the ticks in which one thing ends and another begins."""
    names = PEERS[: len(before)]
    play = Play(names)
    for kinds in (before, after):
        nodes = [named(kind, name)[0] for kind, name in zip(kinds, names, strict=False)]
        play.run(nodes, 7)
    assert [lack for verdict in play.history for lack in lacking(verdict)] == []


def test_what_cannot_be_read_is_told_with_its_reason() -> None:
    why = {"nvml": "no libnvidia-ml.so.1", "threads.wchan": "not permitted (uid 1000)"}
    (node,) = named(READS, "x")
    hidden = Node(**{**vars(node), "absent": why, "without": frozenset({("gpu", "util_pct")})})
    told = {m.signal: m.reason for m in quickly((hidden,)).nodes[0].missing}
    assert told.items() >= why.items()
