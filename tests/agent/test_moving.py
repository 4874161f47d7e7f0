"""Network ports whose counters move: from the files of a node to the rates that a judge sees."""

from pathlib import Path

import pytest

from agent.kit import agent
from agent.moving import FULL, ONSET, QUIET, RAILS, SCENARIOS, MovingHost, Node, Play, rate
from gpuwatch.agent import catalogue
from gpuwatch.agent.sources import rdma
from gpuwatch.model.view import Window

REPLAYED = ONSET + 12


def windows(name: str, root: Path, seconds: int = REPLAYED) -> dict[str, Window]:
    play = Play(SCENARIOS[name], root)
    view = play.run(seconds)
    found = {node.name: node.window(seconds - ONSET) for node in view.nodes}
    return {node: window for node, window in found.items() if window}


def test_a_receiver_that_cannot_absorb_pauses_those_who_send(tmp_path: Path) -> None:
    found = windows("receiver-cannot-absorb", tmp_path)
    assert rate(found["n3"], "nic", "eth1", "tx_pfc_frames") == pytest.approx(21_000)
    assert rate(found["n3"], "nic", "eth1", "rx_pfc_frames") == 0
    assert rate(found["n3"], "nic", "eth1", "rx_discards") == pytest.approx(50)
    assert rate(found["n3"], "nic", "eth1", "tx_pause_us") == pytest.approx(800_000)
    for sender in ("n1", "n2", "n4"):
        assert rate(found[sender], "nic", "eth1", "rx_pfc_frames") == pytest.approx(7000)
        assert rate(found[sender], "nic", "eth1", "tx_pfc_frames") == 0


def test_loss_is_on_the_rail_that_loses_and_on_no_other(tmp_path: Path) -> None:
    found = windows("loss", tmp_path)
    assert rate(found["n2"], "rdma", "mlx5_3/1", "packet_seq_err") == pytest.approx(40)
    assert rate(found["n2"], "rdma", "mlx5_3/1", "local_ack_timeout_err") == pytest.approx(0.5)
    assert rate(found["n2"], "rdma", "mlx5_2/1", "packet_seq_err") == 0
    assert rate(found["n1"], "rdma", "mlx5_3/1", "packet_seq_err") == 0
    assert rate(found["n2"], "rdma", "mlx5_3/1", "tx_bytes") == pytest.approx(9e9)


def test_a_neighbour_s_congestion_shows_as_notifications_beside_full_traffic(
    tmp_path: Path,
) -> None:
    for window in windows("neighbour-congests", tmp_path).values():
        assert rate(window, "rdma", "mlx5_0/1", "cnp_handled") == pytest.approx(500, rel=0.1)
        assert rate(window, "rdma", "mlx5_0/1", "cnp_sent") == pytest.approx(500, rel=0.1)
        assert rate(window, "rdma", "mlx5_0/1", "ecn_marked") == pytest.approx(900, rel=0.1)
        assert rate(window, "rdma", "mlx5_0/1", "tx_bytes") == pytest.approx(20e9)
        assert rate(window, "rdma", "mlx5_0/1", "packet_seq_err") == 0


def test_adaptive_routing_puts_packets_out_of_order_and_loses_none(tmp_path: Path) -> None:
    for window in windows("adaptive-routing", tmp_path).values():
        assert rate(window, "rdma", "mlx5_7/1", "out_of_sequence") == pytest.approx(2000, rel=0.1)
        for lost in ("packet_seq_err", "local_ack_timeout_err", "duplicate_request"):
            assert rate(window, "rdma", "mlx5_7/1", lost) == 0


def test_one_rail_of_eight_is_slow(tmp_path: Path) -> None:
    window = windows("slow-rail", tmp_path)["n2"]
    rates = [window.latest("rdma", labels, "rate_mbps") for labels in window.entities("rdma")]
    assert rates == [400_000] * 3 + [100_000] + [400_000] * 4
    sent = [rate(window, "rdma", f"mlx5_{i}/1", "tx_bytes") for i in range(8)]
    assert sent == pytest.approx([FULL * 1e6] * 3 + [11.5e9] + [FULL * 1e6] * 4)


def test_one_rail_of_eight_has_symbol_errors(tmp_path: Path) -> None:
    window = windows("symbol-errors", tmp_path)["n2"]
    assert rate(window, "rdma", "mlx5_3/1", "symbol_errors") == pytest.approx(300, rel=0.1)
    assert rate(window, "rdma", "mlx5_4/1", "symbol_errors") == 0


def test_a_link_that_flaps_is_down_and_counted(tmp_path: Path) -> None:
    play = Play(SCENARIOS["link-flap"], tmp_path)
    states = []
    for _ in range(ONSET + 5):
        window = play.run(1).nodes[1].window(1)
        if window:
            states.append(window.latest("rdma", ("mlx5_5/1", None, "InfiniBand"), "state"))
    assert states == [4] * (ONSET - 2) + [1, 1, 1, 4, 4, 4]
    view = play.run(3)
    window = view.nodes[1].window(15)
    assert window
    assert window.growth("rdma", ("mlx5_5/1", None, "InfiniBand"), "link_downed") == 1


def test_a_fallback_to_sockets_leaves_active_rails_without_bytes(tmp_path: Path) -> None:
    for window in windows("fallback", tmp_path).values():
        assert window.latest("rdma", ("mlx5_0/1", None, "InfiniBand"), "state") == 4
        assert rate(window, "rdma", "mlx5_0/1", "tx_bytes") == pytest.approx(1000)
        assert rate(window, "nic", "eth0", "tx_bytes") == pytest.approx(1.1e9)


def test_a_virtual_function_has_bytes_and_no_witness_of_loss(tmp_path: Path) -> None:
    view = Play(SCENARIOS["virtual-function"], tmp_path).run(5)
    window = view.nodes[0].window(4)
    assert window
    assert rate(window, "rdma", "mlx5_2/1", "tx_bytes") == pytest.approx(5e8)
    assert rate(window, "rdma", "mlx5_2/1", "packet_seq_err") is None
    reason = view.nodes[0].absence("rdma.packet_seq_err")
    assert reason == "mlx5_2/1: no hw_counters: a virtual function"


def test_every_counter_of_a_quiet_port_stands_still(tmp_path: Path) -> None:
    play = Play(SCENARIOS["slow-rail"], tmp_path)
    window = play.run(6).nodes[0].window(5)
    assert window
    still = [r.name for r in rdma.ROWS if r.kind == "counter" and r.locator in QUIET]
    assert still
    assert [rate(window, "rdma", "mlx5_0/1", name) for name in still] == [0.0] * len(still)


def test_an_agent_of_its_own_sends_what_the_ports_say(tmp_path: Path) -> None:
    host = MovingHost(tmp_path)
    host.move(Node(RAILS))
    place = catalogue.SCOPES.index("rdma")
    state = 1 + catalogue.INDEX["rdma"]["state"]
    with agent({"interval_s": 0.2}, root=str(tmp_path)) as running:
        running.wait_for("data", 2)
        host.write("sys/class/infiniband/mlx5_6/ports/1/state", "1: DOWN")
        seen = len(running.of("data")) + 3
        states = [row[state] for row in running.wait_for("data", seen)[-1][8][place]]
        names = [labels[0] for labels in running.of("names")[-1][3][place]]
    assert names == [f"mlx5_{i}/1" for i in range(8)]
    assert states == [4, 4, 4, 4, 4, 4, 1, 4]
