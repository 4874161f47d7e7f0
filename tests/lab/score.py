"""The score: what was shown, second by second, against what was true.

Pure: a scenario says what may be shown, the truth says when, a recording says what was. A second
counts as acceptable when an acceptable verdict stood in it; one without any verdict does not.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.report.timeline import word
from lab.scenario import HEALTHY, Accept, Scenario

__all__ = ["Blame", "Period", "Score", "Seen", "Subject", "Truth", "score"]

GRACE_S = 10.0
"""Seconds after onset that are not scored: a verdict needs some seconds of the new state."""
LINGER_S = 20.0
"""Seconds after the end of a fault that are not scored: a verdict gives way slowly, on purpose."""
LONGEST_S = 2.0
"""A verdict stands until the next, but no longer than this: then ticks are missing."""
SURE = 0.6
"""Confidence from which on a wrong verdict misleads."""
EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
"""Confidences from which on verdicts are counted apart."""
NOT_ALARMING = (*HEALTHY, "IDLE", "STARTUP", "UNKNOWN")

Period = tuple[float, float]


class Truth(msgspec.Struct, frozen=True):
    """When what was true, in seconds on the clock of `Seen`.

    Attributes:
        begin_s: from when on the job was trained and watched.
        onset_s: the fault began; with `lift_s` at the end where there was none.
        lift_s: the fault ended.
        end_s: until when it was watched.
        starved: periods in which the machine starved its guests; not scored.
    """

    begin_s: float
    onset_s: float
    lift_s: float
    end_s: float
    starved: tuple[Period, ...] = ()


class Seen(msgspec.Struct, frozen=True):
    """What was shown from one instant on."""

    at_s: float
    verdict: JobVerdict


class Subject(msgspec.Struct):
    """How the job, or one node, was judged; all but latencies in seconds of verdicts."""

    name: str
    fault_s: float
    acceptable_s: float = 0.0
    suspected_after_s: float | None = None
    confirmed_after_s: float | None = None
    healthy_s: float = 0.0
    healthy_right_s: float = 0.0
    alarm_s: float = 0.0
    confirmed_alarm_s: float = 0.0
    misled_s: float = 0.0
    words: dict[str, float] = {}

    @property
    def share(self) -> float | None:
        """Share of fault seconds with an acceptable verdict; None without a fault."""
        return self.acceptable_s / self.fault_s if self.fault_s > 0 else None


class Blame(msgspec.Struct):
    """Whom the job's verdict named during the fault, in seconds; `vague` is nobody in particular."""

    right_s: float = 0.0
    wrong_s: float = 0.0
    vague_s: float = 0.0
    named: dict[str, float] = {}


class Bin(msgspec.Struct):
    """Verdicts of one range of confidence, and how many were right, in seconds."""

    from_confidence: float
    shown_s: float = 0.0
    right_s: float = 0.0


class Score(msgspec.Struct):
    """The score of one run of one scenario."""

    scenario: str
    subjects: list[Subject]
    blame: Blame
    calibration: list[Bin]
    confusion: dict[str, dict[str, float]]
    recurring_after_s: float | None
    starved_s: float

    @property
    def job(self) -> Subject:
        """The job's own."""
        return self.subjects[0]


def score(scenario: Scenario, truth: Truth, seen: Sequence[Seen]) -> Score:
    """Score what was shown.

    Args:
        scenario: what may be shown.
        truth: when.
        seen: in order of time.
    """
    fault = (truth.onset_s + GRACE_S, truth.lift_s)
    well = ((truth.begin_s, truth.onset_s), (truth.lift_s + LINGER_S, truth.end_s))
    result = Score(
        scenario.name,
        [Subject(name, _length(fault, truth.starved)) for name in ("job", *scenario.names)],
        Blame(),
        [Bin(edge) for edge in EDGES],
        {},
        _recurring_after(scenario, truth, seen),
        sum(end - begin for begin, end in truth.starved),
    )
    for stood, shown in _standing(seen, truth.end_s):
        for period in (fault, *well):
            seconds = _length(_common(stood, period), truth.starved)
            for subject, verdict in _verdicts(result, shown) if seconds > 0 else ():
                accept = scenario.accepts(subject.name) if period == fault else None
                after_s = stood[0] - truth.onset_s
                _count(result, subject, verdict, accept, after_s, scenario.culprits, seconds)
    for subject in result.subjects:
        _latencies(subject, scenario.accepts(subject.name), truth, seen)
    return result


def _standing(seen: Sequence[Seen], end_s: float) -> Iterator[tuple[Period, JobVerdict]]:
    """Yield from when to when each verdict stood, and it."""
    nothing = JobVerdict(job=Verdict(scope="job"))
    for one, following in pairwise([*seen, Seen(end_s, nothing)]):
        yield (one.at_s, min(following.at_s, one.at_s + LONGEST_S)), one.verdict


def _common(one: Period, other: Period) -> Period:
    return max(one[0], other[0]), min(one[1], other[1])


def _length(period: Period, without: Sequence[Period]) -> float:
    begin, end = period
    lost = sum(max(0.0, min(end, b) - max(begin, a)) for a, b in without)
    return max(0.0, end - begin - lost)


def _verdicts(result: Score, shown: JobVerdict) -> Iterator[tuple[Subject, Verdict]]:
    nodes = {verdict.node: verdict for verdict in shown.nodes}
    for subject in result.subjects:
        verdict = shown.job if subject.name == "job" else nodes.get(subject.name)
        if verdict is not None:
            yield subject, verdict


def _count(
    result: Score,
    subject: Subject,
    verdict: Verdict,
    accept: Accept | None,
    after_s: float,
    culprits: Sequence[str],
    seconds: float,
) -> None:
    """Book one verdict; `accept` is None in healthy time."""
    said = word(verdict)
    right = said in HEALTHY if accept is None else accept.takes(said, after_s)
    if accept is None:
        subject.healthy_s += seconds
        subject.healthy_right_s += seconds * right
        alarm = said not in NOT_ALARMING
        subject.alarm_s += seconds * alarm
        subject.confirmed_alarm_s += seconds * (alarm and verdict.confirmed_us is not None)
    else:
        subject.acceptable_s += seconds * right
        _add(subject.words, said, seconds)
        if subject.name == "job" and said not in HEALTHY:
            right &= _blame(result.blame, verdict, culprits, seconds)
    truth = HEALTHY[0] if accept is None else accept.words[0].removesuffix("/*")
    _add(result.confusion.setdefault(truth, {}), said, seconds)
    if said == "UNKNOWN":
        return
    if not right and verdict.confidence >= SURE:
        subject.misled_s += seconds
    place = result.calibration[bisect_right(EDGES, verdict.confidence) - 1]
    place.shown_s += seconds
    place.right_s += seconds * right


def _blame(blame: Blame, verdict: Verdict, culprits: Sequence[str], seconds: float) -> bool:
    """Book whom a verdict of the job names; False where an innocent one is named.

    A port of a node at fault is right.
    """
    named = [c for c in verdict.culprits if c.kind not in ("job", "unknown") or c.id in culprits]
    for culprit in verdict.culprits:
        _add(blame.named, culprit.id, seconds)
    if not named:
        blame.vague_s += seconds
    elif all(c.id in culprits or (c.kind == "port" and {*c.nodes} <= {*culprits}) for c in named):
        blame.right_s += seconds
    else:
        blame.wrong_s += seconds
        return False
    return True


def _latencies(subject: Subject, accept: Accept, truth: Truth, seen: Sequence[Seen]) -> None:
    """Find when the fault was first suspected and confirmed; health is no fault to find."""
    for one in seen:
        if not truth.onset_s <= one.at_s < truth.lift_s:
            continue
        for verdict in (one.verdict.job, *one.verdict.nodes):
            if (verdict.node or "job") != subject.name or word(verdict) in HEALTHY:
                continue
            if not accept.takes(word(verdict)):
                continue
            after_s = one.at_s - truth.onset_s
            if subject.suspected_after_s is None and verdict.suspected_us is not None:
                subject.suspected_after_s = after_s
            if subject.confirmed_after_s is None and verdict.confirmed_us is not None:
                subject.confirmed_after_s = after_s


def _recurring_after(scenario: Scenario, truth: Truth, seen: Sequence[Seen]) -> float | None:
    for one in seen:
        for found in one.verdict.recurring:
            told = found.state + (f"/{found.cause}" if found.cause else "")
            if told == scenario.recurring and one.at_s >= truth.onset_s:
                return one.at_s - truth.onset_s
    return None


def _add(counts: dict[str, float], key: str, seconds: float) -> None:
    counts[key] = counts.get(key, 0.0) + seconds
