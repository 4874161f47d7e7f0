"""The filter: which nodes are shown, in a few words that a person types.

    gpu0 state:storage,network gpu:fault loss>0.1 disk>20 !compute

All words must be true of a node; `!` turns one around; a comma parts alternatives. A plain word is
looked for in the node's name, its state, cause and culprit. A value that could not be read is
neither above nor below anything.
"""

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gpuwatch.model.view import NodeView
from gpuwatch.tui.paint.pane import status
from gpuwatch.tui.paint.words import GPU_LETTERS, computing
from gpuwatch.tui.scene import Scene

__all__ = ["FIELDS", "Filter", "read"]

LONGEST = 200
"""Characters of a filter."""

Test = Callable[[Scene, NodeView], bool]


class Field(NamedTuple):
    """A number of a node, or several of its GPUs, of which one must do."""

    unit: str
    values: Callable[[Scene, NodeView], Iterable[float | None]]


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was understood."""

    text: str
    tests: tuple[Test, ...]

    def shows(self, scene: Scene, node: NodeView) -> bool:
        """Tell whether a node is shown."""
        return all(test(scene, node) for test in self.tests)


def _percent(value: float | None) -> float | None:
    return None if value is None else value * 100


def _net(scene: Scene, node: NodeView) -> float | None:
    nic = scene.facts(node).nic
    return None if nic is None else (nic.down + nic.up) * 8e-9


def _disk(scene: Scene, node: NodeView) -> float | None:
    disk = scene.facts(node).disk
    return None if disk is None else disk.await_ms


FIELDS = {
    "compute": Field("%", lambda s, n: (_percent(computing(s.by_node.get(n.name))),)),
    "util": Field("%", lambda s, n: (g.util if g.util is None else g.util * 100 for g in s.facts(n).gpus)),
    "power": Field("W", lambda s, n: (g.power_w for g in s.facts(n).gpus)),
    "temp": Field("C", lambda s, n: (g.temperature_c for g in s.facts(n).gpus)),
    "net": Field("Gb/s", lambda s, n: (_net(s, n),)),
    "loss": Field("%", lambda s, n: (_percent(s.facts(n).loss),)),
    "disk": Field("ms", lambda s, n: (_disk(s, n),)),
    "cpu": Field("%", lambda s, n: (_percent(s.facts(n).cpu),)),
    "iowait": Field("%", lambda s, n: (_percent(s.facts(n).iowait),)),
    "kwork": Field("%", lambda s, n: (_percent(s.facts(n).kworker),)),
    "age": Field("s", lambda _, n: (None if n.age_us is None else n.age_us / 1e6,)),
}  # fmt: skip
"""Numbers that can be compared, by the names that the columns have."""


def _cause(scene: Scene, node: NodeView) -> str:
    verdict = scene.by_node.get(node.name)
    return "" if verdict is None else verdict.cause or ""


_WORDS: dict[str, Callable[[Scene, NodeView], str]] = {
    "node": lambda _, node: node.name,
    "state": lambda scene, node: status(scene, node)[0].partition(" ")[0],
    "cause": _cause,
    "gpu": lambda scene, node: " ".join(GPU_LETTERS[g.letter] for g in scene.facts(node).gpus),
}
"""Words that can be looked for by themselves."""

_ORDER = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
_COMPARED = re.compile(r"([a-z]+)(<=|>=|<|>|=)(-?\d{1,12}(?:\.\d{1,6})?)([a-zA-Z%/]*)")


def read(text: str) -> Filter | None:
    """Return what a person typed as a filter; None of nothing.

    Raises:
        ValueError: it is not understood; says what.
    """
    words = text[:LONGEST].lower().split()
    return Filter(text.strip(), tuple(_test(word) for word in words)) if words else None


def _test(word: str) -> Test:
    if word.startswith("!"):
        inner = _test(word[1:])
        return lambda scene, node: not inner(scene, node)
    if not word:
        raise ValueError("a word is wanted after !")
    if re.search("[<>=]", word):
        return _compared(word)
    name, colon, rest = word.partition(":")
    if colon and name not in _WORDS:
        raise ValueError(f"no {name!r}: there are {', '.join(_WORDS)}")
    options = [option for option in (rest if colon else word).split(",") if option]
    if not options:
        raise ValueError(f"a word is wanted after {word!r}")
    said = _WORDS[name] if colon else _words
    return lambda scene, node: any(option in said(scene, node).lower() for option in options)


def _words(scene: Scene, node: NodeView) -> str:
    return f"{node.name} {status(scene, node)[0]}"


def _compared(word: str) -> Test:
    found = _COMPARED.fullmatch(word)
    field = FIELDS.get(found[1]) if found else None
    if found is None or field is None:
        raise ValueError(f"{word!r} is no comparison: there are {', '.join(FIELDS)}")
    if found[4] and found[4] != field.unit.lower():
        raise ValueError(f"{found[1]} is in {field.unit}")
    holds, bound = _ORDER[found[2]], float(found[3])
    return lambda scene, node: any(
        value is not None and holds(value, bound) for value in field.values(scene, node)
    )
