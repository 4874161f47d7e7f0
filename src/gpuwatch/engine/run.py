"""One engine for live, replay and headless: only the feed differs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Sample, Tick
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.model.view import NodeView, View

__all__ = ["Judge", "Sink", "run"]


class Judge(Protocol):
    """Judges a view: each node alone, in slices, the job last. Pure but for its own state."""

    def node(self, view: View, node: NodeView, /) -> tuple[Verdict, ...]:
        """Judge one node: its ranks' verdicts, then the node's own, last."""

    def job(self, view: View, verdicts: Sequence[tuple[Verdict, ...]], /) -> JobVerdict:
        """Judge the job from its nodes' verdicts, in the order of `view.nodes`."""


class Sink(Protocol):
    """Takes events and verdicts; must not block and must not raise."""

    def event(self, event: AnyEvent, /) -> None:
        """Take one event, in order."""

    def judged(self, tick: Tick, view: View, verdict: JobVerdict, /) -> None:
        """Take the verdict of one tick."""


async def run(
    feed: AsyncIterator[AnyEvent], cluster: Cluster, judge: Judge, sinks: Sequence[Sink]
) -> None:
    """Apply every event, judge on each tick, and hand both to every sink.

    Samples are applied, nodes judged and verdicts handed out one by one with the event loop between
    them, so that no slice of work is longer than one node's, the job's or a sink's; the feed waits
    meanwhile, so the result does not depend on it.
    """
    async for event in feed:
        cluster.apply(event)
        for sink in sinks:
            sink.event(event)
        if isinstance(event, Sample | Tick):
            await asyncio.sleep(0)
        if isinstance(event, Tick):
            view = cluster.view(event)
            parts = []
            for node in view.nodes:
                parts.append(judge.node(view, node))
                await asyncio.sleep(0)
            verdict = judge.job(view, parts)
            for sink in sinks:
                await asyncio.sleep(0)
                sink.judged(event, view, verdict)
