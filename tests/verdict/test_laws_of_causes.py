"""A cause is never surer for a signal that is missing, and blames nobody for what all have alike."""

import inspect
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuwatch.model.verdict import CAUSES as WORDS
from gpuwatch.model.verdict import Verdict
from gpuwatch.verdict.causes import CAUSES as RULES
from gpuwatch.verdict.judge import Judge
from gpuwatch.verdict.thresholds import ROWS, Thresholds
from verdict.scenario import GOOD, PEERS, VICTIM, Node, Play, named, quickly
from verdict.test_host_network import SOFT, port
from verdict.test_in_rank import OFFLOADS as BURNS
from verdict.test_metadata import SMALL_FILES
from verdict.test_numa import node as placed
from verdict.test_offload import OFFLOADS
from verdict.test_slow_gpus import COPIES, LIMITED, NARROW, SHARED, SPINS, dgx

CASES: dict[str, tuple[Node, str]] = {
    "softirq": (SOFT, "node softnet_packets softnet_dropped softnet_time_squeezed"),
    "congestion": (port(tx_pause_us=300_000, rx_discards=900), "nic tx_pause_us rx_discards rx_packets"),
    "metadata": (SMALL_FILES, "mount meta_ops meta_exe_ms read_ops read_exe_ms"),
    "throttled": (LIMITED, "gpu throttle_power_cap_ns sm_clock_mhz"),
    "pcie": (
        dgx(COPIES, SPINS, **NARROW),
        "gpu pcie_gen pcie_gen_max pcie_width pcie_width_max pcie_rx_bytes pcie_tx_bytes pcie_replays",
    ),
    "nvlink": (dgx(SPINS, SPINS, nvlink_up=16), "gpu nvlink_up nvlink_crc_errors nvlink_rx_bytes"),
    "shared": (SHARED, "gpu_process gpu_memory_bytes"),
    "numa": (placed(far=True), "placement numa_far cpus_allowed"),
    "in-rank": (Node(ranks=(BURNS,)), "thread_wait wait_samples"),
    "offload": (Node(ranks=(OFFLOADS,)), "thread_group storage_read_bytes storage_write_bytes"),
}  # fmt: skip
"""By cause, where it is found, and the scope and metrics that it rests on."""
MISSING = [
    (cause, scope, metric)
    for cause, (_, signals) in CASES.items()
    for scope, *metrics in [signals.split()]
    for metric in metrics
]


def sureness(node: Node, cause: str, missing: frozenset[tuple[str, str]] = frozenset()) -> float:
    """Return how sure the node's ranks are of a cause, as verdict or as candidate."""
    verdict = quickly((*named(VICTIM, *PEERS[:2]), *named(replace(node, without=missing), "x")))
    told = [v for v in (*verdict.nodes, *verdict.ranks) if v.node == "x"]
    return max((_of(v, cause) for v in told), default=0.0)


def _of(verdict: Verdict, cause: str) -> float:
    if verdict.cause == cause:
        return verdict.confidence
    return max((c.confidence for c in verdict.candidates if c.cause == cause), default=0.0)


@pytest.fixture(scope="module")
def whole() -> dict[str, float]:
    return {cause: sureness(node, cause) for cause, (node, _) in CASES.items()}


def test_each_cause_is_found_where_all_is_read(whole: dict[str, float]) -> None:
    assert all(confidence >= 0.5 for confidence in whole.values()), whole


@pytest.mark.parametrize(("cause", "scope", "metric"), MISSING)
def test_what_is_not_read_never_makes_a_cause_surer(
    whole: dict[str, float], cause: str, scope: str, metric: str
) -> None:
    missing = frozenset({(scope, metric)})
    assert sureness(CASES[cause][0], cause, missing) <= whole[cause] + 1e-9


@pytest.mark.parametrize("cause", sorted(set(CASES) - {"pcie", "nvlink", "numa", "shared"}))
def test_what_all_nodes_have_alike_blames_none_of_them(cause: str) -> None:
    verdict = quickly(named(CASES[cause][0], *PEERS))
    assert {c.kind for c in verdict.job.culprits} <= {"job", "mount", "unknown"}


ends = st.dictionaries(st.sampled_from(sorted(ROWS)), st.sampled_from(["low", "high"]), max_size=8)


@settings(max_examples=25, deadline=None)
@example("pcie", {"lost": "low"})
@example("offload", dict.fromkeys(ROWS, "low"))
@example("congestion", dict.fromkeys(ROWS, "high"))
@given(st.sampled_from(sorted(CASES)), ends)
def test_no_threshold_at_an_end_of_its_range_breaks_the_judge(
    cause: str, at: dict[str, str]
) -> None:
    limits = {name: getattr(ROWS[name], end) for name, end in at.items()}
    play = Play(["x", *PEERS[:2]], Judge(Thresholds(**limits)))
    play.run(named(GOOD, "x", *PEERS[:2]), 5)
    verdict = play.run((*named(CASES[cause][0], "x"), *named(VICTIM, *PEERS[:2])), 8)
    assert all(0 <= v.confidence <= 1 for v in (verdict.job, *verdict.nodes, *verdict.ranks))


BESIDE = {"COMPUTE/imbalance", "IDLE/demand"}
"""Said of a job by its nodes, and by the rule of IDLE."""


def test_every_word_of_the_contract_has_a_rule_that_says_so() -> None:
    docs = [inspect.getdoc(inspect.getmodule(assess)) or "" for _, assess in RULES]
    heads = " ".join(doc.partition(": ")[0] for doc in docs)
    words = {f"{state}/{cause}" for state, causes in WORDS.items() for cause in causes}
    assert {word for word in words if word not in heads} == BESIDE
