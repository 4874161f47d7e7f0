"""A recording for questions: its tables as polars LazyFrames, raw, as rates, and as what was said."""

from pathlib import Path

import polars as pl

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import COUNTER
from gpuwatch.errors import RecordingError
from gpuwatch.recording import schema
from gpuwatch.recording.manifest import Gap
from gpuwatch.recording.reader import Recording, open_recording
from gpuwatch.recording.session import Session

__all__ = ["Tables"]

WHOSE = ("node", "boot_id", "agent_id")
"""Who counted: another agent, or another boot, counts anew."""
REPLAYED = ("shown", "judge_state")
"""Tables that only a replay needs."""


class Tables:
    """The tables of a recording, as it is when it is opened.

    Args:
        place: a folder, or a packed recording (.gwz).

    Attributes:
        session: what it is of: job, nodes, interval, thresholds, the catalogue of metrics.

    Raises:
        RecordingError: it is no recording, or of a newer format.
    """

    def __init__(self, place: str | Path) -> None:
        self._recording: Recording = open_recording(Path(place))
        self.session: Session = self._recording.session

    @property
    def names(self) -> tuple[str, ...]:
        """What the tables are called."""
        return tuple(name for name in schema.tables() if name not in REPLAYED)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read, as far as it was asked for."""
        return self._recording.gaps

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table as it was recorded: counters are totals, what was not read is null.

        Args:
            name: one of `names`; docs/recording.md lists them with their columns.

        Raises:
            RecordingError: there is no such table.
        """
        return self._recording.table(name)

    def rates(self, name: str) -> pl.LazyFrame:
        """Return a table of readings with rates in the place of counters, by entity and time.

        Each counter `x` becomes `x_s`: its growth since the entity's row before, in its unit a second
        (`rx_bytes_s` is in B/s, `busy_ms_s` in ms/s); null in the first row, and where the counter
        began anew. All else stays as it is.

        Raises:
            RecordingError: there is no such table, or it has no readings.
        """
        if name not in catalogue.SCOPES:
            readings = ", ".join(catalogue.SCOPES)
            raise RecordingError(f"no readings in a table {name!r}", f"there are {readings}")
        whose = [*WHOSE, *(row.name for row in catalogue.LABELS[name])]
        seconds = pl.col("mono_us").diff().over(whose) / 1e6
        columns = []
        for row in catalogue.VALUES[name]:
            growth = pl.col(row.name).diff().over(whose)
            rate = pl.when((growth >= 0) & (seconds > 0)).then(growth / seconds)
            columns.append(rate.alias(f"{row.name}_s") if row.kind == COUNTER else pl.col(row.name))
        frame = self.table(name).sort(*whose, "event_no")
        return frame.select("t", "event_no", "mono_us", *whose, *columns)

    def verdicts(self) -> pl.LazyFrame:
        """Return what was said of the job, of each node and rank, and for how long.

        One row a stretch, in order: `t` is its begin, `lasted` how long it was shown, up to the end
        of the recording; `confirmed` tells suspicions apart.
        """
        who = ("scope", "node", "rank", "group")
        end = self.table("tick").select(pl.col("t").max().alias("end"))
        return (
            self.table("verdict")
            .sort("event_no", maintain_order=True)
            .join(end, how="cross")
            .with_columns(
                lasted=pl.col("t").shift(-1).over(who).fill_null(pl.col("end")) - pl.col("t")
            )
            .drop("end")
        )

    def events(self) -> pl.LazyFrame:
        """Return what else happened, in order: agents that started, links, faults, notes.

        Columns: `t`, `event_no`, `kind` (`hello`, `link`, `fault`, `marker`), `node`, `what` (the
        state of a link, the source of a fault) and `text` (why, or the note).
        """
        links = self.table("link").select(
            "t", "event_no", pl.lit("link").alias("kind"), "node",
            pl.col("state").alias("what"), pl.col("reason").alias("text"),
        )  # fmt: skip
        others = self.table("event").select(
            "t", "event_no", "kind", "node", pl.col("source").alias("what"), "text"
        )
        return pl.concat([links, others]).sort("event_no", maintain_order=True)
