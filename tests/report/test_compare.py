"""Comparisons: chance is not called a change, a change is found, the answer says no more than that."""

import random
from argparse import Namespace
from datetime import datetime
from pathlib import Path

import jsonschema
import msgspec
import pytest

from gpuwatch.cli.compare import compare as command
from gpuwatch.report.compare import Comparison, compare, schema
from gpuwatch.report.sides import Row, Side, Values
from gpuwatch.report.sidetext import text
from gpuwatch.report.significance import difference
from gpuwatch.report.types import Ledger, Report

RECORDINGS = Path(__file__).parents[2] / "recordings"


def minutes(seed: int, count: int, mean: float, spread: float, alike: float = 0.0) -> list[float]:
    """Return values about a mean, each like the one before by so much."""
    chance, value, found = random.Random(seed), 0.0, []
    for _ in range(count):
        value = alike * value + (1 - alike**2) ** 0.5 * chance.gauss(0, spread)
        found.append(mean + value)
    return found


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("count", [12, 60, 300])
def test_two_stretches_of_one_thing_seldom_differ(count: int, alike: float) -> None:
    """Alike neighbours are what fools a test that takes them for independent."""
    wrong = sum(
        difference(minutes(seed, count, 10, 5, alike), minutes(seed + 1000, count, 10, 5, alike)).significant is True
        for seed in range(100)
    )  # fmt: skip
    assert wrong <= 4


def test_a_change_is_found_and_bounded() -> None:
    found = [
        difference(minutes(s, 40, 10, 2, 0.3), minutes(s + 500, 40, 5, 2, 0.3)) for s in range(50)
    ]
    assert all(f.significant for f in found)
    inside = sum(f.low <= -5 <= f.high for f in found if f.low is not None and f.high is not None)
    assert inside >= 46


def test_what_nobody_minds_and_what_cannot_be_told_are_not_called_changes() -> None:
    assert difference([10.0] * 50, [10.5] * 50).significant is False
    assert difference([0.0] * 50, [3.0] * 50, least=5.0).significant is False
    assert difference([0.0] * 50, [7.0] * 50, least=5.0).significant is True
    assert difference([10.0] * 5, [90.0] * 50).significant is None
    assert difference([], [1.0] * 50) == (None, 1.0, None, None, None)
    one_incident = [0.0] * 20 + [100.0] * 20
    assert difference(one_incident, [0.0] * 40).significant is None


def side(nodes: tuple[str, ...] = ("n1", "n2"), step: float = 1.0, **shares: float) -> Side:
    """Return forty pieces of time with these shares of GPU time, in per cent, a little scattered."""
    shares = {name.replace("_", "/"): share for name, share in shares.items()}
    whole = sum(shares.values())
    rows: dict[Row, Values] = {
        Row("share", name, "%", 2.0): tuple(minutes(len(name), 40, share, 1.0))
        for name, share in {"COMPUTE": 100 - whole, **shares}.items()
    }
    rows |= {
        Row("computing", node, "%", 2.0): tuple(minutes(3, 40, 100 - whole, 1.0)) for node in nodes
    }
    rows[Row("step", None, "s", 0.0)] = tuple(minutes(4, 40, step, step / 50))
    at = msgspec.convert("2026-01-01T00:00:00Z", type=datetime)
    ledger = Ledger(gpu_hours=1.0, by={}, unseen=0.0, amount=None, currency=None)
    report = Report(
        format=1, job="j", begin=at, end=at, interval_s=1.0, verdicts=(), recurring=(),
        share={node: {} for node in nodes}, ledger=ledger, slowdown=None, events=(), gaps=(), thresholds={},
        changes=None,
    )  # fmt: skip
    return Side(report, rows)


@pytest.mark.parametrize(
    ("before", "after", "outcome", "says"),
    [
        (side(STORAGE_read=60, step=2), side(), "worked", "It worked: STORAGE/read 60 % of GPU time before, 0 % after; a step takes 1 s, 2 s before."),
        (side(STORAGE_read=60, step=2), side(step=2), "partly", "It helped: STORAGE/read 60 % of GPU time before, 0 % after; that the job is faster is not certain."),
        (side(STORAGE_read=60, step=2), side(STORAGE_read=60, step=2), "failed", "It did not work"),
        (side(STORAGE_read=60, step=2), side(STORAGE_read=45, step=1.6), "partly", "It helped: STORAGE/read 60 % of GPU time before, 45 % after; a step takes 1.6 s"),
        (side(STORAGE_read=40), side(STORAGE_read=70), "failed", "It did not work"),
        (side(STORAGE_read=60, step=2), side(NETWORK_loss=50, step=2), "replaced", "another wait took its place"),
        (side(), side(NETWORK_loss=50), "nothing", "It does now: NETWORK/loss"),
        (side(IDLE=50), side(), "nothing", "nothing to fix"),
    ],
)  # fmt: skip
def test_did_the_fix_work(before: Side, after: Side, outcome: str, says: str) -> None:
    found = compare(before, after)
    assert (found.outcome, says in found.answer) == (outcome, True), found.answer
    assert text(found).splitlines()[0] == found.answer


def test_less_that_may_be_chance_is_neither_a_success_nor_a_failure() -> None:
    rare = Row("share", "STORAGE/checkpoint", "%", 2.0)
    before = side()
    before.rows[rare] = tuple(80.0 if piece % 9 == 0 else 0.0 for piece in range(27))  # type: ignore[index]
    found = compare(before, side())
    assert found.outcome == "unclear"
    assert "9 % of GPU time before, 0 % after, which may be chance" in found.answer


def test_nodes_of_other_names_are_matched_by_their_order_and_that_is_said() -> None:
    found = compare(side(("a1", "a2"), STORAGE_read=60), side(("b1\x1b[2J", "b2")))
    rows = [row for row in found.rows if row.what == "computing"]
    assert [(row.of, row.significant) for row in rows] == [("a1", True), ("a2", True)]
    assert [pair.before for pair in found.renamed] == ["a1", "a2"]
    told = text(found)
    assert "matched by their order" in told
    assert "\x1b" not in told


def test_two_recordings_of_one_incident_each_are_told_side_by_side_without_a_claim(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = Namespace(
        before=str(RECORDINGS / "net-loss"), after=str(RECORDINGS / "nfs-slow"), json=True
    )
    assert command(given) == 0
    document = capsys.readouterr().out
    jsonschema.Draft202012Validator(schema()).validate(msgspec.json.decode(document))
    found = msgspec.json.decode(document, type=Comparison)
    assert found.outcome == "unclear"
    rows = {(row.what, row.of): row for row in found.rows}
    loss, sent = rows["share", "NETWORK/loss"], rows["retransmits", None]
    assert loss.before == pytest.approx(56, abs=3)
    assert sent.before == pytest.approx(1.6, abs=0.3)
    assert loss.after == sent.after == 0
    assert rows["storage_latency", "/mnt/shared"].before is None
