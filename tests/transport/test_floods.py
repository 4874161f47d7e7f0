"""Nodes that flood or lie: each is cut off alone, and the nodes beside it notice nothing."""

import sys
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.model.event import Link, Sample, Tick
from gpuwatch.transport.node import Node

SOURCE = Path(__file__).parents[2] / "src"
NOISE = 'sh -c "$0" & sleep 0.5; exec yes'
"""The agent, and beside it a program that prints into its stream without end."""
LIAR = f"""
import sys, zlib
sys.path.insert(0, {str(SOURCE)!r})
from gpuwatch.agent import catalogue, frame
out = sys.stdout.buffer
out.write(sys.argv[1].rstrip('"').split()[-1][::-1].encode())
out.write(frame.pack(["hello", catalogue.SCHEMA, "liar", "boot", {{}}]))
empty = [[] for _ in catalogue.SCOPES]
out.write(frame.pack(["names", catalogue.SCHEMA, 0, empty]))
number = 0
while True:
    out.write(frame.pack(["data", catalogue.SCHEMA, number, 0, number, number, -1, -1, empty]))
    number += 1
"""
"""Answers as an agent does, and then sends sound frames as fast as it can."""


@pytest.mark.parametrize(
    "words", [("sh", "-c", NOISE, "{agent}"), (sys.executable, "-c", LIAR, "{agent}")]
)
async def test_a_node_that_sends_without_end_is_cut_off_alone(
    watching: Any, words: tuple[str, ...]
) -> None:
    flood = Node("flood", "h", transport="command", command=words)
    async with watching(flood, Node("well", "h", transport="local"), interval_s=0.25) as watch:
        await watch.sample("well", sequence=0)
        lost = await watch.link("flood", "lost")
        assert lost.reason == "it sends without end: cut off"
        await watch.sample("well", sequence=4)
    well = [e for e in watch.events if isinstance(e, Sample) and e.node == "well"]
    assert [e.sequence for e in well] == list(range(len(well)))
    assert not any(
        isinstance(e, Link) and (e.node, e.state) == ("well", "lost") for e in watch.events
    )
    of_flood = [e for e in watch.events if getattr(e, "node", None) == "flood"]
    told = [e for e in of_flood if not isinstance(e, Sample)]
    attempts = sum(isinstance(e, Link) and e.step == "resolve" for e in told)
    ticks = sum(isinstance(e, Tick) for e in watch.events)
    assert len(told) < 100 * attempts + ticks  # however many frames, or lines of noise, there were
