"""What the screen is told of what happened."""

import msgspec

from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Link, Tick
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.tui.past import Past
from gpuwatch.tui.scene import Scene
from gpuwatch.tui.sink import ScreenSink

REFUSED = "connection refused"


def test_a_node_that_is_tried_again_for_one_reason_is_told_once() -> None:
    states: list[tuple[str, str | None]] = [
        ("connecting", None),
        *[("lost", REFUSED), ("connecting", REFUSED)] * 20,
        ("streaming", None),
        ("lost", REFUSED),
        ("connecting", REFUSED),
        ("lost", "no route"),
    ]
    scenes: list[Scene] = []
    sink = ScreenSink("job", Past(1.0, None), scenes.append, lambda: False)
    for no, (state, reason) in enumerate(states):
        sink.event(
            Link(event_no=no, arrived_us=no, wall_us=no, node="n1", state=state, step="resolve", reason=reason)
        )  # fmt: skip
    tick = Tick(event_no=100, arrived_us=100, wall_us=100)
    cluster = Cluster(("n1",), 1.0)
    job = Verdict(scope="job", state="UNKNOWN", episode_us=0, confidence=0.0)
    sink.judged(tick, cluster.view(tick), JobVerdict(job=job))
    assert [incident.text for incident in reversed(scenes[0].incidents)] == [
        "connecting",
        f"lost · {REFUSED}",
        "streaming",
        f"lost · {REFUSED}",
        "lost · no route",
    ]


def test_many_nodes_that_come_to_say_the_same_at_once_are_told_of_in_one() -> None:
    names = tuple(f"n{i}" for i in range(9))
    cluster = Cluster(names, 1.0)
    scenes: list[Scene] = []
    sink = ScreenSink("job", Past(1.0, None), scenes.append, lambda: False)
    well = Verdict(scope="node", state="COMPUTE")
    for no, state in enumerate(("COMPUTE", "HUNG")):
        tick = Tick(event_no=no, arrived_us=no * 1_000_000, wall_us=no * 1_000_000)
        nodes = [msgspec.structs.replace(well, node=n, state=state) for n in names[:8]]
        rest = msgspec.structs.replace(well, node=names[8], state="IDLE" if no else "COMPUTE")
        job = Verdict(scope="job", state="HUNG" if no else "COMPUTE")
        sink.judged(tick, cluster.view(tick), JobVerdict(job=job, nodes=(*nodes, rest)))
    told = {(i.node, i.text) for i in scenes[-1].incidents}
    assert told == {("8 nodes", "HUNG: n0 and others"), (None, "HUNG"), ("n8", "IDLE")}
