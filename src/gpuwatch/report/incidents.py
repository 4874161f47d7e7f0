"""Incidents on the page: each wait of the job with its evidence, and what to do about it."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from xml.etree.ElementTree import Element

from gpuwatch.report.markup import Child, el
from gpuwatch.report.palette import variable
from gpuwatch.report.types import Report, Stretch
from gpuwatch.report.words import duration, waits_of, word
from gpuwatch.verdict.advice import Advice, advise, known, medium

__all__ = ["incidents", "recurring"]

MOST = 12
"""Incidents that are told: the longest."""


def incidents(report: Report) -> Iterator[Child]:
    """Yield the longest waits of the job, in order."""
    waits = waits_of(report)
    longest = sorted(waits, key=lambda row: row.begin - row.end)[:MOST]
    advised: set[str] = set()
    if longest:
        yield el("h2", "Incidents")
    for row in sorted(longest, key=lambda row: row.begin):
        name = word(row.state, row.cause)
        yield _incident(row, with_steps=name not in advised)
        advised.add(name)
    if len(waits) > MOST:
        yield el(
            "p", f"{len(waits) - MOST} shorter ones are left out; JSON has them.", class_="note"
        )


def recurring(report: Report) -> Iterator[Child]:
    """Yield what was too short each time, and came back."""
    if report.recurring:
        yield el("h2", "What came back")
        yield el(
            "ul",
            (
                el(
                    "li",
                    f"{word(again.state, again.cause)} on {again.node or 'the job'}: {again.count} times,"
                    f" {again.length_s:.1f} s each"
                    + ("" if again.period_s is None else f", every {duration(again.period_s)}")
                    + f", {again.share:.1%} of the time",
                )
                for again in report.recurring
            ),
        )


def _incident(row: Stretch, *, with_steps: bool) -> Element:
    blamed = ", ".join(culprit.id for culprit in row.culprits) or "unknown"
    seconds = (row.end - row.begin).total_seconds()
    facts = [f"{_instant(row.begin)} to {_instant(row.end)} UTC, {duration(seconds)}"]
    facts.append(
        "suspected only" if row.confirmed_at is None else f"confirmed {_instant(row.confirmed_at)}"
    )
    if row.confidence is not None:
        facts.append(f"confidence {row.confidence:.2f}")
    if row.waiting:
        facts.append(f"waiting for it: {', '.join(row.waiting)}")
    also = [
        f"{word(rival.state, rival.cause)}, confidence {rival.confidence:.2f}"
        for rival in row.candidates
    ]
    missing = [f"{gone.signal}: {gone.reason}" for gone in row.missing]
    return el(
        "article",
        el(
            "h3",
            el("span", word(row.state, row.cause).replace("/", " "), class_="chip", style=f"--ink:{variable(row.state.lower())}"),
            blamed,
        ),
        el("p", "; ".join(facts), class_="dim"),
        _facts("For", "+", (fact.text for fact in row.support)),
        _facts("Against", "\N{MINUS SIGN}", (fact.text for fact in row.against)),
        _facts("Could not be read", "?", missing),
        _facts("Possible as well", "?", also),
        _steps(row) if with_steps else None,
    )  # fmt: skip


def _facts(title: str, mark: str, texts: Iterable[str]) -> Child:
    found = [text for text in texts if text]
    if not found:
        return None
    return [el("h4", title), el("ul", (el("li", t, data_mark=mark) for t in found), class_="facts")]


def _steps(row: Stretch) -> Child:
    steps = advise(row.state, row.cause, medium(row), known(row))
    if not steps:
        return None
    return [el("h4", "What to do"), el("ul", map(_step, steps), class_="steps")]


def _step(step: Advice) -> Element:
    command = None if step.command is None else [el("code", step.command), el("br")]
    return el("li", el("b", step.kind), command, step.text)


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
