"""The results of a run as text: each scenario, what was taken for what, and how sure it was."""

import statistics
from collections.abc import Sequence

from lab.score import Bin, Subject
from lab.watch import Result

__all__ = ["bites", "calibration", "changes", "confusion", "scores", "totals", "whole"]


def bites(result: Result) -> str:
    """Return what plain tools saw of the faults, and what the job's own log says."""
    lines = [f"  {name}: {told}" for name, told in result.bites.items()]
    steps = f"  steps: {_seconds(result.step_s)} before, {_seconds(result.fault_step_s)} with it"
    starved = f"; {result.score.starved_s:.0f} s not scored: guests were starved"
    machine = f"  machine: {result.busy:.0%} busy, {result.others:.0%} by others{starved if result.score.starved_s else ''}"
    return "\n".join([*lines, steps, machine])


def whole(results: Sequence[Result]) -> str:
    """Return all that is told of a run."""
    return "\n\n".join(part(results) for part in (scores, confusion, calibration, totals))


def scores(results: Sequence[Result]) -> str:
    """Return a line a scenario."""
    head = (
        f"{'scenario':28} {'steps':>7} {'job':>5} {'worst node':>15} {'suspected':>10} {'confirmed':>10}"
        f" {'blame':>14} {'alarm':>6} {'misled':>7}"
    )
    return "\n".join([head, *map(_line, results)])


def _line(result: Result) -> str:
    score, job = result.score, result.score.job
    nodes = [s for s in score.subjects[1:] if s.share is not None]
    worst = min(nodes, key=lambda s: s.share or 0.0, default=None)
    node = f"{worst.name} {_share(worst)}" if worst else "-"
    alarm = max(s.alarm_s for s in score.subjects)
    misled = max(s.misled_s for s in score.subjects)
    notes = [
        *(["STARVED"] if score.starved_s else []),
        *(["DOES NOT BITE"] if result.toothless else []),
        *([f"recurring after {score.recurring_after_s:.0f} s"] if score.recurring_after_s else []),
        *_said(job),
    ]
    return (
        f"{result.scenario:28} {_slower(result):>7} {_share(job):>5} {node:>15} {_seconds(job.suspected_after_s):>10}"
        f" {_seconds(job.confirmed_after_s):>10} {_blamed(result):>14} {alarm:4.0f} s"
        f" {misled:5.0f} s  {', '.join(notes)}"
    )


def _slower(result: Result) -> str:
    """Return how many times as long steps took during the fault; they may have stood still."""
    if not result.step_s or not result.fault_step_s:
        return "-"
    return f"x {result.fault_step_s / result.step_s:.1f}"


def _said(job: Subject) -> list[str]:
    """Return what was said of the job instead, where it was mostly wrong."""
    if job.share is None or job.share >= 0.5 or not job.words:
        return []
    return [f"said {max(job.words, key=job.words.__getitem__)}"]


def _blamed(result: Result) -> str:
    blame = result.score.blame
    total = blame.right_s + blame.wrong_s + blame.vague_s
    if not total:
        return "-"
    return f"{blame.right_s / total:.0%} / {blame.wrong_s / total:.0%}"


def confusion(results: Sequence[Result]) -> str:
    """Return, for each true state, the share of seconds in which each state was shown."""
    seconds: dict[str, dict[str, float]] = {}
    for result in results:
        for truth, said in result.score.confusion.items():
            row = seconds.setdefault(truth.partition("/")[0], {})
            for word, value in said.items():
                state = word.partition("/")[0]
                row[state] = row.get(state, 0.0) + value
    columns = sorted({state for row in seconds.values() for state in row})
    head = f"{'true, below / shown':20}" + "".join(f"{state:>10}" for state in columns)
    lines = [head]
    for truth, row in sorted(seconds.items()):
        total = sum(row.values())
        cells = (f"{row[s] / total:10.0%}" if s in row else f"{'.':>10}" for s in columns)
        lines.append(f"{truth:20}{''.join(cells)}  of {total:.0f} s")
    return "\n".join(lines)


def totals(results: Sequence[Result]) -> str:
    """Return how much was right over all scenarios, and how soon faults were told of."""
    nodes = [s for r in results for s in r.score.subjects[1:] if s.share is not None]
    jobs = [r.score.job for r in results if r.score.job.share is not None]
    lines = [
        f"right of all fault seconds: nodes {_right(nodes)}, job {_right(jobs)}",
        f"misled: {sum(s.misled_s for s in (*nodes, *jobs)):.0f} of {sum(s.fault_s for s in (*nodes, *jobs)):.0f} s",
    ]
    for word in ("suspected", "confirmed"):
        from_onset, from_felt = [], []
        for result in results:
            after_s = getattr(result.score.job, f"{word}_after_s")
            if after_s is None:
                continue
            from_onset.append((after_s, result.scenario))
            if result.felt_after_s is not None:
                from_felt.append((after_s - result.felt_after_s, result.scenario))
        lines += _latency(word, "onset", from_onset) + _latency(
            word, "the first slow step", from_felt
        )
    return "\n".join(lines)


def _right(subjects: Sequence[Subject]) -> str:
    total = sum(s.fault_s for s in subjects)
    return f"{sum(s.acceptable_s for s in subjects) / total:.1%}" if total else "-"


def _latency(word: str, since: str, found: Sequence[tuple[float, str]]) -> list[str]:
    if not found:
        return []
    median, (worst, name) = statistics.median(after_s for after_s, _ in found), max(found)
    return [f"{word} after {since}: median {median:.1f} s, worst {worst:.1f} s ({name})"]


def calibration(results: Sequence[Result]) -> str:
    """Return how often verdicts of each range of confidence were right."""
    lines = [f"{'confidence':12} {'right':>6} {'of':>8}"]
    totals: dict[float, Bin] = {}
    for part in (part for result in results for part in result.score.calibration):
        total = totals.setdefault(part.from_confidence, Bin(part.from_confidence))
        total.shown_s += part.shown_s
        total.right_s += part.right_s
    for total in totals.values():
        share = f"{total.right_s / total.shown_s:.0%}" if total.shown_s else "-"
        lines.append(f"from {total.from_confidence:.1f}     {share:>6} {total.shown_s:6.0f} s")
    return "\n".join(lines)


def changes(pairs: Sequence[tuple[Result, Result]]) -> str:
    """Return, of results before and after, what differs in each; nothing differs: a dash."""
    lines = []
    for before, after in pairs:
        old, new = _figures(before), _figures(after)
        parts = [f"{name} {old[name]} -> {new[name]}" for name in new if old[name] != new[name]]
        if parts:
            lines.append(f"  {after.scenario:28} {', '.join(parts)}")
    return "\n".join(lines) or "  -"


def _figures(result: Result) -> dict[str, str]:
    """Return what a line of the table tells of how a run was judged."""
    subjects = result.score.subjects
    job = result.score.job
    return {
        **{subject.name: _share(subject) for subject in subjects},
        "suspected": _seconds(job.suspected_after_s),
        "confirmed": _seconds(job.confirmed_after_s),
        "blame": _blamed(result),
        "alarm": f"{max(s.alarm_s for s in subjects):.0f} s",
        "misled": f"{max(s.misled_s for s in subjects):.0f} s",
    }


def _share(subject: Subject) -> str:
    return "-" if subject.share is None else f"{subject.share:.0%}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
