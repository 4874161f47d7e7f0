"""Expressions of people against lines of anything: stopped in time, and their plain text is sure."""

import time

import pytest
import regex
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuwatch.model.expression import LIMIT_S, PATIENCE, Expression, plain_text

CATASTROPHE = "a" * 190 + "!"


@pytest.mark.parametrize(
    ("pattern", "line", "number"),
    [
        (r"step[ =](\d+)", "12:00 step=1234 loss 0.31", 1234),
        (r"tok/s ([\d.,]+)", "tok/s 12,345.5", 12345.5),
        (r"\| (\d+)/\d+ \[", " 12%|█▏  | 120/1000 [00:10<01:20, 11.2it/s]", 120),
        (r"step (\S+)", "step nan", None),
        (r"step (\S+)", "step one", None),
        (r"step (\d+)?", "step ", None),
        (r"step (\d+)", "epoch 3", None),
    ],
)
def test_a_number_is_found_or_it_is_none(pattern: str, line: str, number: float | None) -> None:
    assert Expression(pattern).number(line) == number


@pytest.mark.parametrize("pattern", ["(", "(?P<", "[z-a]", "(a){2,1}", "a", "(a)(b)"])
def test_what_does_not_compile_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Expression(pattern)


def test_one_that_backtracks_for_ever_is_stopped_and_given_up() -> None:
    expression = Expression("(a+)+$")
    began = time.process_time()
    for _ in range(50):
        assert expression.number(CATASTROPHE) is None
    assert time.process_time() - began < 10 * PATIENCE * LIMIT_S
    assert expression.given_up


def test_a_search_that_ends_in_time_forgives_those_that_did_not() -> None:
    expression = Expression("(?:(?:a+)+!)?(?:step )?([0-9]+)$")
    for _ in range(2 * PATIENCE):
        expression.number(CATASTROPHE)
        assert expression.number("step 5") == 5
    assert not expression.given_up


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"step[ =](\d+)", "step"),
        (r"tok/s (\d+)", "tok/s "),
        (r'{"step": (\d+)}', '{"step": '),
        (r"step\.(\d+)", "step."),
        (r"(\d+)/\d+ \[", " ["),
        (r"(?:iter )+(\d+)", "iter "),
        (r"(?:iter )?n=(\d+)", "n="),
        (r"(?P<n>step (\d+))", "step "),
        (r"((ab)*cd)?x", "x"),
        (r"ab?c (\d+)", "c "),
        (r"foo+?bar", "foo"),
        (r"[[:alpha:]]ab", "ab"),
        (r"foo{e<=1}zz", "fo"),
        ("(x)", "x"),
        *dict.fromkeys(
            [
                r"(\d+)",
                " (.)",
                r"(?:step|it) (\d+)",
                r"(?i)step (\d+)",
                r"(?<=step )(\d+)",
                r"\x41",
            ],
            "",
        ).items(),
    ],
)
def test_the_text_that_each_match_holds(pattern: str, text: str) -> None:
    assert plain_text(pattern) == text


ATOMS = st.sampled_from(
    [
        "a", "b", "step", " ", "|", "=", r"\d", r"\.", r"\[", r"\x41", "[ab]", "[^]a]", ".", "é", "{", "}", "]",
        r"\w", r"\ ", "[[:alpha:]]", r"\u0041", r"\x2b", ",",
    ]
)  # fmt: skip
COUNTS = st.sampled_from(
    ["", "", "", "*", "+", "?", "{2}", "{0,1}", "*?", "+?", "??", "++", "{,3}"]
)


def wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.sampled_from(
        ["({})", "(?:{})", "(?P<n>{})", "(?>{})", "(?={})", "(?!{})", "(?i:{})", "({}|a)"]
    )
    return st.builds(
        lambda parts, form, count: form.replace("{}", "".join(parts)) + count,
        st.lists(inner, min_size=1, max_size=3),
        group,
        COUNTS,
    )


PATTERNS = st.lists(
    st.recursive(st.builds(str.__add__, ATOMS, COUNTS), wrapped, max_leaves=5), max_size=4
).map("".join)


@given(PATTERNS, st.data())
def test_the_plain_text_is_in_all_that_matches(pattern: str, data: st.DataObject) -> None:
    try:
        compiled = regex.compile(pattern)
    except regex.error:
        assume(False)
    text = data.draw(st.text("abstepA=. [1]{},é+", max_size=12))
    found = compiled.search(text)
    if found:
        assert plain_text(pattern) in text


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_refused(pattern: str) -> None:
    try:
        Expression(pattern).number("step 1")
    except ValueError:
        return
    plain_text(pattern)
