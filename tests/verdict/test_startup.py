"""Jobs that compile before their first step."""

from dataclasses import replace

import pytest

from verdict.scenario import GOOD, PEERS, Gpu, Node, Play, named, quickly, rank, said

FORKS = {"forks": 12.0, "container": 0}
COMPILES = replace(
    rank(
        gpu=Gpu(util=0, power=110, memory=0), main={"process": 0.7, "futex": 0.2, "run": 0.1},
        main_run=0.1, loader={}, age_s=40,
    ),
    busy=0.5,
    more=FORKS,
)  # fmt: skip
"""Compilers on 64 of 128 CPUs."""


def test_o_a_job_that_waits_for_its_compilers_starts_up() -> None:
    verdict = quickly(named(COMPILES, *PEERS))
    assert said(verdict.job) == ("STARTUP", "compile")
    assert not verdict.job.culprits
    assert verdict.job.confidence <= 0.7
    assert "64 CPUs" in verdict.job.text


@pytest.mark.parametrize(
    "node",
    [
        replace(COMPILES, busy=0.004),
        replace(COMPILES, more={"forks": 0.1}),
        replace(COMPILES, more={**FORKS, "container": 1}),
        replace(COMPILES, ranks=(replace(COMPILES.ranks[0], main={"run": 1.0}, main_run=1.0),)),
    ],
    ids=["idle CPUs", "no new processes", "others' CPU time", "main thread works"],
)
def test_without_compilers_at_work_it_only_starts_up(node: Node) -> None:
    assert said(quickly(named(node, *PEERS)).job) == ("STARTUP", None)


def test_a_job_that_worked_does_not_start_up_when_it_compiles_again() -> None:
    play = Play(PEERS)
    play.run(named(GOOD, *PEERS), 30)
    assert play.run(named(COMPILES, *PEERS), 50).job.state != "STARTUP"
