"""Thresholds that are given on the command line: pairs, or a file of them."""

from pathlib import Path

from gpuwatch.errors import InputError
from gpuwatch.job.document import read_text, tree
from gpuwatch.job.given import exists
from gpuwatch.verdict.thresholds import parse

__all__ = ["of_argument"]

_OPTION = "--thresholds"


def of_argument(given: str) -> dict[str, float]:
    """Return thresholds by name, as the judge keeps them.

    Args:
        given: `retransmit=0.5%,lost=20%`, or a YAML file of names and values; of a job file its
            `thresholds:` count.

    Raises:
        InputError: no such file, threshold or value; says what is allowed.
    """
    is_file = "=" not in given or exists(given)
    return _of_file(Path(given)) if is_file else _of_pairs(given)


def _of_pairs(given: str) -> dict[str, float]:
    found = {}
    for pair in given.split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        if name in found:
            raise InputError(f"{_OPTION}: {name} is given twice")
        try:
            found[name] = parse(name, value)
        except ValueError as error:
            raise InputError(f"{_OPTION}: {error}") from None
    return found


def _of_file(file: Path) -> dict[str, float]:
    table = tree(file, read_text(file)).table()
    items = table["thresholds"].table() if "thresholds" in table else table
    found = {}
    for name, item in items.items():
        try:
            found[name] = parse(name, item.text())
        except ValueError as error:
            raise item.wrong(str(error)) from None
    return found
