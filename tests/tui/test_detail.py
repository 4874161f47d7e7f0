"""The node's page shows whatever the catalogue declares."""

import dataclasses

import pytest

from gpuwatch.agent import catalogue
from gpuwatch.tui.paint.detail import detail
from gpuwatch.tui.paint.pane import pane
from gpuwatch.tui.paint.spans import plain
from gpuwatch.tui.paint.why import why
from tui import scenarios
from tui.scripted import Level
from tui.test_paint import scene_of


async def test_every_row_of_the_catalogue_is_there() -> None:
    scene = await scene_of(scenarios.storage())
    said = [plain(line) for line in detail(scene, scene.view.nodes[2], 120)]
    rows = [r for r in catalogue.ROWS if r.scope in {"node", "gpu", "nic", "disk", "kworker"}]
    words = {word for line in said for word in line.split()}
    assert {row.name for row in rows} <= words
    assert any(line.split()[:2] == ["rank", "0"] and "disk read 85 %" in line for line in said)


async def test_each_gpu_has_a_column_however_narrow() -> None:
    scene = await scene_of(scenarios.storage())
    for cells in (60, 80, 120, 200):
        said = [plain(line) for line in detail(scene, scene.view.nodes[2], cells)]
        columns = [line.split()[1:] for line in said if line.split()[:1] == ["gpu"]]
        indices = [c for row in columns if row and row[0].isdigit() for c in row]
        assert indices[:8] == [str(i) for i in range(8)]


async def test_what_could_not_be_read_says_why() -> None:
    scene = await scene_of(scenarios.unreachable())
    said = "\n".join(plain(line) for line in detail(scene, scene.view.nodes[3], 120))
    assert "gpu  n/a  no libnvidia-ml.so.1" in said
    assert "n/a  no /proc/pressure: pressure_cpu_some_us" in said


async def test_t14_of_31_interfaces_the_busy_ones_come_first_and_the_quiet_are_named() -> None:
    """T14: they fill no page each; on the overview the busiest stands for all."""
    busy: Level = {"carrier": 1, "speed_mbps": 25_000}
    flows: dict[str, Level] = {
        f"cali{n:02}": {"rx_bytes": 0.0, "tx_bytes": 0.0, **busy} for n in range(29)
    }
    flows |= {"eth0": {"rx_bytes": 1e6, "tx_bytes": 1e6, **busy}}
    flows |= {"eth1": {"rx_bytes": 1e9, "tx_bytes": 1e6, **busy}}
    scenario = dataclasses.replace(scenarios.healthy(1), seconds=8)
    machine = dataclasses.replace(scenario.machines[0], nics=flows)
    scene = await scene_of(dataclasses.replace(scenario, machines=(machine,)))
    node = scene.view.nodes[0]
    said = [plain(line) for line in detail(scene, node, 100)]
    assert next(line.split() for line in said if line.startswith("  nic")) == [
        "nic",
        "eth1",
        "eth0",
    ]
    assert any("29 are quiet" in line and "cali00 cali01" in line for line in said)
    assert sum("cali" in line for line in said) <= 3
    assert any(
        "net " in line and "eth1" in line
        for line in map(plain, pane(scene, node, 80, 8, chosen=False))
    )


async def test_why_has_the_whole_chain_of_facts() -> None:
    scene = await scene_of(scenarios.storage())
    said = "\n".join(plain(line) for line in why(scene, 140))
    for part in (
        "why", "culprits  gpu03", "waiting   gpu01 gpu02 gpu04", "for       loaders blocked in disk reads",
        "GPUs starved 86 %, over 30 %", "against   few reads in flight", "missing   gpm  pre-Hopper GPU",
        "or        CPU data-prep  0.22", "shares    compute 7 %  spin 90 %", "gpu01   PEER gpu03",
    ):  # fmt: skip
        assert part in said, part


@pytest.mark.parametrize("cells", [40, 80, 200])
async def test_pages_never_paint_an_empty_word(cells: int) -> None:
    scene = await scene_of(scenarios.unreachable())
    for node in scene.view.nodes:
        assert all(isinstance(text, str) for line in detail(scene, node, cells) for text, _ in line)
