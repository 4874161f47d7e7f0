"""Events become a view: windows, ages, entities that come and go, agents that start anew."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Labels, Value
from gpuwatch.model.cluster import FAULTS, WINDOW_S, Cluster
from gpuwatch.model.derive import BRIDGE_S
from gpuwatch.model.event import Fault, Hello, Link, Row, Sample, Tick
from gpuwatch.model.view import NodeView, View

SECOND = 1_000_000


def sample(
    at_s: float,
    nics: dict[str, float | None] | None = None,
    node: str = "a",
    agent: str = "1",
    absent: dict[str, str] | None = None,
    mbps: int | None = None,
) -> Sample:
    """Make a sample whose ports have received so many bytes."""
    tables: dict[str, tuple[Row, ...]] = dict.fromkeys(catalogue.SCOPES, ())
    tables["nic"] = tuple(
        Row((name,), values("nic", rx_bytes=count, speed_mbps=mbps))
        for name, count in (nics or {}).items()
    )
    tables["absence"] = tuple(Row(pair, ()) for pair in (absent or {}).items())
    return Sample(
        event_no=0, arrived_us=round(at_s * SECOND), wall_us=0, node=node, boot_id="b",
        agent_id=agent, sequence=0, generation=0, node_mono_us=round(at_s * SECOND) + 77,
        node_wall_us=0, offset_us=None, offset_error_us=None,
        tables=tuple(tables[s] for s in catalogue.SCOPES),
    )  # fmt: skip


def values(scope: str, **read: Value) -> tuple[Value, ...]:
    return tuple(read.get(row.name) for row in catalogue.VALUES[scope])


def view_of(*samples: Sample, now_s: float | None = None) -> View:
    cluster = Cluster(["a"], 1.0)
    for one in samples:
        cluster.apply(one)
    last = max((s.arrived_us for s in samples), default=0)
    now_us = last if now_s is None else round(now_s * SECOND)
    return cluster.view(Tick(event_no=9, arrived_us=now_us, wall_us=5))


def node_of(*samples: Sample, now_s: float | None = None) -> NodeView:
    return view_of(*samples, now_s=now_s).nodes[0]


ETH: Labels = ("eth0",)


def test_a_window_is_as_long_as_asked_for_or_as_there_is() -> None:
    node = node_of(*(sample(t, {"eth0": t * 100}) for t in range(10)))
    short, long = node.window(3), node.window(30)
    assert short is not None
    assert long is not None
    assert (short.seconds, long.seconds) == (3, 9)
    assert short.rate("nic", ETH, "rx_bytes") == 100
    assert long.growth("nic", ETH, "rx_bytes") == 900
    assert list(long.growths("nic", "rx_bytes")) == [(ETH, 900)]


def test_one_sample_is_no_window() -> None:
    assert node_of(sample(1)).window(5) is None
    assert node_of().window(5) is None


def test_what_was_missing_for_a_while_grew_meanwhile_and_its_rate_is_right() -> None:
    window = node_of(
        sample(0, {"eth0": 0}), sample(1, {"eth0": 100}), sample(2, {"eth0": None}),
        sample(3, {"eth0": 300}), sample(4, {"eth0": 400}), sample(5, {"eth0": None}),
    ).window(30)  # fmt: skip
    assert window is not None
    assert window.rate("nic", ETH, "rx_bytes") == 100
    assert window.coverage("nic", ETH, "rx_bytes") == 0.8
    assert window.rate("nic", ETH, "tx_bytes") is None
    assert window.coverage("nic", ETH, "tx_bytes") == 0


def test_what_is_read_seldom_has_the_rate_of_all_the_time_between() -> None:
    window = node_of(
        sample(0, {"eth0": 0}), sample(1), sample(2), sample(3, {"eth0": 900}),
        sample(4), sample(5, {"eth0": 1500}), sample(6),
    ).window(30)  # fmt: skip
    assert window is not None
    assert window.rate("nic", ETH, "rx_bytes") == 300
    assert window.coverage("nic", ETH, "rx_bytes") == pytest.approx(5 / 6)


def test_an_entity_that_was_away_for_long_starts_anew() -> None:
    back = 3 + round(BRIDGE_S)
    away = (sample(t) for t in range(2, back))
    window = node_of(
        sample(0, {"eth0": 0}), sample(1, {"eth0": 100}), *away, sample(back, {"eth0": 9000}),
        sample(back + 1, {"eth0": 9100}),
    ).window(30)  # fmt: skip
    assert window is not None
    assert window.growth("nic", ETH, "rx_bytes") == 200


def test_what_left_long_ago_is_forgotten() -> None:
    cluster = Cluster(["a"], 1.0)
    for t in range(round(WINDOW_S) * 2 + 5):
        cluster.apply(sample(t, {f"veth{t}": t}))
    point = cluster.view(Tick(event_no=0, arrived_us=0, wall_us=0)).nodes[0].points[-1]
    assert len(point.totals["nic"].places) <= WINDOW_S + 2


def test_a_gauge_is_told_sample_by_sample_and_the_first_entities_of_a_window_are() -> None:
    node = node_of(
        *(sample(t, {"eth0": t, **({"eth1": t} if t > 6 else {})}, mbps=t * t) for t in range(10))
    )
    assert node.readings("nic", ETH, "speed_mbps", 3) == pytest.approx([49, 64, 81])
    short, long = node.window(2), node.window(5)
    assert short is not None
    assert long is not None
    assert short.began_with("nic") == {ETH, ("eth1",)}
    assert long.began_with("nic") == {ETH}


def test_points_are_kept_for_the_slow_window_only() -> None:
    node = node_of(*(sample(t) for t in range(100)))
    assert len(node.points) == WINDOW_S + 1


def test_a_new_agent_starts_anew() -> None:
    node = node_of(sample(0), sample(1), sample(2, agent="2"))
    assert len(node.points) == 1


def test_k34_a_wall_clock_that_is_set_back_and_forth_makes_no_rate() -> None:
    """Two hours back, then forth again: what a port carries is as it was, second by second."""
    steps_us = (0, 0, -7200 * SECOND, -7200 * SECOND, 0, 0)
    samples = [
        msgspec.structs.replace(
            sample(t, {"eth0": t * 1000}), node_wall_us=10**15 + t * SECOND + step_us
        )
        for t, step_us in enumerate(steps_us)
    ]
    for count in range(2, len(samples) + 1):
        window = node_of(*samples[:count]).window(30)
        assert window is not None
        assert window.rate("nic", ETH, "rx_bytes") == 1000


def test_k35_a_clock_that_stands_still_or_goes_back_is_skipped() -> None:
    node = node_of(sample(5, {"eth0": 1}), sample(5, {"eth0": 2}), sample(4, {"eth0": 3}))
    assert len(node.points) == 1
    node = node_of(
        sample(5, {"eth0": 1}), sample(5, {"eth0": 2}), sample(4, {"eth0": 3}),
        sample(6, {"eth0": 11}), sample(7, {"eth0": 21}),
    )  # fmt: skip
    window = node.window(30)
    assert window is not None
    assert window.rate("nic", ETH, "rx_bytes") == 10


def test_age_late_and_stale_go_by_ticks_without_a_sample() -> None:
    fresh, late, stale = (node_of(sample(1), now_s=s) for s in (2.0, 4.0, 7.0))
    assert (fresh.age_us, fresh.late, fresh.stale) == (SECOND, False, False)
    assert (late.late, late.stale) == (True, False)
    assert (stale.late, stale.stale) == (True, True)
    assert node_of().stale


def test_what_could_not_be_read_has_a_reason() -> None:
    node = node_of(sample(1, absent={"nvml": "no library", "disk.busy_ms": "too old"}))
    assert node.absence("nvml") == "no library"
    assert node.absence("nvml.power_w") == "no library"
    assert node.absence("disk.busy_ms") == "too old"
    assert node.absence("disk") is None


def test_links_hellos_and_the_last_faults_are_seen_and_unknown_nodes_join() -> None:
    cluster = Cluster(["a"], 1.0)
    link = Link(event_no=1, arrived_us=1, wall_us=1, node="b", state="lost", step="login")
    hello = Hello(
        event_no=2, arrived_us=1, wall_us=1, node="a", boot_id="x", agent_id="y", facts={}
    )
    cluster.apply(link)
    cluster.apply(hello)
    for i in range(FAULTS + 3):
        cluster.apply(Fault(event_no=i, arrived_us=1, wall_us=1, node="a", source="s", text=str(i)))
    view = cluster.view(Tick(event_no=3, arrived_us=1, wall_us=1))
    assert [n.name for n in view.nodes] == ["a", "b"]
    a, b = view.nodes
    assert b.link == link
    assert a.hello == hello
    assert [f.text for f in a.faults] == [str(i) for i in range(3, FAULTS + 3)]
    assert view.node("b") is b
    assert view.node("c") is None


steps = st.tuples(
    st.floats(-1, 3), st.dictionaries(st.sampled_from("xyz"), st.none() | st.integers(0, 10**12))
)


@given(st.lists(steps, max_size=30), st.floats(0.5, 40))
def test_rates_are_never_negative_and_coverage_is_a_share(
    walk: list[tuple[float, dict[str, float | None]]], seconds: float
) -> None:
    now = 10.0
    samples = []
    for step, nics in walk:
        now = max(0.0, now + step)
        samples.append(sample(now, nics))
    window = node_of(*samples).window(seconds)
    if window is None:
        return
    for labels in window.entities("nic"):
        rate = window.rate("nic", labels, "rx_bytes")
        assert rate is None or rate >= 0
        assert 0 <= window.coverage("nic", labels, "rx_bytes") <= 1
        growth = dict(window.growths("nic", "rx_bytes")).get(labels)
        assert growth == window.growth("nic", labels, "rx_bytes")


@given(st.lists(st.integers(1, 5), min_size=2, max_size=20))
def test_two_views_of_the_same_events_are_equal(gaps: list[int]) -> None:
    samples, now = [], 0
    for gap in gaps:
        now += gap
        samples.append(sample(now, {"eth0": now * 7}))
    first, second = view_of(*samples), view_of(*samples)
    assert first.nodes[0].sample == second.nodes[0].sample
    assert [p.totals for p in first.nodes[0].points] == [p.totals for p in second.nodes[0].points]


def test_a_clock_that_creeps_and_names_that_change_fill_no_memory() -> None:
    """A hostile node sends new ports in each frame, and says that no time has passed."""
    cluster = Cluster(["a"], 1.0)
    for turn in range(60):
        cluster.apply(sample(turn / SECOND, {f"{turn}-{n}": 0 for n in range(4000)}))
    points = cluster.view(Tick(event_no=9, arrived_us=60, wall_us=5)).nodes[0].points
    assert len(points) == 35 + 16
    assert max(len(point.totals["nic"].places) for point in points) < 3 * 4000
