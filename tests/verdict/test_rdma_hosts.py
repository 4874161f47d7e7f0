"""Hosts whose RDMA ports move, from their files through agent's sources, wire and decoder to a verdict."""

from pathlib import Path

import msgspec
import pytest

from agent import moving
from gpuwatch.agent import catalogue
from gpuwatch.model.event import Row, Sample
from gpuwatch.model.verdict import JobVerdict
from verdict.scenario import GOOD, SECOND, Gpu, Node, Play, named, rank, said

GOOD_S = 6
BAD_S = 18
PORTS = frozenset(catalogue.SCOPES.index(scope) for scope in ("nic", "rdma", "absence"))
WAITS = rank(gpu=Gpu(util=99, power=250, memory=5))
Tables = tuple[tuple[Row, ...], ...]


class Hosts(Play):
    """A job whose ports are read from files, and whose GPUs and threads are as a test says."""

    def __init__(self, scenario: moving.Scenario, root: Path) -> None:
        super().__init__(moving.NAMES)
        self._lives = [scenario.nodes(moving.ONSET + second) for second in range(-GOOD_S, BAD_S)]
        self._hosts = {
            name: moving.Watched(moving.MovingHost(root / name)) for name in moving.NAMES
        }
        self._twins = {name: self._twin(name) for name in moving.NAMES}
        self._ports: dict[str, Tables] = {}

    def _twin(self, name: str) -> str:
        """Return the first node whose files say the same all along: they are read once."""
        alike = (n for n in moving.NAMES if all(now[n] == now[name] for now in self._lives))
        return next(alike)

    def sample(self, node: Node) -> Sample:
        """Return a node's next second, with what its files say of its ports."""
        twin, plain = self._twins[node.name], super().sample(node)
        if twin == node.name:
            watched = self._hosts[twin]
            watched.host.move(self._lives[self.now_us // SECOND - 2][twin])
            self._ports[twin] = watched.frame(self.now_us).tables
        tables = (
            self._ports[twin][scope] if scope in PORTS else table
            for scope, table in enumerate(plain.tables)
        )
        return msgspec.structs.replace(plain, tables=tuple(tables))


def judged(name: str, root: Path) -> JobVerdict:
    """Let all be well, then a scenario's ports do what they do from its onset on, while GPUs wait."""
    play = Hosts(moving.SCENARIOS[name], root)
    play.run(named(GOOD, *moving.NAMES), GOOD_S)
    return play.run(named(WAITS, *moving.NAMES), BAD_S)


FAULTY = {name: s for name, s in moving.SCENARIOS.items() if s.culprit}


@pytest.mark.parametrize("name", FAULTY)
def test_whose_port_is_at_fault(name: str, tmp_path: Path) -> None:
    verdict, scenario = judged(name, tmp_path), FAULTY[name]
    assert scenario.culprit is not None
    node, port = scenario.culprit
    assert said(verdict.job) == ("NETWORK", scenario.fault)
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("port", f"{port} of {node}")]
    assert verdict.job.confidence >= 0.6
    assert set(verdict.job.waiting) == set(moving.NAMES) - {node}


def test_r31_rdma_ports_that_are_up_and_silent_while_a_job_uses_sockets(tmp_path: Path) -> None:
    """Vq, D01: GPUs at 100 %, and no InfiniBand in use."""
    verdict = judged("fallback", tmp_path)
    assert {said(v) for v in (verdict.job, *verdict.nodes)} == {("NETWORK", "fallback")}
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("job", "network")]


@pytest.mark.parametrize("name", ["neighbour-congests", "adaptive-routing"])
def test_what_a_fabric_notes_of_itself_is_no_fault(name: str, tmp_path: Path) -> None:
    """R32, R33: congestion notices with full traffic; packets out of sequence, none sent again."""
    verdict = judged(name, tmp_path)
    assert {v.state for v in (verdict.job, *verdict.nodes)} <= {"UNKNOWN", "PEER"}


def test_a_virtual_function_counts_no_loss_so_nothing_is_known(tmp_path: Path) -> None:
    verdict = judged("virtual-function", tmp_path)
    assert verdict.job.state == "UNKNOWN"
    (why,) = {m.reason for m in verdict.nodes[0].missing if m.signal == "rdma.packet_seq_err"}
    assert "virtual function" in why
