"""Cases that public bug reports tell of: each is proved by a test that names it.

E are readings of GPUs; K are of /proc, /sys, the kernel, containers and clocks; S are of SSH and the
start on a node; D are stories of slow jobs; T are of terminals; R are rules of thumb that go wrong;
Va to Vz are situations with a known verdict. A test names one in its name (`test_k26_...`, `test_vc_...`) or in
its text (`K26`, `Vc`).
"""

import re
from pathlib import Path
from string import ascii_lowercase

import pytest

TESTS = Path(__file__).parents[1]
CASES = [
    *(f"E{number:02}" for number in (
        1, 3, 4, 5, 7, 8, 9, 11, 13, 14, 16, 17, 18, 20, 22, 23, 25, 26, 27, 29, 30, 32, 33, 35, 36, 38, 39,
    )),
    *(f"K{number:02}" for number in (
        1, 2, 3, 4, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 20, 21, 23, 24, 25, 26, 28, 29, 30, 32, 34, 35, 37, 38,
    )),
    *(f"S{number:02}" for number in (
        1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 14, 15, 17, 19, 20, 22, 23, 24, 25, 27, 29, 30, 31, 32, 34, 36, 37, 38, 39,
        40, 41, 43, 44, 46,
    )),
    *(f"D{number:02}" for number in (1, 7, 9, 15, 19, 35, 44, 48, 60, 67, 71, 72)),
    *(f"T{number:02}" for number in (1, 2, 4, 5, 7, 9, 10, 11, 12, 14, 16)),
    *(f"R{number:02}" for number in range(1, 45)),
    *(f"V{letter}" for letter in ascii_lowercase),
]  # fmt: skip
NAMED = re.compile(
    r"(?<![0-9A-Za-z])(?:[DEKRSTdekrst]\d\d|V[a-z]|(?<=def test_)v[a-z])(?![0-9A-Za-z])"
)


@pytest.fixture(scope="module")
def named() -> set[str]:
    """Cases that a test names."""
    here = Path(__file__)
    texts = [path.read_text() for path in TESTS.rglob("test_*.py") if path != here]
    return {case.capitalize() for text in texts for case in NAMED.findall(text)}


@pytest.mark.parametrize("case", CASES)
def test_a_test_names_the_case(case: str, named: set[str]) -> None:
    assert case in named
