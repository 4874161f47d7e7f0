"""Lanes through time: whatever order ticks come in, each moment says what was said of it last."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.model.verdict import LETTERS, STATES, Culprit, JobVerdict, State, Verdict
from gpuwatch.tui.history import JOB, History

SECOND = 1_000_000
marks = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 12), st.sampled_from(STATES)), max_size=30
)


def job(state: State) -> JobVerdict:
    return JobVerdict(job=Verdict(scope="job", state=state))


def say(history: History, begin: int, end: int, verdict: JobVerdict) -> None:
    """Let a verdict hold for whole seconds; a tick tells of the time up to itself."""
    history.mark(begin * SECOND - 1, end * SECOND - 1, verdict)


@settings(max_examples=60)
@given(marks)
def test_a_lane_says_of_each_second_what_was_said_of_it_last(
    told: list[tuple[int, int, State]],
) -> None:
    history = History()
    seconds: list[str | None] = [None] * 80
    for begin, length, state in told:
        say(history, begin, begin + length, job(state))
        seconds[begin : begin + length] = [LETTERS[state]] * length
    assert history.letters(JOB, 79 * SECOND, 80, 1) == seconds
    drawn = [c is None for c in history.letters(JOB, 79 * SECOND, 16, 5)]
    assert drawn == [set(seconds[at : at + 5]) == {None} for at in range(0, 80, 5)]
    said = [history.words(JOB, second * SECOND + SECOND // 2) for second in range(80)]
    words = {LETTERS[s]: s for s in STATES}
    assert said == [None if c is None else words[c] for c in seconds]


def test_a_letter_is_what_lasted_longest() -> None:
    history = History()
    stretches: tuple[tuple[int, int, State], ...] = (
        (0, 6, "COMPUTE"), (6, 8, "NETWORK"), (8, 12, "STORAGE"),
    )  # fmt: skip
    for begin, end, state in stretches:
        say(history, begin, end, job(state))
    assert history.letters(JOB, 9 * SECOND, 1, 10) == ["C"]
    assert history.letters(JOB, 19 * SECOND, 1, 10) == ["D"]


def test_a_lane_that_flaps_for_weeks_is_bounded_and_keeps_the_newest() -> None:
    history = History()
    states: tuple[State, ...] = ("COMPUTE", "NETWORK")
    for second in range(20_000):
        say(history, second, second + 1, job(states[second % 2]))
    drawn = history.letters(JOB, 19_999 * SECOND, 20_000, 1)
    assert drawn[-3:] == ["N", "C", "N"]
    assert 3000 < sum(c is not None for c in drawn) <= 4097


def test_endless_different_words_are_bounded() -> None:
    history = History()
    for second in range(6000):
        blamed = (Culprit("node", f"gpu{second}", ()),)
        verdict = Verdict(scope="job", state="NETWORK", culprits=blamed)
        say(history, second, second + 1, JobVerdict(job=verdict))
    assert history.words(JOB, 4000 * SECOND + SECOND // 2) == "NETWORK · gpu4000"
    assert history.words(JOB, 5999 * SECOND + SECOND // 2) == "NETWORK"
