"""`gpuwatch report`: a recording as text, JSON or a page, as it was shown or judged anew."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import gpuwatch.recording
from gpuwatch.cli.reading import Reading, thresholds_of
from gpuwatch.cli.thresholds import of_argument
from gpuwatch.errors import InputError
from gpuwatch.model.verdict import CAUSES
from gpuwatch.recording import Session
from gpuwatch.recording.chunk import SCOPES
from gpuwatch.report.activity import computing, told
from gpuwatch.report.build import build
from gpuwatch.report.changes import changed
from gpuwatch.report.hours import by_hour
from gpuwatch.report.text import text
from gpuwatch.report.timeline import said_of
from gpuwatch.report.types import Changes, Report
from gpuwatch.verdict.thresholds import Thresholds

if TYPE_CHECKING:
    import polars as pl

__all__ = ["report"]

BINS = 300
"""Of a picture, at most, and"""
LEAST = 2.5
"""of so many intervals at least, so that each has a reading."""
FOUND = 1


def report(given: Namespace) -> int:
    """Tell what a recording tells; return 1 where a verdict that `--fail-on` names was confirmed."""
    refused = _wanted(given.fail_on)
    recording = gpuwatch.recording.open(given.recording)
    own, used = _own_and_used(recording.session, given)
    read = Reading(recording, given.begin, given.end)
    page = None if given.html is None else _Page(read, Path(given.html))
    subject = read.subject(used)
    changes: Changes | None = None
    activity = recording.table("activity")
    if given.rejudge:
        judged = read.judged_anew(used)
        said, activity = said_of(judged), told(judged)
        if given.thresholds is not None:
            before = said_of(read.judged_anew(own))
            changes = changed(subject, before, said_of(judged), own.as_dict())
    else:
        said = read.as_shown(SCOPES if given.json else ("job",))
    hours = by_hour(recording, *read.span_us)
    found = build(subject, said, read.events(), read.damage(), changes, hours)
    if page is not None:
        page.write(found, activity)
    if given.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    elif page is None:
        sys.stdout.write(text(found))
    return FOUND if _confirmed(found, refused) else 0


class _Page:
    """The report as a page; what draws it is loaded here alone."""

    def __init__(self, read: Reading, file: Path) -> None:
        from gpuwatch.report.pictures import needed
        from gpuwatch.report.series import Bins

        needed()
        if not file.parent.is_dir():
            raise InputError(f"{file}: there is no such folder")
        begin_us, end_us = read.span_us
        least_us = round(LEAST * read.recording.session.interval_s * 1e6)
        width_us = max(least_us, -(-(end_us - begin_us) // BINS))
        self._read = read
        self._file = file
        self._bins = Bins(begin_us, width_us, -(-(end_us - begin_us) // width_us))

    def write(self, found: Report, activity: "pl.LazyFrame") -> None:
        """Write the page, whole or not at all."""
        from gpuwatch.report.html import Measured, page
        from gpuwatch.report.series import QUANTITIES, measured

        drawn = tuple((q, measured(self._read.recording, q, self._bins)) for q in QUANTITIES)
        content = page(found, Measured(self._bins, computing(activity, self._bins), drawn))
        file = self._file
        unfinished = file.with_name(f".{file.name}.unfinished")
        try:
            unfinished.write_text(content, "utf-8")
            unfinished.replace(file)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise InputError(f"{file}: cannot be written: {error.strerror}") from None
        print(f"wrote {file}", file=sys.stderr)


def _own_and_used(facts: Session, given: Namespace) -> tuple[Thresholds, Thresholds]:
    """Return the recording's thresholds, and those to report by: with what is given instead."""
    own = thresholds_of(facts, tell=given.rejudge)
    if given.thresholds is None:
        return own, own
    if not given.rejudge:
        raise InputError("--thresholds judges a recording anew", "give --rejudge as well")
    return own, msgspec.structs.replace(own, **of_argument(given.thresholds))


def _wanted(given: str | None) -> frozenset[tuple[str, str | None]]:
    """Return the verdicts that `--fail-on` names; one without a cause stands for all of a state."""
    words = [word.strip() for word in given.split(",")] if given else []
    named = []
    for word in words:
        state, _, cause = word.partition("/")
        known = next((causes for name, causes in CAUSES.items() if name == state), None)
        if known is None:
            raise InputError(f"--fail-on: no state {state!r}", f"there are {', '.join(CAUSES)}")
        if cause and cause not in known:
            there = ", ".join(known) or "none"
            raise InputError(f"--fail-on: {state} has no cause {cause!r}", f"there are {there}")
        named.append((state, cause or None))
    return frozenset(named)


def _confirmed(found: Report, refused: frozenset[tuple[str, str | None]]) -> bool:
    """Tell whether a verdict of the job, or one that recurs, is one of some."""
    said = {(r.state, r.cause) for r in found.verdicts if r.scope == "job" and r.confirmed_at}
    said |= {(again.state, again.cause) for again in found.recurring}
    return any((state, cause) in refused or (state, None) in refused for state, cause in said)
