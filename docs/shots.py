"""Make the pictures of the README from a recording: the real screen, as SVG and PNG.

python docs/shots.py recordings/net-loss docs/img
"""

import argparse
import asyncio
import re
import sys
from pathlib import Path
from typing import NamedTuple

import cairosvg

import gpuwatch.recording
from gpuwatch.feed.replay import RecordedJudge, Replay
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.tui import Session, Watch
from gpuwatch.tui.recorded import told

FONT = "DejaVu Sans Mono"
FONT_PX = 20.26
"""The export counts 12.2 px a cell, and this font's are 0.602 of its size."""
SCALE = 16 / 12.2
"""Makes a cell 16 px wide: cairo moves on by whole pixels from letter to letter."""
AT_S = 78
"""Seconds into the recording: 48 after the fault."""
DEADLINE_S = 60.0


class Shot(NamedTuple):
    """One picture: name, seconds after the start, size, theme, keys that are pressed before it."""

    name: str
    at_s: float
    size: tuple[int, int] = (120, 36)
    theme: str = "dark"
    keys: tuple[str, ...] = ()


SHOTS = (
    Shot("overview", AT_S),
    Shot("light", AT_S, theme="light"),
    Shot("small", AT_S, size=(80, 24)),
    Shot("why", AT_S, keys=("w",)),
    Shot("node", AT_S, keys=("enter",)),
    Shot("timeline", AT_S, size=(120, 24), keys=("t",)),
)


async def take(recording: Path, shot: Shot) -> str:
    """Return a picture as SVG."""
    played = gpuwatch.recording.open(recording)
    deck, facts = Replay(played, None), played.session
    session = Session(
        facts.job, facts.nodes, facts.interval_s, deck, RecordedJudge(deck), theme=shot.theme,
        sinks=(Stop(deck, deck.span[0] + round(shot.at_s * 1e6)),), whole=lambda: told(played),
    )  # fmt: skip
    app = Watch(session)
    async with app.run_test(size=shot.size) as pilot, asyncio.timeout(DEADLINE_S):
        while not (app.past.whole and deck.paused):
            await pilot.pause(0.01)
        deck.speed = 1.0
        await pilot.press(*shot.keys)
        app.repaint()
        await pilot.pause()
        return app.export_screenshot(title=facts.job)


class Stop:
    """Lets a replay stand still at the first tick of a moment."""

    def __init__(self, deck: Replay, wall_us: int) -> None:
        self._deck = deck
        self._wall_us = wall_us

    def event(self, event: AnyEvent) -> None:
        """Take one event."""

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        """Take the verdict of one tick."""
        del view, verdict
        self._deck.paused = tick.wall_us >= self._wall_us


def with_font(svg: str) -> str:
    """Name a font that is installed: the export asks for one from the network."""
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = svg.replace("font-size: 20px", f"font-size: {FONT_PX}px")
    return re.sub(r"font-family: [^;]+;", f"font-family: '{FONT}', monospace;", svg)


def main(argv: list[str]) -> int:
    """Write all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    for shot in SHOTS:
        svg = with_font(asyncio.run(take(given.recording, shot)))
        (given.out / f"{shot.name}.svg").write_text(svg, "utf-8")
        out = given.out / f"{shot.name}.png"
        cairosvg.svg2png(svg.encode(), write_to=str(out), scale=SCALE)
        print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
