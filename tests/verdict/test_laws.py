"""Laws of the judge, for any situation: order, names, missing values, its own state."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.engine.run import Judge as EngineJudge
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.verdict.judge import Judge, State
from gpuwatch.verdict.thresholds import Thresholds
from verdict.scenario import (
    DECODES,
    GOOD,
    HALF,
    HOT,
    LATE,
    LOSES,
    READS,
    SENDS,
    VICTIM,
    WRITES,
    Gpu,
    Node,
    Play,
    Rank,
    named,
    quickly,
)

KINDS = {
    "good": GOOD, "half": HALF, "victim": VICTIM, "reads": READS, "writes": WRITES,
    "decodes": DECODES, "late": LATE, "loses": LOSES, "sends": SENDS, "hot": HOT,
}  # fmt: skip
few = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
kinds = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6)

METRICS = sorted(
    {
        (scope, name)
        for node in KINDS.values()
        for (scope, _), rates in node.rates().items()
        for name in rates
    }
)
CULPRITS = {"reads": READS, "writes": WRITES, "decodes": DECODES, "loses": LOSES, "hot": HOT}


def cluster_of(names: Sequence[str]) -> tuple[Node, ...]:
    return tuple(named(KINDS[kind], f"n{i}")[0] for i, kind in enumerate(names))


def gist(verdict: JobVerdict, rename: dict[str, str] | None = None) -> object:
    """Return what a verdict says, without order and with other names."""
    names = rename or {}
    job = verdict.job
    return (
        job.state, job.cause, round(job.confidence, 6), {names.get(w, w) for w in job.waiting},
        {(c.kind, frozenset(names.get(n, n) for n in c.nodes)) for c in job.culprits},
        {(names.get(n.node or "", n.node), n.state, n.cause, round(n.confidence, 6))
         for n in verdict.nodes},
    )  # fmt: skip


def test_the_engine_takes_this_judge() -> None:
    judge: EngineJudge = Judge()
    assert isinstance(judge, Judge)


@few
@given(kinds, st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(names: list[str], random: "object") -> None:
    nodes = cluster_of(names)
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert gist(quickly(shuffled)) == gist(quickly(nodes))


@few
@given(kinds)
def test_the_names_of_nodes_do_not_matter(names: list[str]) -> None:
    nodes = cluster_of(names)
    others = {n.name: f"z{9 - i}-[/b]" for i, n in enumerate(nodes)}
    renamed = [replace(n, name=others[n.name]) for n in nodes]
    assert gist(quickly(renamed)) == gist(quickly(nodes), others)


@few
@given(st.sampled_from(sorted(KINDS)), st.integers(2, 6))
def test_nodes_that_are_all_alike_are_never_blamed(kind: str, count: int) -> None:
    verdict = quickly(named(KINDS[kind], *(f"n{i}" for i in range(count))))
    assert {c.kind for c in verdict.job.culprits} <= {"job", "path", "unknown"}


@cache
def whole(name: str) -> JobVerdict:
    """Return what is said when nothing is missing."""
    peers = SENDS if name == "loses" else VICTIM
    return quickly((*named(peers, "g1", "g2"), *named(CULPRITS[name], "x")))


@pytest.mark.parametrize("metric", METRICS, ids=".".join)
def test_a_metric_that_is_missing_never_raises_confidence(metric: tuple[str, str]) -> None:
    for name, culprit in CULPRITS.items():
        peers = SENDS if name == "loses" else VICTIM
        nodes = (*named(peers, "g1", "g2"), *named(culprit, "x"))
        lacking = tuple(replace(n, without=frozenset({metric})) for n in nodes)
        full, less = whole(name), quickly(lacking)
        assert less.job.confidence <= full.job.confidence + 1e-9, name
        if less.job.state not in ("UNKNOWN", full.job.state):
            assert less.job.confidence <= 0.6, name
        for before, after in zip(full.nodes, less.nodes, strict=True):
            assert after.confidence <= before.confidence + 1e-9, name


@few
@given(
    kinds, st.sets(st.sampled_from(METRICS), max_size=40), st.sampled_from(["node", "gpu", "all"])
)
def test_any_set_of_missing_metrics_is_survived(
    names: list[str], lacking: set[tuple[str, str]], scope: str
) -> None:
    gone = lacking | {m for m in METRICS if scope in (m[0], "all")}
    nodes = [replace(n, without=frozenset(gone)) for n in cluster_of(names)]
    verdict = quickly(nodes)
    assert all(v.support and v.text for v in (verdict.job, *verdict.nodes))
    if scope == "all":
        assert verdict.job.state in ("UNKNOWN", "IDLE")


values = st.floats(0, 100)


@few
@given(
    st.lists(
        st.builds(
            Gpu,
            util=st.none() | values,
            power=st.none() | st.floats(0, 2000),
            limit=st.none() | st.floats(0, 2000),
            memory=st.none() | values,
            clock=st.floats(0, 3000),
            heat=st.floats(0, 2),
            model=st.sampled_from(["NVIDIA A100-SXM4-80GB", "", "GeForce RTX 4090", "[/b]"]),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_reading_of_a_gpu_makes_shares_that_sum_to_one(gpus: list[Gpu]) -> None:
    ranks = tuple(Rank(name=str(i), gpu=g) for i, g in enumerate(gpus))
    for verdict in quickly((Node("x", ranks=ranks),)).ranks:
        shares = verdict.shares
        assert shares is not None
        parts = (shares.compute, shares.spin, shares.starved, shares.idle, shares.unknown)
        assert all(-1e-9 <= part <= 1 + 1e-9 for part in parts)
        assert sum(parts) == pytest.approx(1)


def test_state_is_one_typed_value() -> None:
    play = Play(["x"])
    play.run(named(READS, "x"), 40)
    state = play.judge.state()
    assert msgspec.msgpack.encode(msgspec.msgpack.decode(state, type=State)) == state
    with pytest.raises(msgspec.DecodeError):
        Judge.from_state(b"\xc1 no state", Thresholds())


def test_state_stays_bounded_while_processes_come_and_go() -> None:
    play = Play(["x"])
    sizes = []
    for i in range(60):
        rank = replace(GOOD.ranks[0], name=f"pid:{i}", pid=i * 10)
        play.run((Node("x", ranks=(rank,)),), 1)
        play.now_us += 59_000_000
        sizes.append(len(play.judge.state()))
    assert max(sizes[30:]) <= max(sizes[:30]) * 1.1
