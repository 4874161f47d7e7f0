"""Jobs whose nodes change: they join and leave while others stream, and an end is no alarm."""

import os
import signal
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from gpuwatch.errors import InputError
from gpuwatch.feed.live import Live
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Fault, Link, Sample, Tick
from gpuwatch.transport.node import Node
from sshd import processes_with


def node(name: str, mark: str = "x") -> Node:
    return Node(name, "h", transport="local", env={"MARK": mark})


class Followed:
    """A live feed of a job whose nodes are what a test says."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes: tuple[Node, ...] = nodes
        self.trouble = ""
        self.live = Live(nodes, 0.1, None, self._ask)
        self.cluster = Cluster([n.name for n in nodes], 0.1)
        self.events: list[AnyEvent] = []

    async def _ask(self) -> tuple[Node, ...]:
        if self.trouble:
            raise InputError(self.trouble)
        return self.nodes

    async def until(self, wanted: Callable[[AnyEvent], Any]) -> AnyEvent:
        """Return the next event that is wanted."""
        async for event in self.live:
            self.cluster.apply(event)
            self.events.append(event)
            if wanted(event):
                return event
        raise AssertionError(self.events[-20:])

    async def sample(self, name: str) -> AnyEvent:
        return await self.until(lambda e: isinstance(e, Sample) and e.node == name)

    async def told(self) -> str:
        """Return the next words about the job's nodes."""
        event = await self.until(lambda e: isinstance(e, Fault) and e.source == "slurm")
        assert isinstance(event, Fault)
        return event.text

    def seen(self) -> list[str]:
        """Return the nodes that are in the view now."""
        tick = Tick(event_no=0, arrived_us=self.events[-1].arrived_us, wall_us=0)
        return [n.name for n in self.cluster.view(tick).nodes]


async def test_nodes_join_and_leave_while_the_others_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpuwatch.feed.live.ASK_EVERY_S", 0.1)
    job = Followed(node("a"))
    await job.sample("a")
    job.nodes = node("a"), node("b")
    assert await job.told() == "joined: b"
    await job.sample("b")
    assert job.seen() == ["a", "b"]

    job.trouble = "squeue gave no answer"
    assert await job.told() == "which nodes the job has is not known: squeue gave no answer"
    await job.sample("a")
    await job.sample("b")
    job.trouble = ""

    job.nodes = node("b"), node("c")
    assert await job.told() == "joined: c; left: a"
    await job.sample("c")
    assert job.seen() == ["b", "c"]
    ended = [e for e in job.events if isinstance(e, Link) and e.state == "ended"]
    assert [(e.node, e.reason) for e in ended] == [("a", "no node of the job any more")]
    lost = [e for e in job.events if isinstance(e, Link) and e.state == "lost"]
    await job.live.close()
    assert not lost


async def test_a_job_that_ends_is_one_event_and_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All links drop at once: it is asked at once, not after a minute."""
    monkeypatch.setattr("gpuwatch.feed.live.ASK_SOON_S", 0.05)
    mark = uuid.uuid4().hex
    job = Followed(node("a", mark), node("b", mark))
    await job.sample("a")
    await job.sample("b")
    job.nodes = ()
    for pid in processes_with(f"MARK={mark}"):
        os.kill(pid, signal.SIGKILL)
    assert await job.told() == "the job has ended, or waits to run again"
    last = {e.node: e for e in job.events if isinstance(e, Link)}
    assert {(e.state, e.reason) for e in last.values()} <= {
        ("lost", "the job has ended, or waits"), ("lost", "the agent ended with signal 9"),
    }  # fmt: skip
    assert not processes_with(f"MARK={mark}")

    monkeypatch.setattr("gpuwatch.feed.live.ASK_EVERY_S", 0.1)
    job.live._all_down.set()
    job.nodes = (node("b", mark),)
    await job.sample("b")
    assert job.seen() == ["b"]
    await job.live.close()
