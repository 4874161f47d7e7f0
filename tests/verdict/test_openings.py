"""A cause that is not asked would have had nothing to say."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.verdict import rank
from gpuwatch.verdict.causes import CAUSES, Cause, asked
from gpuwatch.verdict.evidence import Context
from verdict.scenario import Node, named, quickly
from verdict.test_laws import KINDS
from verdict.test_laws_of_causes import CASES
from verdict.test_properties import any_node

NODES = {**KINDS, **{cause: node for cause, (node, _) in CASES.items()}}
few = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def all_of_them(_: Context) -> tuple[Cause, ...]:
    return CAUSES


@few
@given(st.sampled_from(sorted(NODES)).map(NODES.__getitem__) | any_node)
def test_asking_all_causes_changes_nothing(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    nodes = (*named(replace(node, name="x"), "x"), *named(NODES["victim"], "y"))
    as_judged = quickly(nodes)
    with monkeypatch.context() as patched:
        patched.setattr(rank, "asked", all_of_them)
        assert quickly(nodes) == as_judged


def test_most_are_not_asked_of_a_rank_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    def counted(context: Context) -> tuple[Cause, ...]:
        counts.append(len(asked(context)))
        return asked(context)

    monkeypatch.setattr(rank, "asked", counted)
    quickly(named(NODES["good"], "x", "y"))
    assert 0 < max(counts) < len(CAUSES) / 2
