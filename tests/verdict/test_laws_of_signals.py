"""The judge's laws where connections, mounts, control groups and RDMA are read.

What is not read never makes surer; order and names of nodes do not matter; all alike blame none.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.model.verdict import JobVerdict
from verdict.scenario import GOOD, VICTIM, WAITS, Gpu, Node, Play, Wire, named, rank
from verdict.test_faults_and_stills import QUOTA, STOPS
from verdict.test_laws import gist
from verdict.test_rdma import CLEAN, LOSES

NAMES = ("a", "b", "c", "x")
NFS = ("/data", "nfs4", "10.9.0.3:/export")
FLOWS = {"tx_packets": 1e6, "rx_packets": 1e6, "tx_bytes": 4e9, "rx_bytes": 4e9}
SCOPES = ("connection", "mount", "cgroup", "rdma")
HALF = Node(ranks=(replace(WAITS, gpu=Gpu(util=99, power=330, memory=12)),))
READS = replace(
    rank(
        gpu=Gpu(util=28, power=266, memory=12), main={"pipe": 1.0}, main_run=0.04,
        loader={"netfs": 1.0}, loader_run=0.0, read_mb=0.4,
    ),
    mounts={NFS: 156.0},
)  # fmt: skip
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def address(name: str) -> str:
    return f"10.0.0.{NAMES.index(name)}"


def wired(node: Node, wire: Callable[[str, str], Wire]) -> Node:
    """Return a node whose ranks talk to all others."""
    own = node.addresses or address(node.name)
    wires = tuple(
        replace(wire(node.name, peer), peer=address(peer)) for peer in NAMES if address(peer) != own
    )
    ranks = tuple(replace(r, wires=wires) for r in node.ranks)
    return replace(node, ranks=ranks, addresses=own)


def slow(start: str, end: str) -> Wire:
    return Wire(trip_ms=60, swing=0.02) if "x" in (start, end) else Wire()


def lossy(start: str, end: str) -> Wire:
    return Wire(again=0.02, trip_ms=30, swing=0.4) if end == "x" else Wire()


def everywhere(*_: str) -> Wire:
    return Wire(trip_ms=60, swing=0.02)


def alike(node: Node, wire: Callable[[str, str], Wire] | None = None) -> tuple[Node, ...]:
    nodes = named(node, *NAMES)
    return tuple(wired(n, wire) for n in nodes) if wire else nodes


def one(bad: Node, others: Node) -> tuple[Node, ...]:
    return (*named(others, *NAMES[:-1]), *named(bad, NAMES[-1]))


CASES: dict[str, tuple[Node, ...]] = {
    "slow": alike(HALF, slow),
    "lossy": alike(HALF, lossy),
    "mount": alike(READS),
    "quota": one(replace(QUOTA, cgroup=STOPS, busy=0.1), VICTIM),
    "rdma": one(LOSES, CLEAN),
}
ALIKE = {
    "slow": alike(HALF, everywhere),
    "mount": alike(READS),
    "quota": alike(replace(QUOTA, cgroup=STOPS, busy=0.1)),
    "rdma": alike(LOSES),
}
METRICS = [
    (case, scope, metric)
    for case, nodes in CASES.items()
    for scope, metric in sorted(
        {(key[0], m) for n in nodes for key, rates in n.rates().items() for m in rates}
    )
    if scope in SCOPES
]


def judged(nodes: Sequence[Node]) -> JobVerdict:
    """Return the verdict after good minutes in which the same was read, and missing."""
    play = Play([node.name for node in nodes])
    well = []
    for node in nodes:
        (good,) = named(GOOD, node.name)
        if node.addresses:
            good = wired(replace(good, addresses=node.addresses), lambda *_: Wire())
        well.append(replace(good, without=node.without, rdma=FLOWS if node.rdma else {}))
    play.run(well, 25)
    return play.run(nodes, 40)


@pytest.fixture(scope="module")
def whole() -> dict[str, JobVerdict]:
    return {case: judged(nodes) for case, nodes in CASES.items()}


def test_what_is_read_names_each_fault(whole: dict[str, JobVerdict]) -> None:
    """Else the laws below would hold for want of a verdict."""
    told = {case: (v.job.state, {c.kind for c in v.job.culprits}) for case, v in whole.items()}
    assert told == {
        "slow": ("NETWORK", {"node"}), "lossy": ("NETWORK", {"node"}), "mount": ("STORAGE", {"mount"}),
        "quota": ("CPU", {"node"}), "rdma": ("NETWORK", {"port"}),
    }  # fmt: skip


@pytest.mark.parametrize(("case", "scope", "metric"), METRICS)
def test_what_is_not_read_never_makes_surer(
    whole: dict[str, JobVerdict], case: str, scope: str, metric: str
) -> None:
    lacking = [replace(n, without=frozenset({(scope, metric)})) for n in CASES[case]]
    full, less = whole[case], judged(lacking)
    assert less.job.confidence <= full.job.confidence + 1e-9
    for before, after in zip(full.nodes, less.nodes, strict=True):
        assert after.confidence <= before.confidence + 1e-9


@few
@given(st.sampled_from(sorted(CASES)), st.permutations(range(len(NAMES))))
def test_order_and_names_of_nodes_do_not_matter(case: str, order: list[int]) -> None:
    nodes = CASES[case]
    others = {name: f"z{9 - i}-[/b]" for i, name in enumerate(NAMES)}
    renamed = [replace(nodes[i], name=others[nodes[i].name]) for i in order]
    assert gist(judged(renamed)) == gist(judged(nodes), others)


@pytest.mark.parametrize("case", sorted(ALIKE))
def test_what_all_nodes_have_alike_blames_none_of_them(case: str) -> None:
    verdict = judged(ALIKE[case])
    assert {c.kind for c in verdict.job.culprits} <= {"job", "mount", "unknown"}
