"""What the screen is told of what happened."""

from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Link, Tick
from gpuwatch.model.verdict import JobVerdict, Verdict
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
    sink = ScreenSink("job", scenes.append, lambda: False)
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
