"""What to do about a verdict: the commands that prove it or refute it, and what helps."""

import re

import msgspec
from rich.cells import cell_len

from gpuwatch.agent.metric import Labels
from gpuwatch.model.verdict import Culprit, Verdict
from gpuwatch.model.view import NodeView
from gpuwatch.tui.paint.spans import Line, fit, safe, wrap
from gpuwatch.tui.scene import Scene
from gpuwatch.verdict.advice import Advice, Known, advise, known, medium

__all__ = ["first", "steps"]

KIND = 11
RECENT_S = 30.0
ROWS = 3
"""Lines of a command or a text, at most."""
_NAMED = re.compile(r"(\w+) (\S+) of ")


def steps(scene: Scene, verdict: Verdict, cells: int) -> list[Line]:
    """Return each step: its kind and command, below it what it tells."""
    facts = _known(scene, verdict)
    room = max(20, cells - KIND)
    return [line for step in _advice(verdict, facts) for line in _step(step, facts, room)]


def _step(step: Advice, facts: Known, room: int) -> list[Line]:
    rows: list[Line] = []
    if step.command is not None:
        where = _where(facts)
        beside = max(20, room - cell_len(where))
        rows = [((row, "strong"),) for row in wrap(safe(step.command), beside, ROWS)]
        rows[-1] = (*rows[-1], (where, "dim"))
    said = "text" if step.command is None else "dim"
    rows += [((row, said),) for row in wrap(step.text, room, ROWS)]
    role = "warn" if step.kind == "makes load" else "dim"
    return [((fit(step.kind if i == 0 else "", KIND), role), *row) for i, row in enumerate(rows)]


def first(scene: Scene) -> Line:
    """Return the command to run next for the job's verdict; nothing where it names no wait."""
    verdict = scene.verdict.job
    if verdict.state == "UNKNOWN":
        return ()
    facts = _known(scene, verdict)
    for step in _advice(verdict, facts):
        if step.command is not None and step.kind == "reads":
            return (
                ("next ", "dim"),
                (safe(step.command), "text"),
                (f"{_where(facts)} ({step.kind})", "dim"),
            )
    return ()


def _advice(verdict: Verdict, facts: Known) -> tuple[Advice, ...]:
    if (verdict.state, verdict.cause) == ("COMPUTE", None):
        return ()
    return advise(verdict.state, verdict.cause, medium(verdict), facts)


def _where(facts: Known) -> str:
    return "" if facts.node is None else f"  on {safe(facts.node)}"


def _known(scene: Scene, verdict: Verdict) -> Known:
    """Return what the verdict says of where to look, and what its node says of its processes."""
    facts = known(verdict)
    node = scene.view.node(facts.node or "")
    if node is None or node.sample is None:
        return facts
    rank = verdict.rank or next(
        (_rank(c) for c in verdict.culprits if c.kind == "rank" and node.name in c.nodes), None
    )
    main = _main(node, rank, facts.gpu)
    if main is not None:
        facts = msgspec.structs.replace(facts, pid=str(main[3]))
        if rank is not None and main[4] is not None:
            facts = msgspec.structs.replace(facts, gpu=str(main[4]))
    return msgspec.structs.replace(facts, mount=facts.mount or _mount(node, verdict.culprits))


def _main(node: NodeView, rank: str | None, gpu: str | None) -> Labels | None:
    """Return the main process of the rank or GPU that is meant, else of the first: all are alike."""
    rows = [r.labels for r in node.sample.rows("thread_group")] if node.sample is not None else []
    return next(
        (
            labels
            for labels in rows
            if labels[2] == "main"
            and rank in (None, labels[1])
            and (rank is not None or gpu in (None, str(labels[4])))
        ),
        None,
    )


def _rank(culprit: Culprit) -> str | None:
    """Return a rank as threads call it, from how a person would: `rank 3 of gpu01` is `3`."""
    named = _NAMED.match(culprit.id)
    if named is None:
        return None
    return named[2] if named[1] == "rank" else f"{named[1]}:{named[2]}"


def _mount(node: NodeView, culprits: tuple[Culprit, ...]) -> str | None:
    """Return where the server to blame is mounted, or the only one that there is."""
    window = node.window(RECENT_S)  # a long list is not read each tick
    rows = window.seen("mount") if window is not None else ()
    blamed = [c.id for c in culprits if c.kind == "mount"]
    paths = [
        str(m[0]) for m in rows if str(m[1]).startswith("nfs") and (not blamed or m[2] in blamed)
    ]
    return paths[0] if len(paths) == 1 or (paths and blamed) else None
