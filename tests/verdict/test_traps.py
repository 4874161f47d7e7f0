"""Where rules of thumb go wrong: each of these once misled a person or a tool."""

from dataclasses import replace

import pytest

from verdict.scenario import (
    GOOD,
    HALF,
    HOT,
    LATE,
    LOSES,
    PEERS,
    READS,
    SEGMENTS,
    SENDS,
    VICTIM,
    WAITS,
    Gpu,
    Nic,
    Node,
    Play,
    Rank,
    blamed,
    named,
    rank,
    said,
    settled,
)


def test_r01_full_utilisation_at_low_power_is_no_compute() -> None:
    assert settled(named(VICTIM, *PEERS)).nodes[0].state == "PEER"


@pytest.mark.parametrize("power", [400, 350])
def test_r02_a_late_main_thread_is_found_though_utilisation_reads_89(power: float) -> None:
    play = Play(("x", *PEERS))
    play.run((*named(GOOD, *PEERS), *named(GOOD, "x")), 60)
    late = replace(LATE, ranks=(replace(LATE.ranks[0], gpu=Gpu(89, power, memory=12)),))
    verdict = play.run((*named(HALF, *PEERS), *named(late, "x")), 40)
    assert said(verdict.job) == ("CPU", "system")
    assert blamed(verdict.job) == {"x"}
    assert set(verdict.job.waiting) == set(PEERS)


@pytest.mark.parametrize("iowait", [0.0, 0.007])
def test_r03_a_blocked_reader_is_found_without_iowait(iowait: float) -> None:
    node = replace(READS, iowait=iowait, busy=0.9, disk_busy=0.02, disk_ms=0.2)
    assert said(settled(named(node, "x")).nodes[0]) == ("STORAGE", "read")


def test_iowait_and_a_busy_disk_are_nothing_while_the_gpu_computes() -> None:
    node = replace(GOOD, iowait=0.9, disk_busy=0.99, io_pressure=0.5, busy=0.05)
    assert said(settled(named(node, "x")).job) == ("COMPUTE", None)


@pytest.mark.parametrize(("segments", "lost"), [(30, 0.1), (4, 2), (300, 9)])
def test_r07_a_rate_of_few_segments_proves_nothing(segments: float, lost: float) -> None:
    few = replace(SENDS, segments=segments, retransmits=lost, fast=lost)
    assert settled(named(few, *PEERS)).job.state != "NETWORK"


def test_loss_is_nothing_while_gpus_compute() -> None:
    lossy = replace(GOOD, segments=SEGMENTS, retransmits=SEGMENTS * 0.006, fast=SEGMENTS * 0.006)
    assert said(settled(named(lossy, *PEERS)).job) == ("COMPUTE", None)


def test_r15_a_main_thread_that_spins_in_a_synchronise_call_is_healthy() -> None:
    node = rank(gpu=Gpu(util=99, power=600), main={"run": 1.0}, main_run=1.0)
    assert said(settled(named(node, "x")).job) == ("COMPUTE", None)


def test_r22_loaders_that_idle_are_good_news_and_no_wait() -> None:
    node = rank(
        gpu=Gpu(util=30, power=180),
        main={"unknown": 0.9, "run": 0.1},
        main_run=0.1,
        loader={"futex": 0.97, "run": 0.03},
        loader_run=0.03,
    )
    verdict = settled(named(node, *PEERS))
    assert verdict.job.state == "UNKNOWN"
    assert all(n.state not in ("CPU", "STORAGE") for n in verdict.nodes)


def test_busy_loaders_with_a_busy_gpu_are_no_wait() -> None:
    node = replace(
        rank(gpu=Gpu(util=98, power=600), loader={"run": 0.95, "ready": 0.05}, loader_run=0.95),
        busy=0.97,
        cpus=16,
    )
    assert said(settled(named(node, "x")).job) == ("COMPUTE", None)


def test_r23_stolen_cpu_time_is_named() -> None:
    node = replace(LATE, busy=0.4, steal=0.2, cpus=8)
    starved = replace(node, ranks=(replace(node.ranks[0], gpu=Gpu(util=50, power=300)),))
    verdict = settled(named(starved, "x"))
    assert said(verdict.nodes[0]) == ("CPU", "system")
    assert any(f.metric == "cpu_steal_ms" for f in verdict.nodes[0].support)


def test_busy_kernel_workers_without_blocked_threads_are_no_storage() -> None:
    node = replace(VICTIM, kworkers={"events_unbound": 1.5, "kswapd0": 0.5, "writeback": 0.3})
    assert settled(named(node, *PEERS)).nodes[0].state != "STORAGE"


def test_r27_a_hot_gpu_that_is_not_slowed_is_no_cause() -> None:
    node = rank(gpu=Gpu(util=98, power=640, heat=0.01))
    assert said(settled(named(node, "x")).job) == ("COMPUTE", None)


def test_a_gpu_slowed_by_heat_draws_less_and_still_does_not_spin() -> None:
    play = Play(("x", *PEERS))
    play.run(named(GOOD, "x", *PEERS), 60)
    verdict = play.run((*named(HALF, *PEERS), *named(HOT, "x")), 40)
    assert said(verdict.job) == ("GPU", "throttled")
    assert blamed(verdict.job) == {"GPU 0 of x"}
    hot = next(n for n in verdict.nodes if n.node == "x")
    assert hot.shares is not None
    assert hot.shares.spin == 0


def test_a_node_whose_gpus_cannot_be_read_is_not_the_one_that_waits_least() -> None:
    mig = rank(gpu=Gpu(util=None, power=None, memory=None))
    verdict = settled((*named(VICTIM, *PEERS), *named(mig, "m")))
    assert "m" not in blamed(verdict.job)


def test_heat_on_all_nodes_is_said_and_no_single_node_blamed() -> None:
    node = rank(gpu=Gpu(util=98, power=420, clock=900, heat=0.6))
    verdict = settled(named(node, *PEERS))
    assert said(verdict.job) == ("GPU", "throttled")
    assert {c.kind for c in verdict.job.culprits} == {"job"}


def test_utilisation_zero_at_full_power_is_not_believed() -> None:
    verdict = settled(named(rank(gpu=Gpu(util=0, power=600)), "wsl"))
    assert verdict.job.state == "UNKNOWN"
    assert "not reliable" in verdict.nodes[0].text


def test_an_idle_gpu_without_ranks_is_idle_not_starved() -> None:
    idle = Node("free", ranks=(), gpus=(Gpu(util=0, power=70, memory=0),) * 8, held=False)
    assert said(settled((idle,)).nodes[0]) == ("IDLE", None)


def test_without_a_gpu_library_the_host_is_judged_by_its_threads_alone() -> None:
    clean = replace(GOOD, absent={"nvml": "no libnvidia-ml.so.1"}, without=ALL_GPU)
    blocked = replace(READS, absent=clean.absent, without=ALL_GPU)
    quiet, reads = (settled(named(n, "x")).nodes[0] for n in (clean, blocked))
    assert quiet.state == "UNKNOWN"
    assert "no libnvidia-ml.so.1" in {m.reason for m in quiet.missing}
    assert said(reads) == ("STORAGE", "read")
    assert reads.confidence <= 0.5


ALL_GPU = frozenset(("gpu", name) for name in ("util_pct", "power_w", "memory_util_pct"))


def test_r44_a_node_that_is_not_seen_may_be_the_culprit_and_is_named() -> None:
    play = Play(("lost", *PEERS))
    play.run(named(GOOD, "lost", *PEERS), 40)
    play.lose("lost", "connection reset")
    verdict = play.run(named(VICTIM, *PEERS), 40)
    assert verdict.job.state == "UNKNOWN"
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("unknown", "lost")]
    lost = verdict.nodes[0]
    assert (lost.state, lost.confirmed_us) == ("UNKNOWN", None)
    assert "no sample for" in lost.text
    assert "connection reset" in lost.text


def test_a_stale_node_is_not_blamed_and_lowers_confidence() -> None:
    play = Play(("old", "x", *PEERS))
    play.run(named(READS, "old", "x", *PEERS), 2)
    nodes = (*named(VICTIM, *PEERS), *named(READS, "x"))
    verdict = play.run(nodes, 40)
    assert said(verdict.job) == ("STORAGE", "read")
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.confidence < settled(nodes).job.confidence


def test_the_rank_at_zero_is_named_though_its_reason_is_not_known() -> None:
    stdin = Rank(name="0", gpu=Gpu(util=0, power=53, limit=300, memory=0, model="V100"),
                 main={"unknown": 1.0}, main_run=0.0, loader={})  # fmt: skip
    spins = replace(WAITS, gpu=Gpu(util=100, power=66, limit=300, memory=1, model="V100"))
    ranks = (stdin, *(replace(spins, name=str(i)) for i in range(1, 8)))
    verdict = settled((Node("glm", ranks=ranks), *named(Node(ranks=(spins,)), "g1", "g2")))
    assert verdict.job.state == "UNKNOWN"
    assert blamed(verdict.job) == {"rank 0 of glm"}
    assert [r.state for r in verdict.ranks[1:]] == ["PEER"] * 9


def test_r41_a_counter_that_starts_anew_makes_no_rate() -> None:
    play = Play(PEERS)
    nodes = named(SENDS, *PEERS)
    play.run(nodes, 20)
    play.restart_counters()
    before = [n.state for n in play.run(nodes, 1).nodes]
    assert [n.state for n in play.run(nodes, 20).nodes] == before
    assert play.history[-1].job.state != "NETWORK"


def test_r39_two_jobs_on_the_same_nodes_are_judged_apart() -> None:
    mine = replace(WAITS, group="slurm:1")
    other = replace(READS.ranks[0], group="slurm:2", pid=9000)
    nodes = tuple(
        Node(n, ranks=(*(replace(mine, name=f"{n}{i}") for i in range(4)),
                       replace(other, name=f"o{n}")))
        for n in PEERS
    )  # fmt: skip
    verdict = settled(nodes)
    assert {n.group for n in verdict.nodes} == {"slurm:1"}
    assert verdict.job.state == "UNKNOWN"
    assert "1 more job there" in verdict.job.text
    assert {said(r) for r in verdict.ranks if r.group == "slurm:2"} == {("STORAGE", "read")}


def test_sessions_of_several_nodes_are_one_job() -> None:
    nodes = tuple(
        replace(node, ranks=tuple(replace(r, group=f"session:{i}") for r in node.ranks))
        for i, node in enumerate((*named(VICTIM, *PEERS), *named(READS, "x")))
    )
    verdict = settled(nodes)
    assert blamed(verdict.job) == {"x"}
    assert len(verdict.job.waiting) == 4


def test_ranks_that_the_environment_tells_of_but_nobody_sees_lower_confidence() -> None:
    seen = (*named(VICTIM, *PEERS), *named(READS, "x"))
    hidden = tuple(replace(n, ranks=tuple(replace(r, world=10) for r in n.ranks)) for n in seen)
    assert settled(hidden).job.confidence < settled(seen).job.confidence


def test_loss_on_a_node_does_not_hide_the_one_that_reads() -> None:
    verdict = settled((*named(LOSES, "g1"), *named(SENDS, "g2", "g3", "g4"), *named(READS, "x")))
    assert "x" in blamed(verdict.job)
    assert verdict.job.candidates
    assert verdict.job.confidence <= 0.6


HOGGED = rank(
    gpu=Gpu(util=50, power=300),
    main={"futex": 0.7, "run": 0.1, "ready": 0.2},
    main_run=0.1,
    main_delay=0.2,
    loader={"run": 0.25, "ready": 0.7, "futex": 0.05},
    loader_run=0.2,
    loader_delay=0.7,
    loaders=4,
)


def test_loaders_that_a_strangers_program_keeps_from_running_prepare_no_data() -> None:
    verdict = settled(named(replace(HOGGED, busy=0.98, cpus=32), "x"))
    assert said(verdict.nodes[0]) == ("CPU", "system")


def test_loaders_under_a_quota_are_held_back_by_it() -> None:
    verdict = settled(named(replace(HOGGED, busy=0.06, cpus=32), "x"))
    assert said(verdict.nodes[0]) == ("CPU", "quota")


def test_without_names_of_waits_a_busy_disk_is_only_probably_the_cause() -> None:
    hidden = replace(
        READS,
        iowait=0.4,
        absent={"threads.wchan": "not permitted (uid 1000)"},
        ranks=(
            replace(
                READS.ranks[0],
                main={"unknown": 0.8, "run": 0.2},
                loader={"unknown": 0.9, "run": 0.1},
            ),
        ),
    )
    verdict = settled(named(hidden, "x")).nodes[0]
    assert said(verdict) == ("STORAGE", "read")
    assert verdict.confidence <= 0.5
    assert "not permitted (uid 1000)" in {m.reason for m in verdict.missing}


def test_a_stuck_storage_driver_without_a_starved_gpu_is_no_cause() -> None:
    node = replace(GOOD, iowait=0.98, disk_busy=1.0, disk_ms=900)
    assert settled(named(node, "x")).job.state == "COMPUTE"


def test_r19_a_main_thread_that_compiles_while_the_gpu_does_nothing_is_not_blamed() -> None:
    starts = rank(gpu=Gpu(util=0, power=120, memory=0), main={"run": 1.0}, loader={})
    verdict = settled(named(replace(starts, busy=0.5), *PEERS))
    assert verdict.job.state == "UNKNOWN"
    assert "starting up, compiling" in verdict.nodes[0].text


def test_a_full_port_with_gpus_at_middling_power_is_told_with_doubt() -> None:
    full = replace(
        rank(gpu=Gpu(util=99, power=290, memory=10)), nics=(Nic(rx_mb=1190, speed=10_000),)
    )
    assert all(n.confidence <= 0.6 for n in settled(named(full, *PEERS), 20).nodes)


def test_a_node_that_nobody_uses_is_not_the_one_that_waits_least() -> None:
    spins = Node(ranks=(), gpus=(replace(WAITS.gpu),) * 2)
    free = Node("free", ranks=(), gpus=(Gpu(util=0, power=70, memory=0),) * 2, held=False)
    verdict = settled((*named(spins, *PEERS), free))
    assert "free" not in blamed(verdict.job)


def test_a_lost_gpu_is_told() -> None:
    lost = Node(
        "x",
        ranks=(Rank(name="0"),),
        gpus=(),
        absent={"nvml.gpu0": "GPU is lost"},
        without=ALL_GPU,
    )
    verdict = settled((lost,)).nodes[0]
    assert "GPU is lost" in {m.reason for m in verdict.missing}


def test_r29_power_that_is_held_up_while_the_gpu_waits_is_no_work() -> None:
    """Power smoothing keeps a floor of 60 % of the limit under a collective that waits."""
    floor = Gpu(util=100, power=430, memory=2)
    held = replace(floor, more={"power_smoothing": 1})
    assert settled(named(rank(gpu=floor), *PEERS)).job.state == "COMPUTE"
    assert settled(named(rank(gpu=held), *PEERS)).job.state == "UNKNOWN"
    spins = replace(held, sm=15, tensor=0, dram=1)
    assert settled(named(rank(gpu=spins), *PEERS)).nodes[0].state == "PEER"
    works = replace(held, sm=92, tensor=45, dram=40)
    verdict = settled(named(rank(gpu=works), *PEERS)).job
    assert (verdict.state, verdict.shares and verdict.shares.levels) == ("COMPUTE", "gpm")
    starved = replace(held, util=20)
    shares = settled(named(rank(gpu=starved), *PEERS)).nodes[0].shares
    assert shares is not None
    assert shares.starved == pytest.approx(0.8)
