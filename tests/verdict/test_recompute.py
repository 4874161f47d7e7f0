"""Verdicts can be computed anew by hand: the queries of docs/verdicts.md, run as they stand there."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpuwatch.recording
from gpuwatch.engine.run import run
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.verdict import STATES, Finding
from gpuwatch.recording import Session
from gpuwatch.verdict.judge import Judge
from verdict.scenario import SECOND, WAITS, Gpu, Node, Play, Rank, named, rank

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "verdicts.md").read_text("utf-8")
PRELUDE, *QUERIES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
KINDS = [
    match.groups()
    for q in QUERIES
    if (match := re.search(r'told\(recording, "([A-Z-]+)"(?:, "([a-z-]+)")?\)', q))
]
ASLEEP = {"loader": {}, "main_run": 0.0, "read_mb": 0.0}
LINK = {
    "pcie_gen": 4, "pcie_gen_max": 4, "pcie_width": 16, "pcie_width_max": 16, "pcie_replays": 0,
    "pcie_rx_bytes": 1.2e9, "pcie_tx_bytes": 0.2e9,
}  # fmt: skip
SPINS = replace(WAITS, gpu=replace(WAITS.gpu, more=LINK), world=8)
NARROW = Rank(gpu=Gpu(util=35, power=230, memory=10, more={**LINK, "pcie_width": 1}), world=8)
YOURS: Mapping[str, Node] = {
    "memory": replace(
        rank(gpu=Gpu(util=60, power=300), main={"pipe": 0.7, "run": 0.3}, main_run=0.3,
             loader={"memory": 0.7, "run": 0.3}, loader_run=0.3),
        swap_in_pages=20_000,
    ),
    "narrow": Node(
        ranks=tuple(replace(NARROW if i == 5 else SPINS, name=str(i)) for i in range(8))
    ),
    "hung": rank(gpu=Gpu(util=0, power=120, memory=0), main={"stopped": 1.0}, **ASLEEP),
    "startup": rank(gpu=Gpu(util=0, power=110, memory=0), main={"run": 1.0}, loader={}, age_s=30),
    "idle": rank(gpu=Gpu(util=0, power=120, memory=0), main={"poll": 1.0}, **ASLEEP),
}  # fmt: skip
"""Nodes of which the test makes recordings, as none comes along."""


class _Events(Play):
    """A cluster's events, as a recorder gets them."""

    def of(self, node: Node, seconds: int) -> list[AnyEvent]:
        found: list[AnyEvent] = []
        for _ in range(seconds):
            self.now_us += SECOND
            found += [
                self.sample(node),
                Tick(event_no=self._no(), arrived_us=self.now_us, wall_us=self.now_us),
            ]
        return found


def recorded(folder: Path, node: Node) -> None:
    """Record a node for 20 seconds."""
    facts = Session(job="yours", nodes=(node.name,), interval_s=1.0, started_wall_us=0,
                    started_mono_us=0, version="1")  # fmt: skip

    async def feed() -> AsyncIterator[AnyEvent]:
        for event in _Events([node.name]).of(node, 20):
            yield event

    recorder = gpuwatch.recording.create(folder, facts, None)
    asyncio.run(run(feed(), Cluster([node.name], 1.0), Judge(), [recorder]))
    recorder.close()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recordings that come along, and yours."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "recordings").symlink_to(ROOT / "recordings")
    (folder / "yours").mkdir()
    return folder


@pytest.mark.parametrize("query", QUERIES, ids=["/".join(filter(None, kind)) for kind in KINDS])
def test_a_query_of_the_page_finds_the_deciding_fact(
    query: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, node in YOURS.items():
        if f'"yours/{name}"' in query:
            recorded(here / "yours" / name, named(node, "x")[0])
    monkeypatch.chdir(here)
    found: dict[str, Any] = {}
    exec(PRELUDE + query, found)
    fact = found["fact"]
    assert isinstance(fact, Finding)
    assert found["value"] == pytest.approx(fact.value, rel=0.01, abs=0.01)


def test_there_is_one_for_each_state_that_says_something() -> None:
    assert {state for state, _ in KINDS} == {*STATES} - {"UNKNOWN"}
