"""The queries of docs/recording.md, run as they stand there."""

import re
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "recording.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(python|sql)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def at_the_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def frame_of(language: str, query: str) -> pl.DataFrame:
    if language == "sql":
        answer = duckdb.sql(query)
        return pl.DataFrame(answer.fetchall(), schema=answer.columns, orient="row")
    found: dict[str, Any] = {}
    exec(query, found)
    (frame,) = (value for value in found.values() if isinstance(value, pl.DataFrame))
    return frame


def test_queries_for_polars_and_duckdb_answer() -> None:
    rates, spent, lost, confirmed = (frame_of(*block) for block in BLOCKS)
    assert rates["rx_mb_s"].max() > 1  # type: ignore[operator]
    assert ("gpu02", "NETWORK", "loss") in spent.select("node", "state", "cause").rows()
    lasted = spent.group_by("node").agg(pl.col("seconds").sum()).sort("node")["seconds"].to_list()
    assert len(lasted) == 3
    assert max(lasted) - min(lasted) <= 2  # every second of each node is in one state
    assert min(lasted) > 60
    again = dict(lost.select("node", "sent_again").rows())
    assert again["gpu02"] > 100 * max(again["gpu01"], again["gpu03"])
    assert {("NETWORK", "loss")} <= set(confirmed.select("state", "cause").rows())
