"""How soon a long recording of many nodes opens, seeks and is told.

    python bench/days.py [HOURS [NODES [FOLDER]]]

Ten minutes of nodes of eight GPUs, drawn from a recording of the lab (`drawn.py`: calm, and a fault of
a minute), are judged and recorded as ever. An hour is six times these, merged, and the days are that
hour again and again with clocks and numbers that go on; counters begin anew every ten minutes, and
in the evidence that a replay shows some instants are those of the first ten. FOLDER keeps the
recording, and is used again when it is there.
"""

import argparse
import asyncio
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import IO

import polars as pl
import psutil

import gpuwatch.recording
from drawn import Job
from gpuwatch.engine.run import run
from gpuwatch.feed.replay import RecordedJudge, Replay
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import AnyEvent, Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.model.view import View
from gpuwatch.recording import Limits, manifest, merge, segment, session
from gpuwatch.recording.manifest import Entry, Extent, Manifest, Table
from gpuwatch.recording.merge import BLOCK_BYTES, BLOCK_ROWS
from gpuwatch.recording.store import Folder
from gpuwatch.tui.recorded import first_wait
from recording import record

SOURCE = Path(__file__).parents[1] / "recordings/net-loss"
CALM = range(3, 34)
FAULT = range(2, 118)
"""Seconds of the source."""
BASE_S, HOUR_S = 600, 3600
SEEKS = 5
OPEN_S, SEEK_MS, REPORT_S, REPORT_MB = 1.0, 150.0, 10.0, 1000.0
"""Budgets."""
CLOCKS = ("arrived_us", "mono_us", "node_wall_us", "suspected_us", "confirmed_us")
NUMBERS = ("event_no", "last_event_no")


def order() -> list[int]:
    """Return the seconds of ten minutes: calm but for one fault."""
    calm = [*CALM] * 16
    return [*calm[:300], *FAULT, *calm][:BASE_S]


def base(place: Path, nodes: int) -> Entry:
    """Record ten minutes, and merge them; return the segment."""
    record(place, Job(SOURCE, nodes, order=order()), BASE_S, Limits(queue=1 << 16, merge_us=()))
    sealed = manifest.read(Folder(place))[0]
    (place / manifest.FILE).unlink()
    lines = Manifest(place)
    try:
        for number in sorted(sealed):
            lines.commit(sealed[number])
        return merge.merge(place, [sealed[number] for number in sorted(sealed)], lines)
    finally:
        lines.close()


def shifted(file: Path, times: int, made: Entry) -> pl.LazyFrame:
    """Return a table of the base, so many times its length later."""
    reach = made.extent
    assert reach is not None
    later_us = times * (reach.to_us - reach.from_us + 1_000_000)
    by = dict.fromkeys(CLOCKS, later_us) | dict.fromkeys(NUMBERS, times * (reach.last_event_no + 1))
    by["sequence"] = times * BASE_S
    rows = pl.scan_parquet(file)
    columns = rows.collect_schema().names()
    return rows.with_columns(
        pl.col("t") + pl.duration(microseconds=later_us),
        *(pl.col(name) + more for name, more in by.items() if name in columns),
    )


def hour(source: Path, made: Entry, lines: Manifest, place: Path, number: int) -> None:
    """Write an hour: six times the base."""
    reach = made.extent
    assert reach is not None
    turns = range(6 * number, 6 * number + 6)
    events, length_us = reach.last_event_no + 1, reach.to_us - reach.from_us + 1_000_000
    entry = Entry(
        segment=60 * (number + 1),
        extent=Extent(
            turns[0] * events, turns[-1] * events + reach.last_event_no,
            reach.from_us + turns[0] * length_us, reach.to_us + turns[-1] * length_us,
        ),
        judge_states=tuple(no + turn * events for turn in turns for no in made.judge_states),
        tables={}, first=60 * number + 1, confirmed=True,
    )  # fmt: skip

    def written(aside: Path) -> dict[str, Table]:
        found = {}
        for name, table in made.tables.items():
            file = segment.path(source, made) / f"{name}.parquet"
            parts = [shifted(file, turn, made) for turn in turns if name != "event" or turn == 0]
            if parts:
                found[name] = segment.write_table(
                    aside / f"{name}.parquet", partial(sink, pl.concat(parts)), lambda: 0
                )
                found[name] = Table(table.rows * len(parts), found[name].bytes, found[name].sha256)
        return found

    tables = segment.put(segment.path(place, entry), written)
    lines.commit(
        Entry(**{f: getattr(entry, f) for f in entry.__struct_fields__} | {"tables": tables})
    )


def sink(rows: pl.LazyFrame, target: IO[bytes]) -> None:
    """Write a table as a merge does, with less zeal."""
    rows.sink_parquet(
        target, compression="zstd", compression_level=3,
        row_group_size=BLOCK_ROWS, data_page_size=BLOCK_BYTES,
    )  # fmt: skip


def generate(place: Path, hours: int, nodes: int) -> None:
    """Make the recording."""
    with tempfile.TemporaryDirectory(dir=place.parent) as name:
        source = Path(name) / "base"
        made = base(source, nodes)
        aside = Path(name) / "days"
        (aside / "seg").mkdir(parents=True)
        (aside / "wal").mkdir()
        shutil.copy(source / session.FILE, aside)
        lines = Manifest(aside)
        for number in range(hours):
            hour(source, made, lines, aside, number)
        lines.close()
        aside.rename(place)


class Arrival:
    """A sink that notes when the tick that was sought is judged, and seeks the next."""

    def __init__(self, replay: Replay, targets: list[int]) -> None:
        self.took_ms: list[float] = []
        self._replay = replay
        self._targets = targets
        self._target_us = 0
        self._began = 0.0
        self.next()

    def next(self) -> None:
        """Seek the next, or end."""
        if not self._targets:
            self._replay.close()
            return
        self._target_us = self._targets.pop()
        self._began = time.perf_counter()
        self._replay.seek(self._target_us)

    def event(self, event: AnyEvent) -> None:
        """Take nothing of it."""

    def judged(self, tick: Tick, _view: View, _verdict: JobVerdict) -> None:
        """Note the time, where it is what was sought."""
        if tick.wall_us >= self._target_us:
            self.took_ms.append((time.perf_counter() - self._began) * 1000)
            self.next()


async def look(place: Path) -> None:
    """Print how soon it opens, and how soon it seeks: the first time in an hour, and again there."""
    began = time.perf_counter()
    recording = gpuwatch.recording.open(place)
    replay = Replay(recording, None)
    first_wait(recording)
    opened_s = time.perf_counter() - began
    begin_us, end_us = replay.span
    chance = random.Random(1)
    far = [chance.randrange(begin_us + 60_000_000, end_us) for _ in range(SEEKS)]
    targets = [us + step for us in far for step in (60_000_000, 0)]
    arrival = Arrival(replay, targets)
    facts = recording.session
    while not replay.closed:
        await run(
            replay.play(), Cluster(facts.nodes, facts.interval_s), RecordedJudge(replay), [arrival]
        )
    first, again = arrival.took_ms[::2], arrival.took_ms[1::2]
    print(row("opens, and finds the first incident", f"{opened_s:.2f} s", f"{OPEN_S:.0f} s"))
    print(row("seeks into another hour", f"{statistics.median(first):.0f} ms", f"{SEEK_MS:.0f} ms"))
    print(row("seeks a minute on", f"{statistics.median(again):.0f} ms", f"{SEEK_MS:.0f} ms"))
    print(row("memory of that", f"{peak_mb(os.getpid()):.0f} MB", f"{REPORT_MB:.0f} MB"))


def peak_mb(pid: int) -> float:
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000


def told(place: Path, *options: str) -> tuple[float, float]:
    """Return how long a report takes, and the most memory that it has."""
    began, most = time.perf_counter(), 0.0
    command = [sys.executable, "-m", "gpuwatch", "report", str(place), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        while child.poll() is None:
            most = max(most, psutil.Process(child.pid).memory_info().rss / 1e6)
            time.sleep(0.05)
    return time.perf_counter() - began, most


def row(name: str, value: str, budget: str) -> str:
    """Return one line of the table."""
    return f"| {name} | {value} | {budget} |"


def main() -> int:
    """Print the table."""
    if sys.argv[1:2] == ["look"]:
        asyncio.run(look(Path(sys.argv[2])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hours", type=int, nargs="?", default=24)
    parser.add_argument("nodes", type=int, nargs="?", default=64)
    parser.add_argument("folder", type=Path, nargs="?")
    given = parser.parse_args()
    hours, nodes = given.hours, given.nodes
    with tempfile.TemporaryDirectory() as name:
        place = given.folder or Path(name) / "days"
        if not place.exists():
            generate(place, hours, nodes)
        size = sum(e.bytes for e in manifest.read(Folder(place))[0].values()) / 1e9
        print(
            f"{hours} h of {nodes} nodes of 8 GPUs, {size:.1f} GB\n\n| | measured | budget |\n|---|---:|---:|"
        )
        subprocess.run([sys.executable, __file__, "look", str(place)], check=True)
        for title, options in (("report", ()), ("report --json", ("--json",))):
            took_s, most_mb = told(place, *options)
            print(row(title, f"{took_s:.1f} s", f"{REPORT_S:.0f} s"))
            print(row(f"memory of {title}", f"{most_mb:.0f} MB", f"{REPORT_MB:.0f} MB"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
