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
from textual.pilot import Pilot

import gpuwatch.recording
from gpuwatch.feed.replay import RecordedJudge, Replay
from gpuwatch.tui import Session, Watch

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
    Shot("node", AT_S, size=(120, 50), keys=("enter",)),
)


async def take(recording: Path, shot: Shot) -> str:
    """Return a picture as SVG."""
    played = gpuwatch.recording.open(recording)
    deck = Replay(played, 64.0)
    facts = played.session
    app = Watch(
        Session(
            facts.job, facts.nodes, facts.interval_s, deck, RecordedJudge(deck), theme=shot.theme
        )
    )
    until_us = min(deck.span[1] - 500_000, round(deck.span[0] + shot.at_s * 1e6))
    async with app.run_test(size=shot.size) as pilot:
        async with asyncio.timeout(DEADLINE_S):
            await _reach(app, pilot, until_us)
        deck.speed = 1.0
        await pilot.press(*shot.keys)
        app.repaint()
        await pilot.pause()
        return app.export_screenshot(title=facts.job)


async def _reach(app: Watch, pilot: Pilot[int], wall_us: int) -> None:
    while app.scene is None or app.scene.view.wall_us < wall_us:
        await pilot.pause(0.01)


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
