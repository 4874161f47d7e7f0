"""What a scenario of the lab is: nodes, what goes wrong on them, and what may be said of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from lab.node import Node

HEALTHY = ("COMPUTE",)


@dataclass(frozen=True)
class Accept:
    """What may be said of a node or the job while a fault lasts; the first word says it best.

    `words` are as reports write them, a state or state/cause; `NETWORK/*` takes any cause or none.
    `early` are words that are right as well until `early_s` after onset, while nobody can know more.
    """

    words: tuple[str, ...]
    reason: str
    early: tuple[str, ...] = ()
    early_s: float = 0.0

    def takes(self, word: str, after_s: float = math.inf) -> bool:
        """Tell whether a verdict's word is acceptable so long after onset."""
        state = word.partition("/")[0]
        words = (*self.words, *self.early) if after_s < self.early_s else self.words
        return word in words or f"{state}/*" in words


WELL = Accept(HEALTHY, "nothing is wrong, and what a healthy step exchanges is no wait")
WAITS = Accept(("PEER",), "it is well and waits in the collective for the node with the fault")


class Fault(Protocol):
    """Something that goes wrong at a known instant, and can be seen with plain tools."""

    @property
    def name(self) -> str:
        """What it is called."""

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return a figure that shows it; raise RuntimeError where it is not there."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One row of the lab.

    Attributes:
        kind: `uml` for nodes with a kernel each, `host` for namespaces on this one.
        nodes: how many; they are called gpu01, gpu02 and so on.
        ranks: on each node, with a GPU each.
        data: where the data set lies.
        gradients: bytes that each step reduces.
        job: what may be said of the job during the fault.
        on: what may be said of single nodes; of all others `rest`.
        culprits: ids that may be named; naming another is wrong. None: whoever is named, it is
            wrong.
        options: of the trainer from the start (see `control.Control`).
        from_start: the job starts while it is watched, and that is what is judged.
        recurring: what must be told as recurring, because it is too short for a verdict.
    """

    name: str
    kind: Literal["uml", "host"]
    nodes: int
    ranks: int = 1
    faults: tuple[Fault, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    data: Literal["disk", "nfs", "fuse", "object"] = "disk"
    gradients: float = 2e6
    healthy_s: int = 21
    fault_s: int = 40
    after_s: int = 0
    job: Accept = WELL
    on: dict[str, Accept] = field(default_factory=dict)
    rest: Accept = WAITS
    culprits: tuple[str, ...] = ()
    from_start: bool = False
    recurring: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(f"gpu{number:02}" for number in range(1, self.nodes + 1))

    def accepts(self, subject: str) -> Accept:
        """Return what may be said of the job ("job") or of a node during the fault."""
        return self.job if subject == "job" else self.on.get(subject, self.rest)
