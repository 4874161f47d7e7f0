"""`gpuwatch compare`: two recordings side by side, as text or JSON."""

import sys
from argparse import Namespace

import msgspec

import gpuwatch.recording
from gpuwatch.cli.reading import Reading, thresholds_of
from gpuwatch.report.build import build
from gpuwatch.report.compare import compare as compared
from gpuwatch.report.sides import Observer, Side, pieces
from gpuwatch.report.sidetext import text

__all__ = ["compare"]


def compare(given: Namespace) -> int:
    """Tell what changed from one recording to the other."""
    found = compared(_side(given.before), _side(given.after))
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n" if given.json else text(found))
    return 0


def _side(folder: str) -> Side:
    recording = gpuwatch.recording.open(folder)
    read = Reading(recording, None, None)
    subject = read.subject(thresholds_of(recording.session, tell=False))
    observer = Observer(pieces(*read.span_us), subject.interval_s)
    report = build(subject, observer.watched(read.as_shown(())), read.events(), read.damage())
    return observer.side(report, recording)
