"""What was said and what happened, as it is read of a part: without readings, and without JSON a tick."""

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

import msgspec
import polars as pl

from gpuwatch.model.verdict import CAUSES, Culprit, Recurring, Verdict
from gpuwatch.recording import rows
from gpuwatch.recording.chunk import SCOPES, Judged, Part, Stretch
from gpuwatch.recording.stretches import Evidence

__all__ = ["part"]

_CULPRITS = msgspec.json.Decoder(tuple[Culprit, ...])
_EVIDENCE = msgspec.json.Decoder(Evidence)
_RECURRING = msgspec.json.Decoder(tuple[Recurring, ...])
_NONE = Evidence()


def part(laid: Mapping[str, pl.DataFrame], evidence: Collection[str]) -> Part:
    """Return what tables tell: `tick`, `judged`, `stretch`, `link` and `event`, as far as they are there.

    Args:
        laid: by name.
        evidence: the scopes whose verdicts are wanted with evidence.

    Raises:
        ValueError: a cell does not hold what its column says.
    """
    return Part(
        list(_judged(laid["tick"], laid["judged"])) if {"tick", "judged"} <= laid.keys() else [],
        list(_stretches(laid["stretch"], evidence)) if "stretch" in laid else [],
        rows.events({name: laid[name] for name in ("link", "event") if name in laid}),
    )


def _judged(ticks: pl.DataFrame, judged: pl.DataFrame) -> Iterator[Judged]:
    there = judged.join(ticks.select("event_no", "arrived_us"), on="event_no", how="inner")
    cells = there.sort("event_no").select(
        "event_no", "arrived_us", pl.col("t").cast(pl.Int64), "slowdown", "recurring"
    )
    recurring: tuple[Recurring, ...] = ()
    for no, arrived_us, wall_us, slowdown, told in cells.iter_rows():
        recurring = recurring if told is None else _RECURRING.decode(told)
        yield Judged(no, arrived_us, wall_us, slowdown, recurring)


def _stretches(frame: pl.DataFrame, evidence: Collection[str]) -> Iterator[Stretch]:
    wanted = pl.when(pl.col("scope").is_in(evidence)).then("evidence")
    names = ("scope", "node", "rank", "group", "state", "cause", "culprits")
    measured = ("suspected_us", "confirmed_us", "confidence")
    cells = frame.select("event_no", "last_event_no", *names, *measured, wanted.alias("evidence"))
    for no, last, scope, node, rank, group, state, cause, culprits, *rest in cells.iter_rows():
        if scope not in SCOPES or state not in CAUSES or cause not in (None, *CAUSES[state]):
            raise ValueError("a verdict that there is not")
        suspected_us, confirmed_us, confidence, told = rest
        found = _NONE if told is None else _EVIDENCE.decode(told)
        verdict = Verdict(
            scope=scope,
            node=node,
            rank=rank,
            group=group,
            state=state,
            cause=cause,
            culprits=_culprits(culprits or "[]"),
            waiting=found.waiting,
            suspected_us=suspected_us,
            confirmed_us=confirmed_us,
            confidence=confidence or 0.0,
            support=found.support,
            against=found.against,
            missing=found.missing,
            candidates=found.candidates,
        )
        yield Stretch(no, last, verdict)


@lru_cache(4096)
def _culprits(told: str) -> tuple[Culprit, ...]:
    return _CULPRITS.decode(told)
