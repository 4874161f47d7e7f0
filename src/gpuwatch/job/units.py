"""Values with a unit, as people write them: `1s`, `5GB`, `25Gbit`."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from gpuwatch.errors import InputError

__all__ = ["BIT_RATES", "BYTES", "GRADIENTS", "PARAMETERS", "SECONDS", "number", "scaled"]

SECONDS: Mapping[str, float] = MappingProxyType(
    {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
)
BYTES: Mapping[str, float] = MappingProxyType(
    {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
)
BIT_RATES: Mapping[str, float] = MappingProxyType({"Mbit": 1e6, "Gbit": 1e9, "Tbit": 1e12})
PARAMETERS: Mapping[str, float] = MappingProxyType({"": 1, "M": 1e6, "B": 1e9, "T": 1e12})
GRADIENTS: Mapping[str, int] = MappingProxyType({"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1})
"""Types of gradients, and their bytes."""

_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*(\S{0,16})", re.ASCII)


def number(text: str) -> float:
    """Return a plain number, zero or more.

    Raises:
        InputError: it has a unit, or is none.
    """
    value, unit = _split(text)
    if unit:
        raise InputError(f"{text!r} is not a plain number")
    return value


def scaled(text: str, units: Mapping[str, float]) -> float:
    """Return a quantity in its base unit (seconds, bytes, bits a second).

    Raises:
        InputError: no number, or a unit that is not one of `units`.
    """
    value, unit = _split(text)
    if unit not in units:
        raise InputError(f"{text!r} has no unit of: {', '.join(units)}")
    return value * units[unit]


def _split(text: str) -> tuple[float, str]:
    found = _QUANTITY.fullmatch(text)
    if not found:
        raise InputError(f"{text!r} is not a number with a unit")
    return float(found[1]), found[2]
