"""Paint as plain text: numbers, panes, lines, strips."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpuwatch.agent.metric import COUNTER, GAUGE, Metric
from gpuwatch.agent.waits import FAMILIES
from gpuwatch.engine import run
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent
from gpuwatch.model.verdict import STATES
from gpuwatch.tui.history import STRIP_BUCKETS
from gpuwatch.tui.paint.answer import answer
from gpuwatch.tui.paint.guide import MEANING
from gpuwatch.tui.paint.numbers import duration, number, percent, quantity, scaled
from gpuwatch.tui.paint.order import worst_first
from gpuwatch.tui.paint.pane import pane
from gpuwatch.tui.paint.plan import MIN_HEIGHT, MIN_WIDTH, plan
from gpuwatch.tui.paint.spans import changed, clip, ends, fit, plain, safe, whole, width, wrap
from gpuwatch.tui.paint.strip import blocks, strip_cells
from gpuwatch.tui.paint.table import heading, row
from gpuwatch.tui.paint.timeline import timeline
from gpuwatch.tui.paint.words import WAITS
from gpuwatch.tui.past import Past
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.sink import ScreenSink
from tui import scenarios
from tui.scenarios import Scenario
from tui.scripted import Load, replace

texts = st.text(max_size=40)
lines = st.lists(st.tuples(texts.map(safe), st.just("text")), max_size=6)


async def scene_of(scenario: Scenario) -> Scene:
    """Return the last scene of a scenario."""
    scenes: list[Scene] = []

    async def feed() -> AsyncIterator[AnyEvent]:
        for event in scenario.events():
            yield event

    sink = ScreenSink(scenario.title, Past(1.0, None), scenes.append, lambda: False)
    await run(feed(), Cluster(scenario.nodes, 1.0), scenario.judge, [sink])
    return scenes[-1]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "n/a"),
        (0, "0"),
        (0.31, "0.31"),
        (8.44, "8.4"),
        (9.97, "10"),
        (84.2, "84"),
        (1312, "1312"),
    ],
)
def test_numbers_have_two_or_three_digits(value: float | None, said: str) -> None:
    assert number(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0 B/s"), (999, "999 B/s"), (999.7, "1.0 kB/s"), (31e6, "31 MB/s"), (3.1e9, "3.1 GB/s")],
)
def test_quantities_have_si_prefixes(value: float, said: str) -> None:
    assert scaled(value, "B/s") == said


def test_shares_and_lengths_of_time() -> None:
    assert [percent(s) for s in (None, 0, 0.004, 0.06, 1)] == [
        "n/a",
        "0 %",
        "0.4 %",
        "6 %",
        "100 %",
    ]
    assert percent(0.00123, 2) == "0.12 %"
    assert [duration(s * 1e6) for s in (9, 192, 8047, 273_600)] == [
        "9 s",
        "3 m 12 s",
        "2 h 14 m",
        "3 d 04 h",
    ]


@pytest.mark.parametrize(
    ("kind", "unit", "value", "said"),
    [
        (COUNTER, "B", 31e6, "31 MB/s"), (COUNTER, "ms", 250, "25 %"), (COUNTER, "ns", 4e8, "40 %"),
        (COUNTER, "1", 12, "12 /s"), (COUNTER, "mJ", 612_000, "612 W"), (GAUGE, "B", 71 * 2**30, "71 GiB"),
        (GAUGE, "degC", 61, "61 °C"), (GAUGE, "bits", 0x21, "0x21"), (GAUGE, "%", 98, "98 %"),
        (GAUGE, "1", 64, "64"), (GAUGE, "W", None, "n/a"),
    ],
)  # fmt: skip
def test_any_row_of_the_catalogue_can_be_shown(
    kind: str, unit: str, value: float | None, said: str
) -> None:
    assert quantity(Metric("x", "node", kind, "int", unit, "", ""), value) == said


@given(texts, st.integers(0, 60))
def test_fit_takes_exactly_its_cells(text: str, cells: int) -> None:
    assert cell_len(fit(safe(text), cells)) == cells


@given(lines, st.integers(0, 60))
def test_clip_never_takes_more(line: list[tuple[str, str]], cells: int) -> None:
    assert width(clip(line, cells)) <= cells
    assert width(whole([(span,) for span in line], cells)) <= cells
    assert width(ends(line, line, cells)) == cells


@given(lines, lines)
def test_a_line_is_as_before_beyond_what_changed(
    one: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    cells = changed(tuple(one), tuple(other))
    assert cells <= max(width(one), width(other))
    assert cells == 0 or one != other
    before, now = (plain(part) for part in (one, other))
    if all(cell_len(c) == 1 for c in before + now):
        assert before[cells:] == now[cells:]


@given(texts, st.integers(5, 60), st.integers(1, 4))
def test_wrap_keeps_to_its_lines_and_cells(text: str, cells: int, most: int) -> None:
    rows = wrap(safe(text), cells, most)
    assert len(rows) <= most
    assert all(cell_len(r) <= cells for r in rows)


@given(st.lists(st.none() | st.floats(0, 1), max_size=60))
def test_a_strip_has_a_cell_each_and_gaps_where_nothing_was_seen(
    shares: list[float | None],
) -> None:
    drawn = plain(blocks(shares, [None] * len(shares)))
    assert len(drawn) == len(shares)
    assert [c == "·" for c in drawn] == [s is None for s in shares]


@given(st.integers(0, 300))
def test_a_strip_cuts_five_minutes_into_equal_parts(room: int) -> None:
    cells = strip_cells(room)
    assert cells <= room
    assert not cells or STRIP_BUCKETS % cells == 0


@given(
    st.integers(1, 300), st.integers(0, 16), st.integers(MIN_WIDTH, 300), st.integers(MIN_HEIGHT, 100),
    st.integers(0, 1),
)  # fmt: skip
def test_any_size_is_cut_into_what_there_is(
    nodes: int, gpus: int, cells: int, high: int, bar: int
) -> None:
    cut = plan(nodes, gpus, cells, high, bar)
    heading_line = 0 if cut.columns else 1
    used = 2 + bar + cut.answer + heading_line + cut.grid + cut.explained + cut.lanes + cut.rest
    assert used == high
    assert min(cut.answer, cut.grid, cut.lanes + 1, cut.rest + 1) > 0
    if cut.columns:
        assert -(-max(1, nodes) // cut.columns) * cut.pane == cut.grid


@given(st.integers(1, 12), st.integers(0, 16))
def test_more_room_never_drops_panes_to_lines(nodes: int, gpus: int) -> None:
    panes = [plan(nodes, gpus, 120, high, 0).columns > 0 for high in range(MIN_HEIGHT, 120)]
    assert panes == sorted(panes)


async def test_a_pane_says_state_cause_and_what_decides() -> None:
    scene = await scene_of(scenarios.storage())
    node = scene.view.node("gpu03")
    assert node is not None
    said = "\n".join(plain(line) for line in pane(scene, node, 60, 16, chosen=False))
    for part in (
        "gpu03", "STORAGE read", "_ _ _ _ _ _ _ _", "11 %", "134/700 W", "loader disk read 85 %",
        "↓ 0.31 ↑ 0.02 Gb/s of 25", "loss 0.00 %", "82 ms", "busy 99 %", "iowait 0.4 %", "kwork 2 % rpciod",
        "<1 s ago", "agent 0.8 % of a core",
    ):  # fmt: skip
        assert part in said


async def test_a_pane_is_exactly_as_large_as_it_was_told() -> None:
    scenes = [
        await scene_of(s) for s in (scenarios.storage(), scenarios.unreachable(), scenarios.lost())
    ]
    for scene in scenes:
        for node in scene.view.nodes:
            for cells in (40, 41, 57, 120):
                for height in (8, 12, 20):
                    drawn = pane(scene, node, cells, height, chosen=True)
                    assert len(drawn) == height
                    assert {width(line) for line in drawn} == {cells}


@pytest.mark.parametrize(
    ("node", "parts"),
    [
        (
            "gpu02",
            (
                "NO DATA refused",
                "after step login",
                "Permission denied",
                "→ add your key",
                "never seen",
            ),
        ),
        ("gpu03", ("after step python", "no Python 3.6 or newer", "→ name one in job.yaml")),
        ("gpu04", ("UNKNOWN", "n/a  no libnvidia-ml.so.1", "loss 0.00 %")),
    ],
)
async def test_a_node_that_is_not_well_says_which_step_why_and_what_to_do(
    node: str, parts: tuple[str, ...]
) -> None:
    scene = await scene_of(scenarios.unreachable())
    view = scene.view.node(node)
    assert view is not None
    said = "\n".join(plain(line) for line in pane(scene, view, 60, 10, chosen=False))
    assert all(part in said for part in parts), said
    assert any(node in plain(line) for line in answer(scene, 120, 5)) == (node != "gpu04")


async def test_a_node_that_fell_silent_keeps_its_last_numbers_in_grey_with_their_age() -> None:
    scene = await scene_of(scenarios.lost())
    node = scene.view.node("gpu02")
    assert node is not None
    drawn = pane(scene, node, 60, 16, chosen=False)
    assert "20 s ago" in plain(drawn[-1])
    numbers = next(line for line in drawn if "612/700 W" in plain(line))
    assert {role for text, role in numbers if text.strip(" │")} == {"old"}


async def test_an_unknown_line_rate_is_bytes_alone() -> None:
    scenario = scenarios.healthy(1)
    load = Load()
    load = replace(load, nic={**load.nic, "speed_mbps": None})
    scenario = replace(scenario, machines=(replace(scenario.machines[0], load=lambda _: load),))
    scene = await scene_of(scenario)
    said = "\n".join(plain(r) for r in pane(scene, scene.view.nodes[0], 60, 8, chosen=False))
    assert "↓ 1.1 ↑ 1.1 GB/s of unknown" in said


async def test_what_is_missing_is_never_zero() -> None:
    scenario = scenarios.healthy(1, 2)
    load = Load(gpu={}, node={"uptime_s": 1.0}, nic={}, disk={}, kworker={}, waits={})
    scenario = replace(scenario, machines=(replace(scenario.machines[0], load=lambda _: load),))
    scene = await scene_of(scenario)
    drawn = pane(scene, scene.view.nodes[0], 60, 16, chosen=False)
    said = "\n".join(plain(r) for r in drawn)
    assert "GPU   · ·" in said
    for label in ("wait", "net", "disk", "cpu"):
        assert f"│ {label:<6}n/a" in said


async def test_the_answer_says_since_when_how_sure_and_why() -> None:
    scene = await scene_of(scenarios.storage())
    said = "\n".join(plain(line) for line in answer(scene, 160, 6))
    for part in (
        "STORAGE read", "gpu03 waits for reads", "since 14:13:28, 36 s · confirmed", "confidence 0.91", "gpu01, gpu02, gpu04",
        "2.9x slower", "because loaders blocked in disk reads", "could also be CPU data-prep 0.22",
        "recurring STORAGE checkpoint on gpu01, 11 times, 9.1 s each, every 302 s: 3 % of time",
    ):  # fmt: skip
        assert part in said
    for cells in (40, 80, 120):
        for height in (2, 4, 5):
            drawn = answer(scene, cells, height)
            assert len(drawn) == height
            assert all(width(line) <= cells for line in drawn)
            assert "STORAGE" in plain(drawn[0])


async def test_what_nothing_speaks_for_any_more_is_no_sure_answer() -> None:
    scene = await scene_of(scenarios.storage())
    faded = msgspec.structs.replace(scene.verdict.job, confidence=0.0)
    scene = replace(scene, verdict=msgspec.structs.replace(scene.verdict, job=faded))
    said = "\n".join(plain(line) for line in answer(scene, 160, 6))
    assert "36 s · over, if nothing of it comes back" in said
    assert "seen now: CPU data-prep 0.22" in said
    for part in ("confirmed", "confidence", "because", "could also be"):
        assert part not in said


async def test_lines_lose_columns_from_the_right() -> None:
    scene = await scene_of(scenarios.storage(16))
    first = worst_first(scene)[0]
    assert first.name == "gpu03"
    before = 0
    for cells in (40, 60, 80, 120, 160, 200):
        columns = plain(heading(cells)).split()
        assert len(columns) >= before
        assert columns[:2] == ["node", "state"]
        before = len(columns)
        assert width(row(scene, first, cells, chosen=True)) == cells
    assert plain(heading(200)).split()[-1] == "age"


async def test_lanes_begin_with_the_job_and_end_now() -> None:
    scene = await scene_of(scenarios.storage())
    drawn = [plain(line) for line in timeline(scene, 80, 9)]
    assert drawn[1].split()[0] == "job"
    assert drawn[1].endswith("D" * 6)
    assert "·CC" in drawn[1].replace(" ", "")
    assert [r.split()[0] for r in drawn[2:6]] == ["gpu01", "gpu02", "gpu03", "gpu04"]
    assert "D storage" in drawn[6]


def test_every_family_and_state_has_its_words() -> None:
    assert WAITS.keys() == FAMILIES.keys()
    assert MEANING.keys() == set(STATES)
