"""Who talks to whom: every pair once, nobody twice in a round, as few rounds as there can be."""

import random
from itertools import combinations
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.preflight.addresses import chosen
from gpuwatch.preflight.checks import bandwidth
from gpuwatch.preflight.iperf3 import Measure
from gpuwatch.preflight.rounds import matchings, rounds

GBIT = 1e9


def names(count: int) -> list[str]:
    return [f"gpu{number:03}" for number in range(count)]


@given(st.integers(2, 16))
def test_all_pairs_in_as_few_rounds_as_there_can_be(count: int) -> None:
    plan = rounds(names(count))
    assert len(plan) == (count - 1 if count % 2 == 0 else count)
    seen = [frozenset(pair) for pairs in plan for pair in pairs]
    assert sorted(map(sorted, seen)) == sorted(map(list, combinations(names(count), 2)))
    for pairs in plan:
        ends = [node for pair in pairs for node in pair]
        assert len(ends) == len(set(ends))


@given(st.integers(17, 80))
def test_of_many_nodes_each_meets_some_near_and_far(count: int) -> None:
    plan = matchings(names(count))
    assert len(plan) <= ceil(log2(count))
    for pairs in plan:
        ends = [node for pair in pairs for node in pair]
        assert len(ends) == len(set(ends))
    assert {node for pairs in plan for pair in pairs for node in pair} == set(names(count))
    meetings = [frozenset(pair) for pairs in plan for pair in pairs]
    least = min(sum(node in pair for pair in meetings) for node in names(count))
    assert least >= 2


def carried(
    count: int, slow_node: str = "", slow_pair: frozenset[str] = frozenset()
) -> dict[tuple[str, str], Measure]:
    """What pairs carry in the rounds of so many nodes, with something planted."""
    found = {}
    for pairs in matchings(names(count)):
        for a, b in pairs:
            for way in ((a, b), (b, a)):
                is_slow = slow_node in way or frozenset(way) == slow_pair
                found[way] = Measure((0.4 if is_slow else 0.95) * GBIT)
    return found


def test_of_64_nodes_a_slow_one_and_a_slow_pair_are_found() -> None:
    nominal = dict.fromkeys(names(64), GBIT)
    together = carried(64, slow_node="gpu037")
    again = {pair: m for pair, m in together.items() if "gpu037" in pair}
    assert [f.subject for f in bandwidth.judged(together, again, nominal)] == ["gpu037"]
    a, b = matchings(names(64))[3][5]
    pair = frozenset((a, b))
    together = carried(64, slow_pair=pair)
    again = {way: m for way, m in together.items() if frozenset(way) == pair}
    (found,) = bandwidth.judged(together, again, nominal)
    assert (found.judgement, found.subject) == ("fault", " <-> ".join(sorted(pair)))


def test_what_is_slow_only_beside_others_blames_no_node() -> None:
    nominal = dict.fromkeys(names(4), GBIT)
    together = {way: Measure(0.5 * GBIT) for way in carried(4)}
    (found,) = bandwidth.judged(together, carried(4), nominal)
    assert (found.subject, found.judgement) == ("job", "fault")
    assert "oversubscribed" in found.text


def test_a_process_that_has_a_whole_core_measures_that_core() -> None:
    nominal = {"a": 100 * GBIT, "b": 100 * GBIT}
    told = bandwidth.judged({("a", "b"): Measure(20 * GBIT, cpu_pct=99.0)}, {}, nominal)
    assert [f.judgement for f in told] == ["not judged"]
    assert "CPU-bound" in told[0].text


def test_where_no_line_rate_is_known_others_are_the_measure() -> None:
    together = carried(6, slow_node="gpu002")
    assert [f.subject for f in bandwidth.judged(together, {}, {})] == ["gpu002"]


@given(st.integers(3, 16), st.data())
def test_names_and_order_of_nodes_do_not_matter(count: int, data: st.DataObject) -> None:
    slow = data.draw(st.sampled_from(names(count)))
    together = carried(count, slow_node=slow)
    shuffled = dict(data.draw(st.permutations(list(together.items()))))
    found = bandwidth.judged(shuffled, {}, {})
    assert found == bandwidth.judged(together, {}, {}) or {f.subject for f in found} == {
        f.subject for f in bandwidth.judged(together, {}, {})
    }


@pytest.mark.parametrize("nominal", [{}, dict.fromkeys(names(8), GBIT)])
@pytest.mark.parametrize("spread", [0.03, 0.06])
def test_noise_of_a_healthy_network_is_no_fault(nominal: dict[str, float], spread: float) -> None:
    faults = 0
    for seed in range(50):
        drawn = random.Random(seed)
        together = {way: Measure(drawn.gauss(0.94, spread * 0.94) * GBIT) for way in carried(8)}
        alone: dict[tuple[str, str], Measure] = {}
        for _ in range(bandwidth.TRIES):
            pairs = bandwidth.suspects({**together, **alone}, nominal)
            ways = [way for a, b in pairs for way in ((a, b), (b, a))]
            again = {way: Measure(drawn.gauss(0.94, spread * 0.94) * GBIT) for way in ways}
            alone = bandwidth.better(alone, again)
        faults += any(f.judgement == "fault" for f in bandwidth.judged(together, alone, nominal))
    assert faults <= 1


def test_of_two_nodes_nothing_is_said_of_others() -> None:
    nominal = {"a": GBIT, "b": GBIT}
    ways = {("a", "b"): Measure(0.4 * GBIT), ("b", "a"): Measure(0.9 * GBIT)}
    (found,) = bandwidth.judged(ways, {}, nominal)
    assert found.subject == "a -> b"
    assert "others" not in found.text


def test_the_jobs_network_is_measured_not_that_of_the_login() -> None:
    shown = (
        "2: eth0    inet 10.0.0.5/24 brd 10.0.0.255 scope global eth0\\ valid_lft forever\n"
        "3: ib0@if4    inet 10.9.0.5/16 scope global ib0\\ valid_lft forever\n"
    )
    assert chosen(shown, ["ib*", "eth0"]) == "10.9.0.5"
    assert chosen(shown, ["mlx*"]) is None
