"""Rates over time: growth between readings of one agent; resets, pauses and absences count for nothing."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

import gpuwatch.recording
from gpuwatch.errors import RecordingError
from gpuwatch.recording import schema
from gpuwatch.recording.reader import Recording
from gpuwatch.report.series import (
    NETWORK,
    RETRANSMITS,
    STORAGE_BYTES,
    STORAGE_LATENCY,
    Bins,
    measured,
)

SECOND = 1_000_000
TEN = Bins(0, 10 * SECOND, 6)
MBYTE = 1_000_000


def recording(**tables: list[dict[str, Any]]) -> Recording:
    """Return a recording of these rows, a second apart where no `at` says otherwise."""
    frames = {}
    for name, rows in tables.items():
        whole = [
            {
                "node": "n1", "agent_id": "a", "event_no": number, **row,
                "t": row.get("at", number) * SECOND, "mono_us": row.get("at", number) * SECOND,
            }
            for number, row in enumerate(rows)
        ]  # fmt: skip
        columns = schema.schema(name)
        frame = pl.DataFrame(
            whole, schema_overrides={k: v for k, v in columns.items() if k in whole[0]}
        )
        missing = [
            pl.lit(None, dtype).alias(k) for k, dtype in columns.items() if k not in whole[0]
        ]
        frames[name] = frame.with_columns(missing).lazy()
    empty = {name: pl.LazyFrame(schema=schema.schema(name)) for name in schema.tables()}
    return cast("Recording", SimpleNamespace(table=lambda name: (empty | frames)[name]))


def disk(second: int, **values: object) -> dict[str, Any]:
    return {
        "disk": "sda",
        "layer": "disk",
        "read_bytes": second * MBYTE,
        "write_bytes": 0,
        **values,
    }


def values(found: list[Any]) -> dict[tuple[str | None, str | None], list[float | None]]:
    return {(s.node, s.entity): [v and round(v, 6) for v in s.values] for s in found}


def test_a_reset_a_pause_another_agent_and_a_bin_without_a_reading_count_for_nothing() -> None:
    rows = [disk(second) for second in range(10)]
    rows += [disk(second, read_bytes=(second - 10) * MBYTE) for second in range(10, 20)]
    rows += [
        disk(second, agent_id="b", read_bytes=5 * second * MBYTE, at=second + 20)
        for second in range(20, 30)
    ]
    found = values(measured(recording(disk=rows), STORAGE_BYTES, TEN))
    assert found == {("n1", "sda"): [1.0, 0.9, None, None, 5.0, None]}


def test_what_is_mapped_is_not_counted_again() -> None:
    found = measured(
        recording(disk=[disk(s, layer="mapped") for s in range(9)]), STORAGE_BYTES, TEN
    )
    assert found == []


def test_latency_is_time_by_requests_and_nothing_without_any() -> None:
    rows = [
        {
            "mount": "/data",
            "read_ops": 2 * s,
            "read_exe_ms": 60 * s,
            "meta_ops": s,
            "meta_exe_ms": 3 * s,
        }
        for s in (*range(10), *[9] * 10)
    ]
    found = values(measured(recording(mount=rows), STORAGE_LATENCY, TEN))
    assert found == {("n1", "/data"): [21.0, None, None, None, None, None]}


def test_retransmits_are_less_probes_and_few_segments_tell_nothing() -> None:
    rows = [
        {"tcp_out_segs": 100 * s, "tcp_retrans_segs": 3 * s, "tcp_loss_probes": s}
        for s in range(10)
    ] + [
        {"tcp_out_segs": 901 + s, "tcp_retrans_segs": 27 + s, "tcp_loss_probes": 9}
        for s in range(9)
    ]
    found = values(measured(recording(node=rows), RETRANSMITS, TEN))
    assert found["n1", None][:3] == [2.0, None, None]


def test_the_busiest_port_stands_for_a_node_and_nodes_add_up() -> None:
    rows = [
        {
            "event_no": s,
            "node": node,
            "nic": nic,
            "rx_bytes": rate * s * MBYTE,
            "tx_bytes": 0,
            "at": s,
        }
        for s in range(10)
        for node, nic, rate in (("n1", "bond0", 7), ("n1", "eth0", 6), ("n2", "eth0", 2))
    ]
    of = recording(nic=rows)
    assert set(values(measured(of, NETWORK, TEN))) == {("n1", "bond0"), ("n2", "eth0")}
    (whole,) = measured(of, NETWORK, TEN, by_node=False)
    assert whole.values[0] == pytest.approx(9.0)


def test_nodes_that_mount_one_path_are_pooled() -> None:
    rows = [
        {
            "event_no": s,
            "node": node,
            "mount": "/data",
            "read_ops": ops * s,
            "read_exe_ms": ms * s,
            "at": s,
        }
        for s in range(10)
        for node, ops, ms in (("n1", 9, 9), ("n2", 1, 91))
    ]
    (pooled,) = measured(recording(mount=rows), STORAGE_LATENCY, TEN, by_node=False)
    assert (pooled.node, pooled.entity) == (None, "/data")
    assert pooled.values[0] == pytest.approx(10.0)


def test_a_real_loss_is_seen_where_and_when_it_was() -> None:
    real = gpuwatch.recording.open(Path(__file__).parents[2] / "recordings" / "net-loss")
    begin_us, end_us = real.span()
    bins = Bins(begin_us, (end_us - begin_us) // 4, 4)
    found = values(measured(real, RETRANSMITS, bins))
    before, *during, _ = found["gpu02", None]
    assert before == 0
    assert all(value is not None and 2 < value < 15 for value in during)
    assert all((value or 0) < 0.1 for node in ("gpu01", "gpu03") for value in found[node, None])


def test_a_counter_that_is_read_seldom_has_counted_on() -> None:
    rows = [disk(s, read_bytes=s * MBYTE if s % 5 == 0 else None) for s in range(60)]
    (found,) = values(measured(recording(disk=rows), STORAGE_BYTES, TEN)).values()
    assert [value and round(value, 1) for value in found[1:]] == [1.0] * 5


def test_a_wide_bin_is_as_exact_from_some_of_its_readings() -> None:
    rows = [disk(second) for second in range(1200)]
    (found,) = measured(recording(disk=rows), STORAGE_BYTES, Bins(0, 600 * SECOND, 2))
    assert all(value == pytest.approx(1.0) for value in found.values)


def test_a_table_that_is_none_is_told_in_words(tmp_path: Path) -> None:
    file = tmp_path / "disk.parquet"
    file.write_bytes(b"PAR1" + b"x" * 100 + b"PAR1")
    lazy = pl.scan_parquet(file, schema=schema.schema("disk"))
    of = cast("Recording", SimpleNamespace(table=lambda _: lazy))
    with pytest.raises(RecordingError, match="a table of the recording cannot be read"):
        measured(of, STORAGE_BYTES, TEN)
