"""The node's page shows whatever the catalogue declares."""

import pytest

from gpuwatch.agent import catalogue
from gpuwatch.tui.paint.detail import detail
from gpuwatch.tui.paint.spans import plain
from gpuwatch.tui.paint.why import why
from tui import scenarios
from tui.test_paint import scene_of


async def test_every_row_of_the_catalogue_is_there() -> None:
    scene = await scene_of(scenarios.storage())
    said = [plain(line) for line in detail(scene, scene.view.nodes[2], 120)]
    rows = [r for r in catalogue.ROWS if r.scope in {"node", "gpu", "nic", "disk", "kworker"}]
    for row in rows:
        assert any(line.split()[:1] == [row.name] for line in said), row.name
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
    line = next(r for r in said.split("\n") if "pressure_cpu_some_us" in r)
    assert "n/a" in line
    assert "no /proc/pressure" in line


async def test_why_has_the_whole_chain_of_facts() -> None:
    scene = await scene_of(scenarios.storage())
    said = "\n".join(plain(line) for line in why(scene, 140))
    for part in (
        "job   STORAGE read", "culprits  gpu03", "waiting   gpu01 gpu02 gpu04", "for       loaders blocked in disk reads",
        "GPUs starved 86 %, over 30 %", "against   few reads in flight", "missing   gpm  pre-Hopper GPU",
        "or        CPU data-prep  0.22", "shares    compute 7 %  spin 90 %", "gpu01   PEER gpu03",
    ):  # fmt: skip
        assert part in said, part


@pytest.mark.parametrize("cells", [40, 80, 200])
async def test_pages_never_paint_an_empty_word(cells: int) -> None:
    scene = await scene_of(scenarios.unreachable())
    for node in scene.view.nodes:
        assert all(isinstance(text, str) for line in detail(scene, node, cells) for text, _ in line)
