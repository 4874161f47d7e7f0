"""Judges the lab's recordings anew with the code as it is now, and scores them again.

    python tests/lab/rescore.py                 # all that build/lab has
    python tests/lab/rescore.py net-loss --dir DIR

Nothing is run and nothing is written. What a change makes of verdicts shows in seconds; what it would have made of
the job does not show, nor does what an older agent did not read.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpuwatch import recording
from gpuwatch.engine.run import run
from gpuwatch.errors import InputError
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.progress import expressions_of
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.verdict.judge import Judge
from lab import table
from lab.scenarios import SCENARIOS
from lab.score import Seen, score
from lab.watch import Result


class _Shown:
    """A sink that keeps every verdict with the time of its tick."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def event(self, event: AnyEvent) -> None:
        """Take nothing of it."""

    def judged(self, tick: Tick, view: View, verdict: JobVerdict) -> None:
        """Keep it."""
        self.seen.append(Seen(tick.arrived_us / 1e6, verdict))


def judged_anew(directory: Path) -> list[Seen]:
    """Return what today's judge, with its default thresholds, says of a recording.

    Raises:
        RecordingError: when it cannot be read.
    """
    kept = recording.open(directory)
    shown = _Shown()

    async def feed() -> AsyncIterator[AnyEvent]:
        for event in kept.events():
            yield event

    facts = kept.session
    cluster = Cluster(facts.nodes, facts.interval_s, expressions_of(facts.job_file))
    asyncio.run(run(feed(), cluster, Judge(), [shown]))
    return shown.seen


def rescored(file: Path) -> tuple[Result, Result]:
    """Return a result as it is stored, and as its recording is judged now.

    Raises:
        InputError: when the recording beside the file cannot be read, or is of another run.
    """
    stored = msgspec.json.decode(file.read_bytes(), type=Result)
    seen = judged_anew(file.with_suffix(""))
    if not any(stored.truth.begin_s <= one.at_s < stored.truth.end_s for one in seen):
        raise InputError("its recording is of another run")
    now = score(SCENARIOS[stored.scenario], stored.truth, seen)
    return stored, msgspec.structs.replace(stored, score=now)


def main(given: Sequence[str] | None = None) -> int:
    """Score anew what the command line names; exit status 1: some could not be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", nargs="*", help="all that are there when none is named")
    parser.add_argument("--dir", type=Path, default=Path("build/lab"))
    args = parser.parse_args(given)
    files = sorted(args.dir.glob("*.json"))
    if unknown := {*args.scenario} - SCENARIOS.keys():
        parser.error(f"no scenario {unknown.pop()!r}")
    if args.scenario:
        files = [args.dir / f"{name}.json" for name in args.scenario]
    pairs = []
    for file in files:
        try:
            pairs.append(rescored(file))
        except (InputError, OSError, msgspec.DecodeError) as error:
            print(f"{file}: cannot be scored anew: {error!s:.300}", file=sys.stderr)
    if pairs:
        now = [result for _, result in pairs]
        print(table.whole(now))
        print(f"\nChanged, as scored when it was run -> as scored now:\n{table.changes(pairs)}")
    return int(len(pairs) < len(files) or not pairs)


if __name__ == "__main__":
    sys.exit(main())
