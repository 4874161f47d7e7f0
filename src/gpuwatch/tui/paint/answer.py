"""The answer: what the job waits on, who is to blame, since when, why. Always on top."""

from gpuwatch.model.verdict import Recurring, Verdict
from gpuwatch.tui.paint.numbers import clock, duration, number, percent
from gpuwatch.tui.paint.spans import Line, Span, clip, ends, safe, width, wrap
from gpuwatch.tui.paint.words import computing, culprits, role_of, state_words
from gpuwatch.tui.scene import Scene

__all__ = ["answer", "header"]

NAMED = 6
"""Waiting nodes that are named; more are counted."""


def header(scene: Scene | None, title: str, mode: Line, cells: int) -> Line:
    """Return the top line: which job, how big, how long, and what the screen itself does."""
    left: list[Span] = [(f" {safe(title)}", "title")]
    right: list[Span] = [*mode]
    if scene is not None:
        view = scene.view
        gpus = sum(len(n.sample.rows("gpu")) for n in view.nodes if n.sample is not None)
        left.append((f" · {_count(len(view.nodes), 'node')} · {_count(gpus, 'GPU')}", "dim"))
        left.append((f" · watched {duration(view.now_us - scene.started_us)}", "dim"))
        right.append((f"  {clock(view.wall_us)} {clock(view.wall_us, pattern='%Z')} ", "text"))
    return ends(left, right, cells)


def answer(scene: Scene, cells: int, height: int) -> list[Line]:
    """Return exactly `height` lines; the first says the state in a word and the sentence."""
    job = scene.verdict.job
    role = role_of(job.state)
    chip = f" {state_words(job)} "
    room = max(10, cells - len(chip) - 4)
    rows = wrap(_sentence(job), room, 2 if height > 3 else 1)
    edge: Span = ("▌", role)
    body: list[Line] = [(edge, (chip, f"chip-{role}"), ("  ", "text"), (rows[0], "strong"))]
    body += [(edge, (" " * (len(chip) + 2) + r, "strong")) for r in rows[1:]]
    indent: Span = (" ", "text")
    for line in (_since(scene, cells - 3), _because(job), *_also(scene)):
        if line:
            body.append((edge, indent, *line))
    body += [(edge,)] * (height - len(body))
    return [clip(line, cells) for line in body[:height]]


def _sentence(job: Verdict) -> str:
    text = safe(job.text)
    if text:
        return text
    return ", ".join(culprits(job.culprits)) or "nothing can be said yet"


def _since(scene: Scene, room: int) -> Line:
    job, now = scene.verdict.job, scene.view.now_us
    parts: list[Span] = [(_age(job, now), "strong" if job.confirmed_us is not None else "dim")]
    parts.append((f" · confidence {job.confidence:.2f}", "text"))
    share = computing(job)
    if share is not None:
        parts.append((f" · {percent(share)} of GPU time in compute", "text"))
    if scene.verdict.slowdown is not None and scene.verdict.slowdown >= 1.05:
        parts.append((f" · {number(scene.verdict.slowdown)}x slower than its best", "text"))
    waiting = [safe(name) for name in job.waiting]
    if waiting:
        count = _count(len(waiting), "node")
        verb = "waits" if len(waiting) == 1 else "wait"
        names: Span = (f" · {count} {verb}: {' '.join(waiting)}", "text")
        if len(waiting) > NAMED or width([*parts, names]) > room:
            names = (f" · {count} {verb}", "text")
        parts.append(names)
    return tuple(parts)


def _age(verdict: Verdict, now_us: int) -> str:
    if verdict.confirmed_us is not None:
        return f"confirmed, for {duration(now_us - verdict.episode_us)}"
    if verdict.suspected_us is not None:
        return f"suspected, for {duration(now_us - verdict.episode_us)}"
    return f"for {duration(now_us - verdict.episode_us)}"


def _because(job: Verdict) -> Line:
    reasons = [safe(f.text) for f in job.support[:2] if f.text]
    return (("because ", "dim"), (" · ".join(reasons), "text")) if reasons else ()


def _also(scene: Scene) -> list[Line]:
    lines: list[Line] = []
    if scene.verdict.job.candidates:
        rest = " · ".join(
            f"{c.state} {safe(c.cause or '')}".rstrip() + f" {c.confidence:.2f}"
            for c in scene.verdict.job.candidates[:2]
        )
        lines.append((("or ", "dim"), (rest, "text")))
    lines += [(("recurring ", "dim"), (_recurring(r), "text")) for r in scene.verdict.recurring[:2]]
    return lines


def _recurring(again: Recurring) -> str:
    what = f"{again.state} {safe(again.cause or '')}".rstrip()
    where = f" on {safe(again.node)}" if again.node else ""
    period = f", every {number(again.period_s)} s" if again.period_s else ""
    length = f"{again.count} times, {number(again.length_s)} s each"
    return f"{what}{where}, {length}{period}: {percent(again.share)} of time"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
