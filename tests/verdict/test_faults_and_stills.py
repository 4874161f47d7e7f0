"""Lost GPUs, jobs that stand still, and jobs that have not yet begun."""

from dataclasses import replace

import pytest

from gpuwatch.model.progress import Progress
from verdict.scenario import (
    GOOD,
    PEERS,
    READS,
    VICTIM,
    WAITS,
    Gpu,
    Nic,
    Node,
    Play,
    Rank,
    Wire,
    blamed,
    named,
    rank,
    said,
    settled,
)

SILENT = (Nic(rx_mb=0.002, tx_mb=0.01),)
ASLEEP = {"loader": {"futex": 1.0}, "loader_run": 0.0, "read_mb": 0.0, "main_run": 0.0}
SPINS = replace(
    Node(nics=SILENT),
    ranks=(replace(WAITS, main={"socket": 1.0}, **ASLEEP),),  # type: ignore[arg-type]
)
STOPPED = replace(
    Node(nics=SILENT),
    ranks=(Rank(gpu=Gpu(util=0, power=120, memory=0), main={"process": 1.0}, **ASLEEP),),  # type: ignore[arg-type]
)


def after_good(*nodes: Node, seconds: int = 60) -> Play:
    play = Play([node.name for node in nodes])
    play.run(tuple(named(GOOD, node.name)[0] for node in nodes), seconds)
    return play


def test_u_the_rank_that_does_not_spin_is_what_the_job_hangs_for() -> None:
    nodes = (*named(SPINS, *PEERS), *named(STOPPED, "x"))
    play = after_good(*nodes)
    verdict = play.run(nodes, 90)
    assert said(verdict.job) == ("HUNG", None)
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.waiting == PEERS
    assert verdict.job.confirmed_us is not None
    assert {n.state for n in verdict.nodes[:-1]} <= {"PEER", "HUNG"}
    assert all(blamed(n) == {"x"} for n in verdict.nodes[:-1] if n.state == "PEER")


HELD = replace(
    SPINS,
    ranks=(Rank(gpu=Gpu(util=100, power=130, memory=2), main={"stopped": 1.0}, **ASLEEP),),  # type: ignore[arg-type]
)
"""A signal stopped its processes while it was in a collective: its GPU goes on spinning."""


def test_a_rank_that_a_signal_holds_is_named_before_all_is_proved_to_stand() -> None:
    nodes = (*named(SPINS, *PEERS), *named(HELD, "x"))
    verdict = after_good(*nodes).run(nodes, 8)
    assert said(verdict.job) == ("HUNG", None)
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.waiting == PEERS
    assert said(verdict.nodes[-1]) == ("HUNG", None)


def test_a_rank_that_a_profiler_stops_for_moments_is_not_held() -> None:
    paused = rank(main={"stopped": 0.3, "run": 0.7})
    verdict = settled((*named(GOOD, *PEERS), *named(paused, "x")))
    assert said(verdict.job) == ("COMPUTE", None)


def test_a_hang_is_not_said_before_half_a_minute_nor_confirmed_at_once() -> None:
    nodes = (*named(SPINS, *PEERS), *named(STOPPED, "x"))
    play = after_good(*nodes)
    assert play.run(nodes, 25).job.state != "HUNG"
    assert play.run(nodes, 25).job.confirmed_us is None


def test_who_comes_late_to_a_hang_sees_it_too() -> None:
    verdict = settled((*named(SPINS, *PEERS), *named(STOPPED, "x")), 80)
    assert said(verdict.job) == ("HUNG", None)
    assert blamed(verdict.job) == {"x"}


def test_n_all_ranks_in_a_collective_for_ever_hang_for_nobody_that_is_known() -> None:
    verdict = after_good(*named(SPINS, *PEERS)).run(named(SPINS, *PEERS), 90)
    assert said(verdict.job) == ("HUNG", None)
    assert blamed(verdict.job) == {"unknown"}


@pytest.mark.parametrize(
    "moves",
    [
        {"nics": (Nic(rx_mb=2.0, tx_mb=2.0),)},
        {"ranks": (replace(STOPPED.ranks[0], main_run=0.3, main={"run": 0.3, "futex": 0.7}),)},
        {"ranks": (replace(STOPPED.ranks[0], read_mb=1.0),)},
        {"ranks": (replace(STOPPED.ranks[0], gpu=Gpu(util=40, power=200)),)},
        {"ranks": READS.ranks, "disk_busy": 0.9},
    ],
    ids=["its port", "its main thread", "its loaders' files", "its GPU", "it reads"],
)
def test_a_job_of_which_anything_moves_does_not_hang(moves: dict[str, object]) -> None:
    nodes = (*named(SPINS, *PEERS), *named(replace(STOPPED, **moves), "x"))  # type: ignore[arg-type]
    assert after_good(*nodes).run(nodes, 90).job.state != "HUNG"


def test_w_power_that_swings_over_nvlink_with_idle_ports_is_no_hang() -> None:
    """Eight ranks of one node: nothing goes over its ports, and its GPUs work."""
    ranks = tuple(replace(r, name=str(i)) for i, r in enumerate(GOOD.ranks * 8))
    assert settled((Node("dgx", ranks=ranks, nics=SILENT),), 80).job.state == "COMPUTE"


def test_a_node_that_is_silent_beside_one_that_works_waits_for_it() -> None:
    works = rank(gpu=Gpu(util=0, power=120, memory=0), main={"run": 1.0}, loader={})
    nodes = (*named(SPINS, *PEERS), *named(works, "x"))
    works_on = after_good(*nodes).run((*nodes[:-1], replace(nodes[-1], nics=SILENT)), 90)
    assert works_on.job.state != "HUNG"


LOST = {"nvml.gpu0": "GPU is lost"}
GONE = frozenset(("gpu", name) for name in ("util_pct", "power_w", "memory_util_pct"))


def test_a_lost_gpu_is_what_the_job_stands_for() -> None:
    lost = Node("x", ranks=(replace(STOPPED.ranks[0], name="x.0"),), absent=LOST, without=GONE)
    nodes = (*named(SPINS, *PEERS), lost)
    verdict = after_good(*nodes).run(nodes, 80)
    assert said(verdict.job) == ("GPU", "fault")
    assert blamed(verdict.job) == {"GPU 0 of x"}
    assert verdict.job.waiting == PEERS
    assert verdict.job.confidence >= 0.9
    assert said(verdict.nodes[-1]) == ("GPU", "fault")


def test_one_lost_gpu_of_eight_is_named() -> None:
    bad = replace(STOPPED.ranks[0], gpu=Gpu(util=None, power=None, memory=None, lost=True))
    ranks = (bad, *(replace(SPINS.ranks[0], name=str(i)) for i in range(1, 8)))
    verdict = settled((Node("dgx", ranks=ranks),))
    assert said(verdict.job) == ("GPU", "fault")
    assert verdict.job.culprits[0].id in ("GPU 0 of dgx", "rank 0 of dgx")


@pytest.mark.parametrize(("number", "fatal"), [(79, True), (94, True), (31, False), (45, False)])
def test_a_critical_error_counts_if_it_is_fresh_and_not_the_programs(
    number: int, fatal: bool
) -> None:
    bad = rank(gpu=Gpu(util=0, power=100, memory=0, xid=number, xids=0.1), main={"futex": 1.0})
    nodes = (*named(VICTIM, *PEERS), *named(bad, "x"))
    assert (said(settled(nodes).job) == ("GPU", "fault")) == fatal


def test_a_critical_error_of_long_ago_is_none_now() -> None:
    nodes = named(rank(gpu=Gpu(xid=79)), *PEERS)
    assert settled(nodes).job.state == "COMPUTE"


def young(age_s: float, **fields: object) -> Node:
    begins = {"gpu": Gpu(util=0, power=110, memory=0), "main": {"run": 0.5, "sleep": 0.5},
              "main_run": 0.5, "loader": {}, "age_s": age_s, **fields}  # fmt: skip
    return rank(**begins)


def test_a_young_job_whose_gpus_never_worked_starts_up() -> None:
    verdict = settled(named(young(20), *PEERS), 60)
    assert said(verdict.job) == ("STARTUP", None)
    assert not verdict.job.culprits
    assert {said(n) for n in verdict.nodes} == {("STARTUP", None)}


def test_a_job_that_loads_its_checkpoint_from_a_network_file_system_starts_up() -> None:
    loads = young(40, main={"netfs": 0.9, "run": 0.1}, main_run=0.1)
    assert said(settled(named(loads, *PEERS), 60).job) == ("STARTUP", "storage")


def test_an_old_job_that_nobody_watched_may_have_worked_before() -> None:
    assert settled(named(young(90_000), *PEERS), 60).job.state == "UNKNOWN"


def test_a_job_that_worked_does_not_start_up_any_more() -> None:
    nodes = named(young(80), *PEERS)
    assert after_good(*nodes).run(nodes, 40).job.state != "STARTUP"


def test_a_node_that_still_starts_up_is_named_by_those_that_wait() -> None:
    nodes = (*named(VICTIM, *PEERS), *named(young(60), "x"))
    verdict = settled(nodes, 60)
    assert blamed(verdict.job) == {"x"}
    assert said(verdict.nodes[-1]) == ("STARTUP", None)


QUOTA = rank(
    gpu=Gpu(util=89, power=400, memory=12), main={"run": 0.4, "ready": 0.6}, main_run=0.4,
    main_delay=0.6,
)  # fmt: skip
STOPS = {"quota_cpus": 2.0, "periods": 10.0, "throttled_periods": 8.0, "cpus_allowed": 128}


def test_h_a_quota_that_stops_the_job_is_sure() -> None:
    nodes = (*named(VICTIM, *PEERS), *named(replace(QUOTA, cgroup=STOPS, busy=0.1), "x"))
    verdict = after_good(*nodes).run(nodes, 60)
    assert said(verdict.job) == ("CPU", "quota")
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.confidence >= 0.8


@pytest.mark.parametrize(
    "allows",
    [{**STOPS, "throttled_periods": 0.0}, {"cpus_allowed": 128}],
    ids=["not reached", "none"],
)
def test_a_quota_that_stops_nothing_is_not_the_cause(allows: dict[str, float]) -> None:
    nodes = (*named(VICTIM, *PEERS), *named(replace(QUOTA, cgroup=allows, busy=0.1), "x"))
    verdict = after_good(*nodes).run(nodes, 60)
    assert verdict.nodes[-1].cause != "quota"


def test_a_quota_above_the_container_is_not_seen_and_so_not_excluded() -> None:
    hidden = replace(
        QUOTA, cgroup={"cpus_allowed": 128}, absent={"cgroup.above": "this is a container"},
        busy=0.1,
    )  # fmt: skip
    nodes = (*named(VICTIM, *PEERS), *named(hidden, "x"))
    verdict = after_good(*nodes).run(nodes, 60).nodes[-1]
    assert verdict.cause == "quota"
    assert verdict.confidence <= 0.5


def test_loaders_that_fill_the_few_cpus_they_may_use_are_pinned() -> None:
    few = replace(
        rank(
            gpu=Gpu(util=45, power=410, memory=20), main={"pipe": 0.9, "run": 0.1}, main_run=0.1,
            main_delay=0.08, loader={"run": 0.25, "ready": 0.75}, loader_run=0.25,
            loader_delay=0.75, loaders=16,
        ),
        cgroup={"cpus_allowed": 4}, busy=0.05,
    )  # fmt: skip
    verdict = settled((*named(VICTIM, *PEERS), *named(few, "x")))
    assert said(verdict.job) == ("CPU", "pinned")
    assert verdict.job.confidence >= 0.8


def test_a_log_that_tells_of_steps_stands_above_all_that_seems_to_stand() -> None:
    """A step of 20 s may be quiet for half a minute."""
    nodes = (*named(SPINS, *PEERS), *named(STOPPED, "x"))
    play = after_good(*nodes)
    for second in range(70):
        play.progress = Progress(step=7 + second // 20, still_s=second % 20, period_s=20.0)
        assert play.run(nodes, 1).job.state != "HUNG"
    play.progress = Progress(step=9, still_s=99.0, period_s=20.0)
    assert play.run(nodes, 10).job.state != "HUNG"
    play.progress = Progress(step=9, still_s=101.0, period_s=20.0)
    assert said(play.run(nodes, 20).job) == ("HUNG", None)


def test_ranks_that_sleep_on_all_nodes_hang_more_surely_if_a_log_told_of_steps() -> None:
    nodes = named(STOPPED, *PEERS)
    play = after_good(*nodes)
    assert play.run(nodes, 90).job.confidence <= 0.6
    play.progress = Progress(step=9, still_s=120.0, period_s=0.5)
    verdict = play.run(nodes, 20)
    assert said(verdict.job) == ("HUNG", None)
    assert verdict.job.confidence > 0.8
    assert any(f.metric == "progress.still_s" for f in verdict.job.support)


@pytest.mark.parametrize(("moved_mb", "hangs"), [(0.0, True), (2.0, False)])
def test_the_jobs_connections_tell_whether_it_stands_on_a_port_that_others_use(
    moved_mb: float, hangs: bool
) -> None:
    wire = Wire(sent_mb=moved_mb, received_mb=moved_mb, segments=0, busy=0.0)
    shared = (Nic(rx_mb=400, tx_mb=5),)
    nodes = [
        replace(node, nics=shared, ranks=tuple(replace(r, wires=(wire,)) for r in node.ranks))
        for node in (*named(SPINS, *PEERS), *named(STOPPED, "x"))
    ]
    play = after_good(*nodes)
    assert (play.run(nodes, 90).job.state == "HUNG") == hangs
