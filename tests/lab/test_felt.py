"""When a job felt a fault, from made-up truth logs."""

import pytest

from lab.felt import Phase, felt


def log(*lengths: float) -> list[Phase]:
    """Return a truth log of steps of these lengths, with two phases each, from time 0 on."""
    phases, begin = [], 0.0
    for step, length in enumerate(lengths):
        phases += [Phase(step, begin), Phase(step, begin + length / 2)]
        begin += length
    return phases


@pytest.mark.parametrize(
    ("lengths", "onset", "expected"),
    [
        ((1, 1, 1, 1, 1, 1), 3.0, None),  # nothing came of it
        ((1, 1, 1, 1, 1, 2, 2, 2), 3.0, 2.0),  # two loaded batches hid it
        ((1, 1, 1, 3, 3), 3.5, 0.0),  # in the midst of a step
        ((1, 1, 1, 1, 0.2), 3.5, 0.5),  # the next step never ended
        ((), 3.0, None),
    ],
)
def test_the_first_slow_step_is_when_it_was_felt(
    lengths: tuple[float, ...], onset: float, expected: float | None
) -> None:
    found = felt(log(*lengths), onset, 10.0 if expected is not None else sum(lengths))
    assert found == (pytest.approx(expected) if expected is not None else None)
