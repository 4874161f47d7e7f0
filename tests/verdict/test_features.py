"""What is read from samples for the causes: rates with enough behind them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.model.event import Tick
from gpuwatch.model.view import Window
from gpuwatch.verdict.features import Loss, host, loss, threads, wilson
from gpuwatch.verdict.thresholds import Thresholds
from verdict.scenario import GOOD, READS, SEGMENTS, SENDS, Nic, Node, Play


def window(node: Node, seconds: int = 12) -> Window:
    play = Play([node.name])
    play.run((node,), seconds)
    view = play.cluster.view(Tick(event_no=0, arrived_us=play.now_us, wall_us=0))
    found = view.nodes[0].window(30)
    assert found is not None
    return found


def loss_of(node: Node, segments: float = 100) -> Loss | None:
    return loss(window(node), Thresholds(retransmit_segments=segments))


def test_loss_probes_are_no_loss_and_stay_in_the_raw_rate() -> None:
    found = loss_of(replace(SENDS, retransmits=SEGMENTS * 0.01, probes=SEGMENTS * 0.004))
    assert found is not None
    assert found.raw == pytest.approx(0.01, rel=0.01)
    assert found.rate == pytest.approx(0.006, rel=0.01)
    assert found.low < found.rate


def test_a_handful_of_retransmits_is_not_held_against_the_network() -> None:
    found = loss_of(replace(SENDS, segments=30, retransmits=0.8))
    assert found is not None
    assert found.rate > 0.02
    assert found.low == 0


@pytest.mark.parametrize("name", ["tcp_out_segs", "tcp_retrans_segs", "tcp_loss_probes"])
def test_without_one_of_its_counters_there_is_no_rate(name: str) -> None:
    assert loss_of(replace(SENDS, without=frozenset({("node", name)}))) is None


def test_too_few_segments_have_no_rate() -> None:
    assert loss_of(SENDS, 1e9) is None


@given(st.floats(1, 1e9), st.floats(0, 1))
def test_the_lower_end_is_below_the_share_and_rises_with_volume(
    trials: float, share: float
) -> None:
    low = wilson(share * trials, trials)
    assert 0 <= low <= share + 1e-9
    assert low <= wilson(share * trials * 10, trials * 10) + 1e-9


def test_ports_count_each_alone_and_by_direction() -> None:
    node = replace(
        GOOD,
        nics=(Nic("mgmt", rx_mb=0.1, tx_mb=117, speed=1000), Nic("fast", speed=None, rx_mb=900)),
    )
    span = window(node)
    found = host(span, span, Thresholds())
    assert found.nic is not None
    assert (found.nic.name, found.nic.direction) == ("mgmt", "out")
    assert found.nic.used == pytest.approx(0.936, rel=0.01)
    assert found.nics[1].used is None
    assert found.nics[1].bytes_s == pytest.approx(900e6, rel=0.01)


def test_cpu_shares_are_of_all_cpus_and_disks_have_times() -> None:
    span = window(replace(READS, busy=0.4, iowait=0.1, steal=0.05))
    found = host(span, span, Thresholds())
    assert found.busy == pytest.approx(0.45, abs=0.01)
    assert found.iowait == pytest.approx(0.1, abs=0.01)
    assert found.steal == pytest.approx(0.05, abs=0.01)
    assert found.disk is not None
    assert found.disk.read_ms == pytest.approx(40, rel=0.01)
    assert found.disk.busy == pytest.approx(0.98, abs=0.01)


def test_waits_are_of_the_time_in_which_the_gpu_was_idle() -> None:
    (found,) = threads(window(READS), window(READS))
    loader = found.role("loader")
    assert loader.waits is not None
    assert loader.waits.starved
    assert loader.waits.share("block-read") == pytest.approx(0.85, abs=0.02)
    assert loader.run == pytest.approx(0.1, abs=0.01)
    (busy,) = threads(window(GOOD, 3), window(GOOD, 3))
    waits = busy.role("main").waits
    assert waits is not None
    assert not waits.starved


def test_too_few_samples_tell_no_share() -> None:
    play = Play(["n"])
    play.run((replace(GOOD, name="n"),), 2)
    view = play.cluster.view(Tick(event_no=0, arrived_us=play.now_us, wall_us=0))
    span = view.nodes[0].window(30)
    assert span is not None
    assert threads(span, span)[0].role("main").waits is None
