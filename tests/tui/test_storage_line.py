"""The storage line of a pane: the busiest disk, or the network mount on which more waits."""

from pathlib import Path

import pytest

import gpuwatch.recording
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Tick
from gpuwatch.model.view import View
from gpuwatch.tui.paint.facts import Facts, facts

ROOT = Path(__file__).parents[2]


def at(name: str, second: int, node: int) -> Facts:
    """Return what is told of a node so long after a recording's first tick."""
    recording = gpuwatch.recording.open(ROOT / "recordings" / name)
    cluster = Cluster(recording.session.nodes, recording.session.interval_s)
    ticks = 0
    view: View | None = None
    for event in recording.events():
        cluster.apply(event)
        if isinstance(event, Tick):
            ticks += 1
            if ticks == second:
                view = cluster.view(event)
                break
    assert view is not None
    return facts(view.nodes[node], ())


def test_a_slow_file_server_is_told_though_the_nodes_own_disk_is_quiet() -> None:
    told = at("nfs-slow", 80, 0)
    assert told.mount is not None
    assert (told.mount.path, told.mount.type) == ("/mnt/shared", "nfs4")
    assert told.mount.await_ms > 100
    assert told.disk is not None
    assert told.mount.waiting > 0.5 > told.disk.busy


@pytest.mark.parametrize("name", ["checkpoint", "net-loss"])
def test_where_no_network_mount_is_used_there_is_none_to_tell(name: str) -> None:
    told = at(name, 60, 0)
    assert told.mount is None or told.mount.waiting < 0.05
