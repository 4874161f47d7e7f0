"""The answer: what the job waits on, who is to blame, since when, why. Always on top."""

from collections import Counter

from gpuwatch.model.progress import Progress
from gpuwatch.model.verdict import Recurring, Verdict
from gpuwatch.tui.paint.numbers import (
    MISSING,
    clock,
    duration,
    number,
    percent,
    scaled,
)  # fmt: skip
from gpuwatch.tui.paint.pane import trouble
from gpuwatch.tui.paint.spans import Line, Span, clip, ends, plain, safe, whole, width, wrap
from gpuwatch.tui.paint.steps import first
from gpuwatch.tui.paint.words import computing, culprits, role_of, state_words
from gpuwatch.tui.scene import Scene

__all__ = ["answer", "header", "said", "sentence"]

NOTABLE = 1.05
"""A slowdown that is worth a word."""
COPIED_CELLS, COPIED_LINES = 400, 7
NAMED = 6
"""Nodes that are named; more are counted."""


def header(scene: Scene | None, title: str, mode: Line, cells: int) -> Line:
    """Return the top line: which job, how big, how long, and what the screen itself does."""
    right: list[Span] = [*mode]
    parts: list[Line] = [((f" {safe(title)}", "title"),)]
    if scene is not None:
        view = scene.view
        gpus = sum(len(n.sample.rows("gpu")) for n in view.nodes if n.sample is not None)
        parts += [
            ((f" · {_count(len(view.nodes), 'node')}", "dim"),),
            ((f" · {_count(gpus, 'GPU')}", "dim"),),
            ((f" · watched {duration(view.now_us - scene.started_us)}", "dim"),),
            *_progress(view.progress),
        ]
        right.append((f"  {clock(view.wall_us)} {clock(view.wall_us, pattern='%Z')} ", "text"))
    return ends(whole(parts, cells - width(right) - 1), right, cells)


def _progress(progress: Progress | None) -> list[Line]:
    """Return what the job's own log says of its steps."""
    if progress is None:
        return []
    if progress.step is None:
        return [((f" · step {MISSING}", "dim"), (f" {safe(progress.reason or '')}", "old"))]
    said = f" · step {progress.step}"
    if progress.reason is not None:
        return [((said, "dim"), (f" {safe(progress.reason)}", "old"))]
    if progress.period_s is None or progress.still_s is None:
        return [((said, "dim"),)]
    if not progress.moving:
        return [((said, "dim"), (f", none for {duration(progress.still_s * 1e6)}", "warn"))]
    parts: list[Line] = [((f"{said}, {number(progress.period_s)} s", "dim"),)]
    if progress.tokens_s is not None:
        parts.append(((f" · {scaled(progress.tokens_s, 'tok/s')}", "dim"),))
    return parts


def answer(scene: Scene, cells: int, height: int) -> list[Line]:
    """Return exactly `height` lines; the first says the state in a word and the sentence."""
    job = scene.verdict.job
    role = role_of(job.state)
    chip = _chip(job)
    rows = sentence(job, cells, 2 if height > 2 else 1)
    edge: Span = ("▌", role)
    body: list[Line] = [(edge, (chip, f"chip-{role}"), ("  ", "text"), (rows[0], "strong"))]
    body += [(edge, (" " * (len(chip) + 2) + r, "strong")) for r in rows[1:]]
    indent: Span = (" ", "text")
    for line in (
        _since(scene, cells - 3),
        () if _fades(job) else _because(job, cells - 2),
        _silent(scene, cells - 2),
        *_also(scene),
        whole([first(scene)], cells - 2),
    ):
        if line:
            body.append((edge, indent, *line))
    body += [(edge,)] * (height - len(body))
    return [clip(line, cells) for line in body[:height]]


def said(scene: Scene) -> list[str]:
    """Return the answer as lines of text, to be told elsewhere."""
    rows = [plain(line).lstrip("▌ ").rstrip() for line in answer(scene, COPIED_CELLS, COPIED_LINES)]
    return [safe(scene.title), *filter(None, rows)]


def sentence(job: Verdict, cells: int, lines: int) -> list[str]:
    """Return what stands beside the state, in at most so many lines."""
    said = safe(job.text) or ", ".join(culprits(job.culprits)) or "nothing can be said yet"
    return wrap(said, max(10, cells - len(_chip(job)) - 4), lines)


def _chip(job: Verdict) -> str:
    return f" {state_words(job)} "


def _since(scene: Scene, room: int) -> Line:
    """Return since when, how sure, who waits, what it costs; what has no room is left out."""
    job = scene.verdict.job
    told = job.confirmed_us is not None and not _fades(job)
    parts: list[Line] = [((_age(scene), "strong" if told else "dim"),)]
    if job.state != "UNKNOWN" and not _fades(job):
        parts.append(((f" · confidence {job.confidence:.2f}", "text"),))
    if job.waiting:
        parts.append(_waiting([safe(name) for name in job.waiting], room))
    if scene.verdict.slowdown is not None and scene.verdict.slowdown >= NOTABLE:
        parts.append(((f" · {number(scene.verdict.slowdown)}x slower than its best", "text"),))
    share = computing(job)
    if share is not None:
        parts.append(((f" · {percent(share)} of GPU time in compute", "text"),))
        parts.append(_lost(scene, share))
    return whole(parts, room)


def _lost(scene: Scene, share: float) -> Line:
    """Return what the GPU time that is not computed in costs an hour."""
    cost = scene.past.gpu_hour
    if cost is None or scene.verdict.job.state in {"COMPUTE", "IDLE", "UNKNOWN"}:
        return ()
    hourly = (1 - share) * len(scene.verdict.ranks) * cost.gpu_hour
    return ((f" · {hourly:,.2f} {safe(cost.currency)}/h lost", "strong"),)


def _waiting(names: list[str], room: int) -> Line:
    named = f" · waiting: {', '.join(names)}"
    short = len(names) <= NAMED and len(named) <= room // 2
    return ((named if short else f" · {len(names)} wait", "text"),)


def _age(scene: Scene) -> str:
    job, now = scene.verdict.job, scene.view.now_us
    lasting = now - job.episode_us
    said = f"since {clock(scene.view.wall_us - lasting)}, {duration(lasting)}"
    if _fades(job):
        return f"{said} · over, if nothing of it comes back"
    if job.confirmed_us is not None:
        return f"{said} · confirmed"
    return said if job.suspected_us is None else f"{said} · suspected"


def _fades(job: Verdict) -> bool:
    """Tell whether nothing speaks any more for what is still shown: words change late on purpose."""
    return job.state != "UNKNOWN" and job.confidence <= 0


def _because(job: Verdict, room: int) -> Line:
    reasons = [safe(f.text) for f in job.support[:2] if f.text]
    parts: list[Line] = [
        (("because " if i == 0 else " · ", "dim"), (reason, "text"))
        for i, reason in enumerate(reasons)
    ]
    return whole(parts, room)


def _silent(scene: Scene, room: int) -> Line:
    """Return from whom nothing comes, why, and what to do: once, where it is the same for many."""
    silent = [n for n in scene.view.nodes if trouble(n)]
    if not silent:
        return ()
    names = [safe(n.name) for n in silent]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    parts: list[Line] = [(("no data from ", "dim"), (" ".join(names[:NAMED]) + more, "bad"))]
    whys = Counter(n.link.reason for n in silent if n.link and n.link.reason)
    reason, count = whys.most_common(1)[0] if whys else (None, 0)
    if count > 1:  # one node's own pane says it
        hints = (n.link.hint for n in silent if n.link and n.link.reason == reason)
        some = "" if count == len(silent) else f"{count} of them, "
        hint = next(filter(None, hints), None)
        parts.append(((f": {some}", "dim"), (safe(reason or ""), "text")))
        parts.append(((f" → {safe(hint)}", "strong"),) if hint else ())
    return whole(parts, room)


def _also(scene: Scene) -> list[Line]:
    lines: list[Line] = []
    if scene.verdict.job.candidates:
        rest = " · ".join(
            f"{c.state} {safe(c.cause or '')}".rstrip() + f" {c.confidence:.2f}"
            for c in scene.verdict.job.candidates[:2]
        )
        now = _fades(scene.verdict.job)
        lines.append(
            (("seen now: ", "strong") if now else ("could also be ", "dim"), (rest, "text"))
        )
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
