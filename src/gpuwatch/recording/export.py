"""Exporting: a recording's tables as plain files, for other tools."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import polars as pl

from gpuwatch.agent import catalogue
from gpuwatch.errors import InputError, RecordingError
from gpuwatch.recording.segment import READ_ERRORS
from gpuwatch.recording.tables import Tables

__all__ = ["FORMATS", "export"]

FORMULA = r"^[=+\-@\t\r]"
"""How a text begins that a spreadsheet would take for a formula (OWASP, CSV injection)."""


def _csv(frame: pl.LazyFrame, target: IO[bytes]) -> None:
    """Write a table as text; lists are joined by `;`, and no text is a formula."""
    columns = []
    for name, kind in frame.collect_schema().items():
        column = pl.col(name)
        if kind == pl.List(pl.String):
            column = column.list.join(";")
        if kind in (pl.String, pl.List(pl.String)):
            is_formula = column.str.contains(FORMULA)
            column = pl.when(is_formula).then(pl.lit("'") + column).otherwise(column)
        columns.append(column.alias(name))
    frame.select(columns).sink_csv(target)


def _parquet(frame: pl.LazyFrame, target: IO[bytes]) -> None:
    frame.sink_parquet(target, compression="zstd")


FORMATS: Mapping[str, Callable[[pl.LazyFrame, IO[bytes]], None]] = {
    "csv": _csv,
    "parquet": _parquet,
}


def export(tables: Tables, kind: str, directory: Path, *, rates: bool) -> list[Path]:
    """Write each table that has rows as a file of its own; return the files.

    Args:
        tables: of the recording.
        kind: one of FORMATS.
        directory: new or empty.
        rates: whether counters become rates.

    Raises:
        InputError: the directory is not empty.
        RecordingError: it cannot be written, or a table cannot be read.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise InputError(f"{directory}: is not empty", "name another directory")
        return [
            _write(frame, FORMATS[kind], directory / f"{name}.{kind}")
            for name, frame in _frames(tables, rates=rates)
        ]
    except OSError as error:
        raise RecordingError(f"{directory}: cannot be written: {error.strerror}") from None


def _frames(tables: Tables, *, rates: bool) -> list[tuple[str, pl.LazyFrame]]:
    """Return the tables that have rows."""
    found = []
    for name in tables.names:
        is_rated = rates and name in catalogue.SCOPES
        frame = tables.rates(name) if is_rated else tables.table(name)
        try:
            if tables.table(name).select(pl.len()).collect().item():
                found.append((name, frame))
        except READ_ERRORS as error:
            raise RecordingError(f"table {name}: {str(error).splitlines()[0]:.200}") from None
    return found


def _write(
    frame: pl.LazyFrame, write: Callable[[pl.LazyFrame, IO[bytes]], None], file: Path
) -> Path:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        write(frame, target)
    return file
