"""GPUs whose utilisation is not reported: power, and whether clocks are idle, stand for it."""

from dataclasses import replace

from gpuwatch.model.verdict import JobVerdict
from verdict.scenario import WAITS, Gpu, Node, Play, Rank, blamed, named, said

IDLE, CAPPED = 1, 4
BLIND = Gpu(util=None, memory=None, power=560, reasons=CAPPED)
WORKS = Node(ranks=(Rank(gpu=BLIND),))
SPINS = Node(ranks=(replace(WAITS, gpu=replace(BLIND, power=170, reasons=0)),))


def after_good(*steps: tuple[Node, ...], seconds: int = 45) -> JobVerdict:
    """Return the verdict when nodes that worked do these in turn, a second each."""
    names = [node.name for node in steps[0]]
    play = Play(names)
    play.run(named(WORKS, *names), 40)
    for second in range(seconds):
        verdict = play.run(steps[second % len(steps)], 1)
    return verdict


def starves(reasons: int, power: float) -> Node:
    return Node(ranks=(Rank(gpu=replace(BLIND, power=power, reasons=reasons), main_run=1.0),))


def test_a_main_thread_that_starves_its_gpu_is_told_and_not_surely() -> None:
    """It does nothing in two of three looks; the others spin."""
    steps = [
        (*named(starves(reasons, power), "x"), *named(SPINS, "a", "b"))
        for reasons, power in ((IDLE, 133), (IDLE, 200), (CAPPED, 400))
    ]
    verdict = after_good(*steps)
    assert said(verdict.job) == ("CPU", "main-thread")
    assert blamed(verdict.job) <= {"x", "rank x.0 of x"}
    assert {n.state for n in verdict.nodes[1:]} == {"PEER"}
    assert all(v.confidence <= 0.5 for v in (verdict.job, *verdict.nodes))


def test_full_power_is_work_and_not_surely() -> None:
    verdict = after_good(named(WORKS, "a", "b"))
    assert said(verdict.job) == ("COMPUTE", None)
    assert verdict.job.confidence <= 0.5


def test_without_idle_clocks_nothing_is_guessed_from_power() -> None:
    dark = Node(ranks=(replace(WAITS, gpu=replace(BLIND, power=170, reasons=None)),))
    assert after_good(named(dark, "a", "b")).job.state == "UNKNOWN"
