"""All checks, in the order in which they run: what only reads first, what loads most last."""

from gpuwatch.preflight.check import Check
from gpuwatch.preflight.checks import (
    all_reduce,
    bandwidth,
    checkpoint,
    fit,
    host,
    links,
    roce,
    round_trip,
    small_files,
    storage,
)

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    links.CHECK, roce.CHECK, host.CHECK, round_trip.CHECK, bandwidth.CHECK, all_reduce.CHECK, storage.CHECK,
    small_files.CHECK, checkpoint.CHECK, fit.CHECK,
)  # fmt: skip
