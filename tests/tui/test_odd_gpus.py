"""GPUs that tell little, nothing or nonsense: what the screen says of them, under the real judge."""

from dataclasses import dataclass

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Value
from gpuwatch.model.event import AnyEvent, Row, Sample
from gpuwatch.tui.paint.detail import detail
from gpuwatch.tui.paint.numbers import MISSING
from gpuwatch.tui.paint.pane import gpu_letters, pane
from gpuwatch.tui.paint.spans import Line, plain
from gpuwatch.tui.paint.words import GPU_ROLES
from gpuwatch.tui.scene import Scene
from gpuwatch.verdict.judge import Judge
from tui.scenarios import Scenario
from tui.scripted import Load, Machine, replace
from tui.test_paint import scene_of

DARK = {"util_pct": None, "memory_util_pct": None, "power_w": None}


def odd(load: Load, absent: dict[str, str] | None = None, gpus: int = 2) -> Scenario:
    machine = Machine("gpu01", gpus, load=lambda _: load, absent=tuple((absent or {}).items()))
    return Scenario("job", (machine,), Judge())


def said(scene: Scene, height: int = 20) -> str:
    node = scene.view.nodes[0]
    lines = [*pane(scene, node, 100, height, chosen=False), *detail(scene, node, 120)]
    return "\n".join(plain(line) for line in lines)


def gpu_row(scene: Scene, cells: int) -> Line:
    """Return the GPU row of a pane as wide as that."""
    return pane(scene, scene.view.nodes[0], cells, 8, chosen=False)[1]


def with_gpus(sample: Sample, values: dict[int, dict[str, Value]]) -> Sample:
    """Give some GPUs of a sample other readings than the rest."""
    place = catalogue.INDEX["gpu"]
    scope = catalogue.SCOPES.index("gpu")
    rows = []
    for row in sample.tables[scope]:
        told = list(row.values)
        for name, value in values.get(int(row.labels[0] or 0), {}).items():
            told[place[name]] = value
        rows.append(Row(row.labels, tuple(told)))
    tables = list(sample.tables)
    tables[scope] = tuple(rows)
    return msgspec.structs.replace(sample, tables=tuple(tables))


async def scene_with(scenario: Scenario, values: dict[int, dict[str, Value]]) -> Scene:
    """Return the last scene of a scenario some of whose GPUs differ."""
    events = [with_gpus(e, values) if isinstance(e, Sample) else e for e in scenario.events()]
    return await scene_of(
        Played(scenario.title, scenario.machines, scenario.judge, given=tuple(events))
    )


@dataclass(frozen=True)
class Played(Scenario):
    """A scenario whose events are given."""

    given: tuple[AnyEvent, ...] = ()

    def events(self) -> list[AnyEvent]:
        return list(self.given)


async def test_e04_no_utilisation_signal_is_unknown_and_not_idle() -> None:
    load = replace(Load(), gpu={"temperature_c": 29}, waits={})
    scene = await scene_of(odd(load, {"nvml.util_pct": "Not Supported"}))
    assert scene.by_node["gpu01"].state == "UNKNOWN"
    assert "Not Supported" in said(scene)
    assert "29 °C" in said(scene)


async def test_e05_mig_is_the_reason_and_zero_percent_is_nowhere() -> None:
    load = replace(Load(), gpu={**DARK, "power_w": 87, "mig_mode": 1}, waits={})
    scene = await scene_of(odd(load, {"nvml.util_pct": "not reported in MIG mode"}))
    node = scene.view.nodes[0]
    drawn = "\n".join(plain(r) for r in pane(scene, node, 100, 20, chosen=False))
    assert MISSING in drawn
    assert " 0 %  " not in next(line for line in drawn.split("\n") if "87 W" in line)
    assert "not reported in MIG mode" in said(scene)
    assert scene.by_node["gpu01"].state == "UNKNOWN"


async def test_e07_one_gpu_of_two_is_split_and_the_other_counts_alone() -> None:
    values: dict[int, dict[str, Value]] = {0: {"util_pct": 58}, 1: dict(DARK)}
    scene = await scene_with(
        odd(Load(), {"nvml.util_pct": "not reported in MIG mode (GPU 1)"}), values
    )
    cards = scene.facts(scene.view.nodes[0]).gpus
    assert [card.util for card in cards] == [0.58, None]
    assert cards[1].letter == "·"
    assert "not reported in MIG mode (GPU 1)" in said(scene)
    for cells in (40, 60, 120):
        assert ("  1/2", "old") in gpu_row(scene, cells)


async def test_e18_e20_a_lost_gpu_stands_out_and_the_others_go_on() -> None:
    values: dict[int, dict[str, Value]] = {3: {**DARK, "temperature_c": None, "gpu_lost": 1}}
    absent = {"nvml.gpu3": "GPU is lost", "nvml.gpu_count": "7 of 8 GPUs first seen"}
    scene = await scene_with(odd(Load(), absent, gpus=8), values)
    cards = scene.facts(scene.view.nodes[0]).gpus
    assert gpu_letters(cards)[6] == ("!", "bad")
    assert GPU_ROLES["!"] == "bad"
    assert [card.util for card in cards if card.index != 3] == [0.98] * 7
    assert "7 of 8 GPUs first seen" in said(scene)
    assert "GPU is lost" in said(scene)
    assert " 3 ! lost" in said(scene)
    for cells in (40, 60, 120):
        assert ("  7/8", "bad") in gpu_row(scene, cells)
    assert plain(gpu_row(scene, 60)).endswith("86 %  612/700 W │")
    whole = await scene_of(odd(Load(), gpus=8))
    assert "8/8" not in plain(gpu_row(whole, 60))
    assert (scene.by_node["gpu01"].state, scene.by_node["gpu01"].cause) == ("GPU", "fault")


async def test_e23_a_value_that_came_no_more_is_old_and_counts_for_nothing() -> None:
    """Its child fell silent, so the agent sends no rows of GPUs; or the node itself fell silent."""
    dark = replace(Load(), gpu={}, waits={})
    machine = Machine(
        "gpu01", 0, load=lambda second: Load() if second < 10 else dark,
        absent=(("nvml", "no answer for 37 s"),),
    )  # fmt: skip
    scene = await scene_of(Scenario("job", (machine,), Judge()))
    assert "no answer for 37 s" in said(scene)
    assert scene.by_node["gpu01"].state == "UNKNOWN"
    silent = Machine("gpu01", 2, load=lambda second: Load() if second < 10 else None)
    scene = await scene_of(Scenario("job", (silent,), Judge()))
    node = scene.view.nodes[0]
    assert node.stale
    assert scene.by_node["gpu01"].state == "UNKNOWN"
    cards = [r for r in pane(scene, node, 100, 20, chosen=False) if "612 W" in plain(r)]
    assert cards
    assert {role for row in cards for text, role in row if text.strip(" │")} == {"old"}


async def test_e29_memory_is_said_to_be_the_hosts() -> None:
    words = "unified with the host's memory: from /proc/meminfo"
    scene = await scene_of(odd(Load(), {"nvml.memory_total_bytes": words}))
    assert words in said(scene)


async def test_e33_idle_at_the_power_of_work_starves_nobody() -> None:
    load = Load()
    load = replace(load, gpu={**load.gpu, "util_pct": 0, "power_w": 600}, waits={})
    scene = await scene_of(odd(load))
    assert scene.by_node["gpu01"].state == "UNKNOWN"


async def test_e39_full_utilisation_alone_is_no_health() -> None:
    load = Load()
    spins = replace(
        load, gpu={**load.gpu, "util_pct": 100, "power_w": 154, "memory_util_pct": 1}, waits={}
    )
    scene = await scene_of(odd(spins))
    assert scene.by_node["gpu01"].state != "COMPUTE"
