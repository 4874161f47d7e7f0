"""Text from nodes and files steers nothing: no terminal, no markup, no layout."""

import asyncio
import io
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.agent.metric import Label
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
from tui.wait import text, until_second

HOSTILE = (
    "[/b]", "[@click=app.quit]x[/]", "[bold red]", "\x1b[2J", "\x1b]52;c;QUFB\x07", "\x9b2J", "\x90q\x9c",
    "\u202egnp.exe\u2066", "two\nlines\r\x0b\x85\u2028", "wide 漢字 ﷽", "e\u0301\u0335\u20dd", "\ud800", "\x00\x7f", "\u200f\ufeff",
    "$x {y} %s \\[", "x" * 5000,
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


def events(name: str, *, refused: bool) -> list[AnyEvent]:
    """Return a hostile job's events."""
    made = [fouled(e, name) for e in scenarios.healthy(1, 2).events()[:40]]
    if refused:
        made = [
            msgspec.structs.replace(e, state="refused") if isinstance(e, Link) else e for e in made
        ]
    stamp = msgspec.structs.asdict(made[5])
    stamp = {k: stamp[k] for k in ("event_no", "arrived_us", "wall_us")}
    return [
        *made[:5],
        Fault(node=name, source=ALL, text=ALL, **stamp),
        Marker(text=ALL, **stamp),
        *made[5:],
    ]


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


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("size", [(80, 24), (140, 50)])
async def test_no_page_lets_hostile_text_through(size: tuple[int, int], refused: bool) -> None:
    name = f"gpu{ALL[:120]}"
    feed = Feed(events(name, refused=refused))
    session = Session(
        ALL, (name,), 1.0, aiter(feed), Told(lambda _: verdict(name)), recording=lambda: Said(ALL)
    )
    app = Watch(session)
    async with app.run_test(size=size) as pilot:
        await until_second(pilot, 5)
        for key in ("o", "enter", "pagedown", "pagedown", "w", "pagedown", "e"):
            await pilot.press(key)
            for segments in drawn(app):
                line = "".join(s.text for s in segments)
                assert line.isprintable()
                assert cell_len(line) in {size[0], size[0] - 1}
                assert all(s.control is None for s in segments)
                assert all(s.style is None or not s.style.meta for s in segments)
        assert "[/b]" in text(app)
        assert app.title.isprintable()


@settings(max_examples=15, deadline=None)
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


def test_only_style_and_cursor_sequences_reach_the_terminal(screen: Callable[..., Watch]) -> None:
    from rich.console import Console

    name = f"gpu{ALL[:120]}"
    out = io.StringIO()

    async def look() -> None:
        session = Session(
            ALL,
            (name,),
            1.0,
            aiter(Feed(events(name, refused=False))),
            Told(lambda _: verdict(name)),
        )
        app = Watch(session)
        async with app.run_test(size=(100, 30)) as pilot:
            await until_second(pilot, 5)
            console = Console(file=out, force_terminal=True, color_system="truecolor", width=100)
            for segments in drawn(app):
                for segment in segments:
                    console.print(
                        segment.text, style=segment.style, end="", markup=False, highlight=False
                    )
                console.print()

    asyncio.run(look())
    left = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert left.replace("\n", "").isprintable()
    assert "STORAGE" in left
