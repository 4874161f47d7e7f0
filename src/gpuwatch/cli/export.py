"""`gpuwatch export`: a recording's tables as plain files."""

import sys
from argparse import Namespace
from pathlib import Path

import gpuwatch
from gpuwatch.recording.export import export as exported

__all__ = ["export"]


def export(given: Namespace) -> int:
    """Write the tables, and name the files."""
    tables = gpuwatch.open(given.recording)
    for file in exported(tables, given.format, Path(given.out), rates=given.rates):
        sys.stdout.write(f"{file}\n")
    for gap in tables.gaps:
        sys.stderr.write(f"gpuwatch: not in it: {gap.reason!a:.300}\n")
    return 0
