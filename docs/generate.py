"""Writes the documents that are made from code; `--check` only says which are out of date."""

import argparse
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import LABEL, Metric
from gpuwatch.cli.commands import COMMANDS, EXIT_CODES, usage
from gpuwatch.model.verdict import CAUSES, LETTERS, STATES
from gpuwatch.preflight.checks import CHECKS
from gpuwatch.recording import schema
from gpuwatch.report.compare import schema as schema_of_comparison
from gpuwatch.report.types import schema as schema_of_report
from gpuwatch.verdict import causes, thresholds
from gpuwatch.verdict.advice import ADVICE

HERE = Path(__file__).parent
MADE = "<!-- Made by docs/generate.py: `make docs`. -->"


def metrics() -> str:
    """Return docs/metrics.md: every row of the catalogue."""
    return _page(_metrics())


def commands() -> str:
    """Return docs/commands.md: every command and its arguments."""
    return _page(_commands())


def verdicts() -> str:
    """Return docs/verdicts.md: every state, cause and threshold of the verdict."""
    return _page(_verdicts())


def recording() -> str:
    """Return docs/recording.md: files, tables and columns of a recording, and how to ask them."""
    return _page(_recording())


def report_schema() -> str:
    """Return docs/report.schema.json."""
    return _json(schema_of_report())


def comparison_schema() -> str:
    """Return docs/compare.schema.json."""
    return _json(schema_of_comparison())


def preflight() -> str:
    """Return docs/preflight.md: every check, what it judges by, and from where each limit is."""
    return _page(_preflight())


DOCUMENTS: dict[str, Callable[[], str]] = {
    "metrics.md": metrics,
    "commands.md": commands,
    "verdicts.md": verdicts,
    "recording.md": recording,
    "preflight.md": preflight,
    "report.schema.json": report_schema,
    "compare.schema.json": comparison_schema,
}


def main() -> int:
    """Write or check all documents; return 1 when one is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = []
    for name, make in DOCUMENTS.items():
        file, text = HERE / name, make()
        if check and (not file.exists() or file.read_text("utf-8") != text):
            stale.append(name)
        elif not check:
            file.write_text(text, "utf-8")
    if stale:
        print(f"out of date: {', '.join(stale)}; run make docs", file=sys.stderr)
    return bool(stale)


def _metrics() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield "What an agent reads, by table. Counters are stored as they came; rates are derived when they are read."
    yield "What could not be read is null, never zero, and the table `absence` says why."
    for scope in catalogue.SCOPES:
        yield ""
        yield f"## `{scope}`"
        yield ""
        yield from _table(
            ("name", "kind", "unit", "meaning", "found at"),
            (
                (
                    f"`{r.name}`",
                    r.kind,
                    "" if r.kind == LABEL else r.unit,
                    r.meaning,
                    f"`{r.locator}`" if r.locator else "",
                )
                for r in catalogue.ROWS
                if r.scope == scope
            ),
        )


def _commands() -> Iterator[str]:
    yield "# Commands"
    for command in COMMANDS.values():
        yield ""
        yield f"## `gpuwatch {command.name}".rstrip() + "`"
        yield ""
        yield f"{command.help[0].upper()}{command.help[1:]}."
        yield ""
        yield f"    {usage(command)}"
        yield ""
        for argument in command.arguments:
            shown = argument.more.get("metavar", "")
            name = f"{argument.name} {shown}".rstrip() if argument.name.startswith("-") else shown
            yield f"- `{name}`: {argument.help}"
    yield ""
    yield "Every command takes `--help`, and `--debug` for a traceback on errors."
    yield ""
    yield "## Exit codes"
    yield ""
    yield from _table(("code", "meaning"), ((str(c), meaning) for c, meaning in EXIT_CODES.items()))


PREFLIGHT = """\
`gpuwatch preflight job.yaml` runs the checks that experts run by hand, over the same login as everything else, and judges them.
What makes load is asked about first: what, where, how long, how much is written (`--yes` goes on without). Nodes on whose GPUs processes
run are refused (`--busy-ok`), more than 20 minutes need `--thorough`; `--quick` is shorter, `--only links,host` runs what is
named. A tool that a node lacks is a line with the package that has it, and the other checks go on; nothing is installed.

On a node one Python process runs programs and reads and writes files, as you, until the connection ends. Then, and when it is killed, a
process forked from it kills what carries its mark in the environment (`GPUWATCH_ERRAND`) and removes its folders
(`.gpuwatch-preflight-...` on the job's paths), within seconds.

A fault is said where a figure is outside its limit, *not judged* where a tool, a right, or something to compare with is
missing. Limits are coarse on purpose: what a good cluster shows on a busy afternoon is no fault. The result is kept beside the job's
recordings, and what is new or gone since the last one is told. Exit code 1: a fault was found."""


def _preflight() -> Iterator[str]:
    yield "# Before the job: preflight"
    yield ""
    yield PREFLIGHT
    for check in CHECKS:
        yield ""
        yield f"## {check.name}"
        yield ""
        yield f"{check.does[0].upper()}{check.does[1:]}."
        yield ""
        yield f"A fault: {check.judges}."
        if check.limits:
            yield ""
            head = ("limit", "value", "of what", "from where")
            rows = (
                (f"`{x.name}`", f"{x.value:g} {x.unit}".strip(), x.meaning, x.source)
                for x in check.limits
            )
            yield from _table(head, rows)
    yield ""
    yield _part("preflight.md")


ABOUT = """\
The unit of judgement is a rank: one GPU, its processes, its loaders. For each, every cause below weighs what it requires,
what supports it and what speaks against it into a score from 0 to 1; a score times the share of its signals that were
readable, under the cause's caps, is the confidence. A node's verdict is that of the ranks that wait least; the job's names who
waits least and who waits for it. Two causes within `margin` are both shown; none over `score` is UNKNOWN. What would replace a
verdict must lead it by `score` for `suspect_after`, or by more for less long; then it is suspected, after `confirm_after` it is
confirmed, and it stays for `dwell`, so that it does not blink.

What a GPU does is taken from its power between three levels, idle, spinning in a collective and computing, never from its
utilisation alone, which reads 100 % while it spins. The levels come from a table by GPU model, then from the
recording of a good run that the job file may name (`baseline`: what the GPU that worked least drew over 30 s of full work),
then from the GPU's own minutes at work where those were as good. The table's figures are published ones or estimates; none was measured on a GPU by this project."""


NEXT = """\
The page of a verdict's evidence and the report end in the commands that prove it or refute it on the node, and in what helps.
gpuwatch runs none of them. `reads`: looks, at most sends a few packets, and never stops a process. `makes load`: not while a
job runs that must not feel it. `changes`: of the job's own code or settings, or of the machine. No command needs root unless it
says so. Words in braces are filled in where the verdict knows them; words in capitals are yours to fill in."""


def _verdicts() -> Iterator[str]:
    yield "# Verdicts"
    yield ""
    yield ABOUT
    yield ""
    yield "## Words"
    yield ""
    yield from _table(
        ("letter", "state", "causes"),
        ((LETTERS[s], s, ", ".join(CAUSES[s])) for s in STATES),
    )
    yield ""
    yield "## Causes"
    for _, assess in causes.CAUSES:
        head, _, rest = (inspect.getdoc(inspect.getmodule(assess)) or "").partition(": ")
        yield ""
        yield f"### {head}"
        yield ""
        yield rest[:1].upper() + rest[1:]
    yield ""
    yield _part("recompute.md")
    yield ""
    yield "## What to do"
    yield ""
    yield NEXT
    yield ""
    yield from _table(("verdict", "kind", "command", "what it tells, or what helps"), _advice())
    yield ""
    yield "## Thresholds"
    yield ""
    yield "Each can be set under `thresholds:` in the job file, or by `--thresholds`; a recording keeps those that it was judged"
    yield "with, and `gpuwatch report REC --rejudge --thresholds lost=20` tells what others would change."
    yield ""
    yield from _table(
        ("name", "default", "allowed", "meaning", "source"),
        ((f"`{r.name}`", r.default, r.allowed, r.meaning, r.source) for r in thresholds.table()),
    )


TABLES = {
    "link": "How each node is reached: every step and why it failed.",
    "tick": "When the job was judged.",
    "event": "Agents that started, faults, markers.",
    "verdict": "What was shown of each job, node and rank: a row at first, and whenever it changed.",
    "judged": "Each tick that was judged: the job's slowdown, and what kept coming back, as JSON where that changed.",
    "stretch": "Each verdict as long as its state, cause and culprits stayed the same, up to `last_event_no`, "
    "with the evidence, as JSON, of the tick at which it was surest: what `report` reads.",
    "activity": "What share of its time each node computed, and what share is unknown, at each tick.",
    "shown": "All that was shown at each tick, with all evidence, as JSON; null where it did not change.",
    "judge_state": "What the judge had learned, at each seal.",
}
"""The tables that are not of the catalogue, in words."""


def _recording() -> Iterator[str]:
    yield "# Recordings"
    yield ""
    yield _part("recording.md")
    yield ""
    yield "## Tables"
    yield ""
    yield f"Tables of samples begin with {_columns(schema.STAMP | schema.AGENT)}; `node` has as well"
    yield f"{_columns(schema.SAMPLE)}. Then come the columns that tell whose a row is, and the"
    yield "values, which [metrics.md](metrics.md) has with units and sources:"
    yield ""
    yield from _table(
        ("table", "whose", "values"),
        (
            (f"`{s}`", _names(catalogue.LABELS[s]), str(len(catalogue.VALUES[s])))
            for s in catalogue.SCOPES
        ),
    )
    yield ""
    yield "The others:"
    yield ""
    yield from _table(
        ("table", "holds", "columns"),
        (
            (f"`{name}`", TABLES[name], _columns(schema.schema(name)))
            for name in schema.tables()
            if name not in catalogue.SCOPES
        ),
    )


def _json(document: object) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _columns(types: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}` ({dtype})" for name, dtype in types.items())


def _names(rows: Iterable[Metric]) -> str:
    return ", ".join(f"`{row.name}`" for row in rows)


def _part(name: str) -> str:
    """Return what a person wrote for a page."""
    return (HERE / "parts" / name).read_text("utf-8").rstrip()


def _advice() -> Iterator[tuple[str, ...]]:
    for (state, cause), pieces in ADVICE.items():
        for piece in pieces:
            name = f"{state}/{cause}" if cause else state
            where = f" ({piece.on})" if piece.on else ""
            command = f"`{piece.command}`" if piece.command else ""
            yield name + where, piece.kind, command, piece.text


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _page(lines: Iterator[str]) -> str:
    return "\n".join([MADE, "", *lines]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
