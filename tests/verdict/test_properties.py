"""What holds of the judge in any situation: what a verdict depends on, and what it may not.

Order, names and missing values are in `test_laws` and `test_laws_of_signals`.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import gpuwatch.recording
from gpuwatch.engine import run
from gpuwatch.model.cluster import WINDOW_S, Cluster
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.recording import Limits, create
from gpuwatch.verdict.judge import Judge
from gpuwatch.verdict.thresholds import Thresholds
from recording.kit import facts
from verdict.scenario import GOOD, SECOND, Gpu, Node, Play, Rank, named, quickly
from verdict.test_laws import KINDS, cluster_of, gist
from verdict.test_laws_of_signals import CASES

few = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
kinds = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4)
FAMILIES = ("run", "ready", "futex", "pipe", "socket", "poll", "netfs", "block-read", "memory")
waits = st.dictionaries(st.sampled_from(FAMILIES), st.floats(0.1, 1), min_size=1, max_size=3).map(
    lambda parts: {family: part / sum(parts.values()) for family, part in parts.items()}
)
any_rank = st.builds(
    Rank,
    gpu=st.builds(
        Gpu,
        util=st.floats(0, 100),
        power=st.floats(60, 700),
        memory=st.none() | st.floats(0, 100),
        heat=st.sampled_from([0.0, 0.5]),
    ),
    main=waits,
    main_run=st.floats(0, 1),
    main_delay=st.floats(0, 1),
    loader=waits,
    loader_run=st.floats(0, 1),
    loader_delay=st.floats(0, 1),
    checkpoint_write_mb=st.sampled_from([0.0, 900.0]),
)
any_node = st.builds(
    Node,
    ranks=st.lists(any_rank, min_size=1, max_size=3).map(
        lambda ranks: tuple(replace(r, name=str(i)) for i, r in enumerate(ranks))
    ),
    busy=st.floats(0, 1),
    disk_busy=st.floats(0, 1),
    segments=st.sampled_from([0.0, 20_000.0]),
    retransmits=st.sampled_from([0.0, 5.0, 400.0]),
)


def ranks_of(verdict: JobVerdict) -> set[object]:
    return {(r.node, r.rank, r.state, r.cause, round(r.confidence, 6)) for r in verdict.ranks}


def faulty(verdict: JobVerdict) -> set[str]:
    """Return who is blamed that is one among others."""
    return {c.id for c in verdict.job.culprits if c.kind in ("node", "rank", "gpu")}


class Kept(Play):
    """A play that keeps its events."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.events: list[AnyEvent] = []
        self.cluster = _Keeping(names, self.events)

    def tick(self) -> JobVerdict:
        self.events.append(Tick(event_no=0, arrived_us=self.now_us, wall_us=0))
        return super().tick()


class _Keeping(Cluster):
    def __init__(self, names: Sequence[str], events: list[AnyEvent]) -> None:
        super().__init__(names, 1.0)
        self._events = events

    def apply(self, event: AnyEvent) -> None:
        self._events.append(event)
        super().apply(event)


@few
@given(kinds, kinds)
def test_a_judge_that_is_stored_and_loaded_at_every_tick_says_the_same(
    before: list[str], after: list[str]
) -> None:
    size = min(len(before), len(after))
    phases = cluster_of(before[:size]), cluster_of(after[:size])
    whole, parted = (Play([n.name for n in phases[0]]) for _ in range(2))
    for nodes in phases:
        for _ in range(9):
            parted.judge = Judge.from_state(parted.judge.state(), Thresholds())
            assert parted.run(nodes, 1) == whole.run(nodes, 1)
    assert parted.judge.state() == whole.judge.state()


@settings(few, max_examples=3)
@example(["decodes"], ["good"], 3)
@given(kinds, kinds, st.integers(1, 8))
def test_nothing_before_the_window_and_the_state_matters(
    before: list[str], after: list[str], seconds: int
) -> None:
    """As after a seek in a recording: totals that begin later differ in their last digits only."""
    size = min(len(before), len(after))
    phases = cluster_of(before[:size]), cluster_of(after[:size])
    whole = Kept([n.name for n in phases[0]])
    whole.run(phases[0], round(WINDOW_S) + 5)
    whole.run(phases[1], seconds)
    late = Play([n.name for n in phases[0]], Judge.from_state(whole.judge.state(), Thresholds()))
    since_us = whole.now_us - (WINDOW_S + 1) * SECOND
    for event in whole.events:
        if event.arrived_us >= since_us:
            late.cluster.apply(event)
    known = len(whole.events)
    for _ in range(6):
        said = whole.run(phases[1], 1)
        late.now_us, late.event_no = whole.now_us, whole.event_no
        for event in whole.events[known:]:
            late.cluster.apply(event)
        known = len(whole.events)
        heard = late.tick()
        assert (gist(heard), ranks_of(heard)) == (gist(said), ranks_of(said))


@few
@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=8), st.randoms())
def test_which_gpus_the_ranks_of_a_node_have_changes_nothing(
    names: list[str], random: "object"
) -> None:
    ranks = [replace(KINDS[kind].ranks[0], name=str(i)) for i, kind in enumerate(names)]
    mixed = list(ranks)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    others = named(GOOD, "g1", "g2")
    plain, changed = (quickly((Node("x", tuple(some)), *others)) for some in (ranks, mixed))
    assert gist(changed) == gist(plain)
    assert ranks_of(changed) == ranks_of(plain)


@settings(few, max_examples=12)
@given(any_node, st.integers(2, 4))
def test_whatever_all_nodes_do_alike_blames_none_of_them(node: Node, count: int) -> None:
    assert not faulty(quickly(named(node, *(f"n{i}" for i in range(count)))))


@few
@given(st.floats(0.15, 1), st.integers(2, 4))
def test_a_job_that_slows_down_on_all_nodes_alike_blames_none_of_them(
    factor: float, count: int
) -> None:
    names = [f"n{i}" for i in range(count)]
    rank, nic = GOOD.ranks[0], GOOD.nics[0]
    slower = replace(
        GOOD,
        ranks=(
            replace(
                rank,
                gpu=replace(rank.gpu, power=610 * factor, memory=25 * factor),
                loader_run=rank.loader_run * factor,
                read_mb=rank.read_mb * factor,
            ),
        ),
        nics=(replace(nic, rx_mb=nic.rx_mb * factor, tx_mb=nic.tx_mb * factor),),
    )
    play = Play(names)
    play.run(named(GOOD, *names), 25)
    play.run(named(slower, *names), 15)
    assert not any(map(faulty, play.history))


def judged(
    events: Sequence[AnyEvent], names: Sequence[str], sinks: Sequence[object]
) -> list[JobVerdict]:
    """Return what the engine makes of events."""
    seen = _Seen()

    async def feed() -> AsyncIterator[AnyEvent]:
        for event in events:
            yield event

    asyncio.run(run(feed(), Cluster(names, 1.0), Judge(), [seen, *sinks]))  # type: ignore[list-item]
    return seen.verdicts


class _Seen:
    def __init__(self) -> None:
        self.verdicts: list[JobVerdict] = []

    def event(self, event: AnyEvent) -> None:
        pass

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        self.verdicts.append(verdict)


def test_what_was_recorded_is_judged_as_it_was_live(tmp_path: Path) -> None:
    """From what was sealed alone: connections, mounts, control groups and RDMA; the log is gone."""
    events: list[AnyEvent] = []
    names: dict[str, None] = {}
    for case, nodes in sorted(CASES.items()):
        here = [replace(node, name=f"{case}-{node.name}") for node in nodes]
        play = Kept([node.name for node in here])
        play.now_us = (len(names) + 1) * 100 * SECOND
        play.run(here, 12)
        events += play.events
        names |= dict.fromkeys(node.name for node in here)
    events = [msgspec.structs.replace(event, event_no=no) for no, event in enumerate(events)]
    recorder = create(tmp_path / "rec", facts(), None, Limits(seal_us=9_000_000))
    live = judged(events, [*names], [recorder])
    recorder.close()
    shutil.rmtree(recorder.directory / "wal")
    recording = gpuwatch.recording.open(recorder.directory)
    assert judged(list(recording.events()), [*names], []) == live
    assert [verdict for _, verdict in recording.shown()] == live
