"""Text from nodes and files steers nothing: no terminal, no markup, no layout."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from textual.events import Paste
from textual.pilot import Pilot

from gpuwatch.agent.metric import Label
from gpuwatch.job.types import Cost
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Marker, Row, Sample
from gpuwatch.model.verdict import (
    Candidate,
    Culprit,
    Finding,
    JobVerdict,
    Missing,
    Recurring,
    Verdict,
)
from gpuwatch.tui import Session, Watch
from gpuwatch.tui.screens.page import Page
from gpuwatch.tui.session import Said
from gpuwatch.tui.widgets.canvas import Canvas
from tui import scenarios
from tui.scripted import Feed, Told
from tui.tape import taped
from tui.wait import text, until, until_second

HOSTILE = (
    "[/b]", "[@click=app.quit]x[/]", "[bold red]", "\x1b[2J", "\x1b]52;c;QUFB\x07", "\x9b2J", "\x90q\x9c",
    "\u202egnp.exe\u2066", "wide 漢字 ﷽", "e\u0301\u0335\u20dd", "\ud800", "\x00\x7f", "\u200f\ufeff",
    "$x {y} %s \\[", "two\nlines\r\x0b\x85\u2028", "x" * 5000,
)  # fmt: skip
ALL = " ".join(HOSTILE)[:4000]


def foul(value: Label) -> Label:
    """Return a label as a hostile node would send it."""
    return value if value is None or isinstance(value, int) else f"{value}{ALL[:200]}"


def fouled(event: AnyEvent, name: str) -> AnyEvent:
    """Return an event with hostile text in every place that has text."""
    match event:
        case Sample():
            tables = tuple(
                tuple(Row(tuple(foul(label) for label in r.labels), r.values) for r in rows)
                for rows in event.tables
            )
            return msgspec.structs.replace(event, node=name, tables=tables)
        case Link():
            return msgspec.structs.replace(event, node=name, step=ALL, reason=ALL, hint=ALL)
        case Hello():
            return msgspec.structs.replace(event, node=name, facts={ALL: ALL})
    return event


def verdict(name: str) -> JobVerdict:
    """Return a verdict with hostile text in every place that has text."""
    like = Verdict(
        scope="job", node=name, state="STORAGE", cause=ALL, culprits=(Culprit("node", ALL, (name,)),),
        waiting=(ALL, ALL), support=(Finding(ALL, 1.0, ALL, 2.0, ALL),), against=(Finding(ALL, 1.0, ALL, 2.0, ALL),),
        missing=(Missing(ALL, ALL),), candidates=(Candidate("CPU", ALL, 0.5),), text=ALL,
    )  # fmt: skip
    rank = msgspec.structs.replace(like, scope="rank", rank=ALL)
    again = Recurring("node", ALL, "STORAGE", ALL, 3, 1.0, 2.0, 0.1)
    return JobVerdict(job=like, nodes=(like,), ranks=(rank,), recurring=(again,), slowdown=2.0)


def events(names: tuple[str, ...], *, refused: bool) -> list[AnyEvent]:
    """Return a hostile job's events."""
    quiet = replace(scenarios.healthy(len(names), 1), seconds=3).events()
    called = {f"gpu{i + 1:02d}": name for i, name in enumerate(names)}
    made = [fouled(e, called[e.node]) if isinstance(e, Sample | Link | Hello) else e for e in quiet]
    if refused:
        made = [
            msgspec.structs.replace(e, state="refused") if isinstance(e, Link) else e for e in made
        ]
    last = msgspec.structs.asdict(made[-2])
    stamp = {k: last[k] for k in ("event_no", "arrived_us", "wall_us")}
    told: list[AnyEvent] = [
        Fault(node=names[0], source=ALL, text=ALL, **stamp),
        Marker(text=ALL, **stamp),
    ]
    return [*made[:-1], *told, made[-1]]


def drawn(app: Watch) -> list[list[Segment]]:
    """Return the segments of each line that the page draws."""
    page = app.screen
    assert isinstance(page, Page)
    return [
        list(canvas.render_line(y))
        for canvas in page.query(Canvas)
        if canvas.display
        for y in range(canvas.size.height)
    ]


PAGES = (
    "o", "enter", "pagedown", "pagedown", "escape", "w", "pagedown", "t", "left", "Z", "dollar_sign", "e",
    "question_mark", "escape",
)  # fmt: skip
"""Keys that show everything there is, by the way back to the overview."""
STEERING = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\d+;\d+H|\x1b\]22;default\x07|\n")
"""Style, cursor, and the shape of the mouse's pointer, which Textual sets as it begins."""


@pytest.mark.parametrize(
    ("nodes", "size", "refused"),
    [(1, (80, 24), False), (2, (140, 50), True), (13, (120, 30), False), (61, (120, 30), False)],
    ids=["panes", "refused", "lines", "map"],
)
async def test_no_page_lets_hostile_text_through(
    nodes: int,
    size: tuple[int, int],
    refused: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On every page, and in all that is typed: only style and cursor leave the driver."""
    monkeypatch.chdir(tmp_path)
    names = tuple(f"gpu{i}{ALL[:160]}" for i in range(nodes))
    session = Session(
        ALL, names, 1.0, aiter(Feed(events(names, refused=refused))),
        Told(lambda _: verdict(names[0])), recording=lambda: Said(ALL), cost=Cost(gpu_hour=2.0, currency=ALL),
        group=lambda name: name[3] + ALL, note=lambda _: None,
    )  # fmt: skip
    app = Watch(session)

    async def look(pilot: Pilot[int]) -> None:
        await until_second(pilot, 3)
        for key in PAGES:
            await pilot.press(key)
            for segments in drawn(app):
                line = "".join(s.text for s in segments)
                assert line.isprintable()
                assert cell_len(line) in {size[0], size[0] - 1}
                assert all(s.control is None for s in segments)
                assert all(s.style is None or not s.style.meta for s in segments)
        assert "[/b]" in text(app)
        assert app.title.isprintable()
        for asking in ("slash", "m", "ctrl+p"):
            await pilot.press(asking)
            app.post_message(Paste(ALL))
            await pilot.pause()
            await pilot.press("enter", "escape", "escape")
        await pilot.press("S", "s")
        await until(pilot, lambda: len(list(tmp_path.iterdir())) == 2)

    left = STEERING.sub("", await taped(app, size, look))
    assert left.isprintable(), {c for c in left if not c.isprintable()}
    assert "STORAGE" in left


@settings(max_examples=10, deadline=None)
@given(st.text(min_size=1, max_size=80))
def test_any_text_at_all_stays_text(words: str) -> None:
    async def look() -> None:
        made = [
            msgspec.structs.replace(e, node=words) if hasattr(e, "node") else e
            for e in scenarios.healthy(1, 2).events()[:20]
        ]
        told = msgspec.structs.replace(verdict(words).job, text=words)
        app = Watch(
            Session(words, (words,), 1.0, aiter(Feed(made)), Told(lambda _: JobVerdict(job=told)))
        )
        async with app.run_test(size=(80, 24)) as pilot:
            await until_second(pilot, 2)
            assert all("".join(s.text for s in line).isprintable() for line in drawn(app))

    asyncio.run(look())


async def _breaking() -> AsyncIterator[AnyEvent]:
    for event in scenarios.healthy().events()[:3]:
        yield event
    raise ValueError(ALL)


async def test_errors_and_broken_themes_are_told_without_markup(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        'name = "x"\n[roles]\n"[/b]\\u001b[2J" = "red"\n[colours]\n', "utf-8"
    )
    session = Session(
        "job", ("a",), 1.0, _breaking(), Told(lambda _: verdict("a")), folders=(tmp_path,)
    )
    app = Watch(session)
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await pilot.pause(0.1)
        said = [str(n.message) for n in app._notifications]
        assert any("theme left out: bad.toml" in s for s in said)
        assert all(s.isprintable() for s in said)
        assert "gpuwatch stopped: ValueError" in text(app)
