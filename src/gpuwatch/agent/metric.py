"""A metric is declared once, as a row; wire, Parquet, screen and docs derive from it.

Names carry their unit. A counter is stored as it came (absolute); rates are derived by the
viewer. A label names an entity (a NIC, a rank) and travels apart from the values.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

LABEL = "label"
COUNTER = "counter"
GAUGE = "gauge"

Label = Union[int, str, None]
Value = Union[int, float, None]
Labels = Tuple[Label, ...]
Values = Tuple[Value, ...]

INT64_MAX = 2**63 - 1


class Metric(NamedTuple):
    """One row of the catalogue.

    Attributes:
        name: with its unit (`rx_bytes`, `power_w`); unique in its scope.
        scope: the table that it belongs to (`node`, `gpu`, `nic`, ...).
        kind: LABEL, COUNTER (never decreases but by reset) or GAUGE.
        type: "int", "float" or "str" (labels only).
        unit: as shown on screens ("B", "W", "1" for a plain number).
        locator: where the source finds it; the source's reader is driven by this.
        meaning: one sentence.
        scale: what the raw reading is multiplied by.
        low: smallest sane value after scaling; smaller is dropped and counted.
        high: largest sane value after scaling; larger is dropped and counted.
        ceiling: gauge of the same scope, and factor: a counter that grew by more than their product
            in a second was misread.
    """

    name: str
    scope: str
    kind: str
    type: str
    unit: str
    locator: str
    meaning: str
    scale: float = 1
    low: float = 0
    high: float = INT64_MAX
    ceiling: Optional[Tuple[str, float]] = None

    def sane(self, value: Value) -> bool:
        """Tell whether a value is of this row's type and inside its bounds."""
        return value is None or self.low <= value <= self.high


class Reading(NamedTuple):
    """What one source read at one instant.

    Attributes:
        rows: (scope, labels, values); labels and values in the order in which the source
            declares that scope's rows; None is missing, never zero.
        missing: subject (source, or source.metric) to the reason why it could not be read.
    """

    rows: List[Tuple[str, Labels, Values]]
    missing: Dict[str, str]


class Absent(Exception):
    """This node does not have what the source reads: expected, told once, not a fault."""


def declared(rows: Tuple[Metric, ...], scope: str) -> Tuple[Metric, ...]:
    """Return the values (not labels) that a source declares for one scope, in order."""
    return tuple(r for r in rows if r.scope == scope and r.kind != LABEL)


def number(text: Any, row: Metric) -> Value:
    """Turn a raw reading into the row's type and unit; None where that cannot be done.

    Args:
        text: bytes, str or a number, as read.
        row: the row whose type, scale and bounds apply.
    """
    value = _parse(text)
    if value is None:
        return None
    scaled = value * row.scale if row.scale != 1 else value
    if row.type == "int":
        scaled = int(scaled)
    return scaled if row.sane(scaled) else None


def fill(rows: Tuple[Metric, ...], found: Mapping[str, Any]) -> Values:
    """Return one value a row: what was found under its locator, None where nothing was.

    Args:
        rows: of one scope, without labels.
        found: locator to the raw reading.
    """
    return tuple(
        None if found.get(row.locator) is None else number(found[row.locator], row) for row in rows
    )


def _parse(text: Any) -> Optional[Union[int, float]]:
    if type(text) is int:
        return text
    if isinstance(text, (int, float)):
        return text if text == text and abs(text) != float("inf") else None
    if len(text) > 40:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value and abs(value) != float("inf") else None
