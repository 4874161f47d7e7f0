"""Ranks that keep state on storage, and read and write it at each step."""

from dataclasses import replace

import pytest

from verdict.scenario import (
    GOOD,
    PEERS,
    VICTIM,
    WRITES,
    Gpu,
    Node,
    Play,
    Rank,
    blamed,
    named,
    quickly,
    said,
)

OFFLOADS = Rank(
    gpu=Gpu(util=35, power=260, memory=10),
    main={"block-read": 0.4, "block-write": 0.3, "run": 0.3}, main_run=0.3,
    main_read_mb=1800, write_mb=1500,
)  # fmt: skip


READING = {"block-read": 0.7, "run": 0.3}


def test_a_rank_that_reads_and_writes_its_state_all_the_time_is_named() -> None:
    node = Node(ranks=(OFFLOADS,), disk_busy=0.95, disk_ms=4)
    verdict = quickly((*named(VICTIM, *PEERS), *named(node, "x")))
    assert said(verdict.job) == ("STORAGE", "offload")
    assert blamed(verdict.job) == {"x"}
    assert "reads 1800 MB/s and writes 1500 MB/s" in verdict.job.text


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        (Node(ranks=(replace(OFFLOADS, write_mb=0, main=READING),)), ("STORAGE", "read")),
        (WRITES, ("STORAGE", "checkpoint")),
    ],
    ids=["only reads", "only writes"],
)
def test_one_way_alone_is_a_data_set_or_a_checkpoint(like: Node, expected: tuple[str, str]) -> None:
    verdict = quickly((*named(VICTIM, *PEERS), *named(like, "x")))
    assert said(verdict.job) == expected


def test_reading_before_a_checkpoint_and_writing_in_it_is_no_offload() -> None:
    play = Play(("x",))
    reads = replace(OFFLOADS, write_mb=0, main=READING)
    writes = replace(OFFLOADS, main_read_mb=0, main={"block-write": 0.9, "run": 0.1})
    play.run(named(Node(ranks=(reads,)), "x"), 40)
    seen = [play.run(named(Node(ranks=(writes,)), "x"), 1).job.cause for _ in range(20)]
    assert "offload" not in seen
    assert seen[-1] == "checkpoint"


def test_moving_state_is_nothing_while_gpus_compute() -> None:
    moves = replace(GOOD.ranks[0], main_read_mb=1800, write_mb=1500)
    assert quickly(named(replace(GOOD, ranks=(moves,)), *PEERS)).job.state == "COMPUTE"
