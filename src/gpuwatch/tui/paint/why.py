"""Why: the verdicts as chains of facts, for, against, missing, what else it could be, what to do."""

from rich.cells import cell_len

from gpuwatch.model.verdict import Finding, Verdict
from gpuwatch.tui.paint.answer import sentence
from gpuwatch.tui.paint.numbers import clock, duration, percent
from gpuwatch.tui.paint.spans import ELLIPSIS, Line, Span, fit, safe, wrap
from gpuwatch.tui.paint.steps import steps
from gpuwatch.tui.paint.words import culprits, role_of, state_words
from gpuwatch.tui.scene import Scene

__all__ = ["of_job", "why"]

ANSWERED = 2
"""Lines of the sentence in the answer."""
LABEL = 10
METRIC = 30
SAID = 80
"""Cells of a sentence with its metric beside it, at most."""


def why(scene: Scene, cells: int) -> list[Line]:
    """Return the job's verdict explained, then each node's, the blamed first."""
    job = scene.verdict.job
    lines = of_job(scene, cells)
    told = [v for v in scene.verdict.nodes if v.node in scene.blamed]
    rest = [v for v in scene.verdict.nodes if v.node not in scene.blamed]
    for verdict in (*told, *rest):
        lines += [(), *_verdict(scene, verdict, cells)]
        if verdict in told and (verdict.state, verdict.cause) != (job.state, job.cause):
            lines += _next(scene, verdict, cells)
    return lines


def of_job(scene: Scene, cells: int) -> list[Line]:
    """Return the job's verdict explained: what the answer above it has no room for."""
    job = scene.verdict.job
    cut = sentence(job, cells, ANSWERED)[-1].endswith(ELLIPSIS)
    lines: list[Line] = [((" why", "title"),), *(_said(job, cells) if cut else [])]
    return [*lines, *_facts(job, cells), *_next(scene, job, cells)]


def _verdict(scene: Scene, verdict: Verdict, cells: int) -> list[Line]:
    chip: Span = (f" {state_words(verdict)} ", f"chip-{role_of(verdict.state)}")
    name: Span = (f" {safe(verdict.node or '?')}  ", "strong")
    return [(name, chip, *_when(scene, verdict)), *_said(verdict, cells), *_facts(verdict, cells)]


def _said(verdict: Verdict, cells: int) -> list[Line]:
    rows = wrap(safe(verdict.text), cells - 4, 3)
    return [(("   ", "text"), (row, "text")) for row in rows if row]


def _facts(verdict: Verdict, cells: int) -> list[Line]:
    lines: list[Line] = []
    blamed = culprits(verdict.culprits)
    if blamed:
        lines.append(_labelled("culprits", ((", ".join(blamed), "strong"),)))
    if verdict.waiting:
        lines.append(_labelled("waiting", ((" ".join(safe(n) for n in verdict.waiting), "text"),)))
    lines += _findings("for", verdict.support, cells)
    lines += _findings("against", verdict.against, cells)
    for i, missing in enumerate(verdict.missing):
        label = "missing" if i == 0 else ""
        lines.append(
            _labelled(label, ((safe(missing.signal), "old"), (f"  {safe(missing.reason)}", "dim")))
        )
    for i, other in enumerate(verdict.candidates):
        words = f"{other.state} {safe(other.cause or '')}".rstrip()
        label = "or" if i == 0 else ""
        lines.append(
            _labelled(label, ((words, role_of(other.state)), (f"  {other.confidence:.2f}", "dim")))
        )
    if verdict.shares is not None:
        lines.append(_labelled("shares", _shares(verdict)))
    return lines


def _next(scene: Scene, verdict: Verdict, cells: int) -> list[Line]:
    return [
        _labelled("next" if i == 0 else "", line)
        for i, line in enumerate(steps(scene, verdict, cells - LABEL - 4))
    ]


def _when(scene: Scene, verdict: Verdict) -> Line:
    now = scene.view.now_us
    since = clock(scene.view.wall_us - (now - verdict.episode_us))
    if verdict.confirmed_us is not None:
        sure = f"confirmed {duration(now - verdict.confirmed_us)} ago"
    elif verdict.suspected_us is not None:
        sure = f"suspected {duration(now - verdict.suspected_us)} ago"
    else:
        sure = "not yet suspected"
    return ((f"  since {since} · {sure} · confidence {verdict.confidence:.2f}", "dim"),)


def _findings(label: str, findings: tuple[Finding, ...], cells: int) -> list[Line]:
    """Return a line a finding: its sentence says all, so its metric is named where there is room."""
    room = cells - LABEL - 4
    lines: list[Line] = []
    for i, finding in enumerate(findings):
        said, metric = safe(finding.text or finding.metric), safe(finding.metric)
        line: Line = ((fit(said, room), "text"),)
        beside = min(SAID, room - METRIC)
        if cell_len(said) <= beside:
            line = ((fit(said, beside), "text"), (f" {metric}", "faint"))
        lines.append(_labelled(label if i == 0 else "", line))
    return lines


def _shares(verdict: Verdict) -> Line:
    shares = verdict.shares
    if shares is None:
        return ()
    parts = (
        ("compute", shares.compute, "compute"), ("spin", shares.spin, "peer"),
        ("starved", shares.starved, "warn"), ("idle", shares.idle, "idle"),
        ("not told", shares.unknown, "unknown"),
    )  # fmt: skip
    spans: list[Span] = [
        (f"{name} {percent(share)}  ", role) for name, share, role in parts if share >= 0.005
    ]
    spans.append((f"levels: {shares.levels}", "dim"))
    return tuple(spans)


def _labelled(label: str, line: Line) -> Line:
    return (("   ", "text"), (fit(label, LABEL), "dim"), *line)
