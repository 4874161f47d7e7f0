"""The judge: from a view to verdicts, with nothing but the view and its own state."""

from collections.abc import Sequence
from typing import Self

import msgspec

from gpuwatch.model.verdict import Finding, JobVerdict, Recurring, Verdict
from gpuwatch.model.verdict import State as ShownState
from gpuwatch.model.view import NodeView, View
from gpuwatch.verdict import node as nodes
from gpuwatch.verdict import rank, statement
from gpuwatch.verdict.charge import Unseen
from gpuwatch.verdict.hysteresis import UNKNOWN, Claim, Track, recurring, reset, step
from gpuwatch.verdict.job import charges
from gpuwatch.verdict.levels import Learned
from gpuwatch.verdict.pace import Pace, follow, follow_steps, lost_by_steps, slowdown
from gpuwatch.verdict.peers import UNSEEN, Survey
from gpuwatch.verdict.rank import Opinion
from gpuwatch.verdict.thresholds import Thresholds
from gpuwatch.verdict.units import Look, opinions

__all__ = ["Judge", "State"]

_FORGET_US = 900_000_000
"""State of a rank or GPU that was not seen for so long is dropped: it stays bounded."""
_ENOUGH = 0.9
"""Share of a window that must be there to count as one: samples do not come on the dot."""
_LATEST_S = 2.0
"""What is going on now: two samples, as what a driver averages over is a second."""
_JOB = "job"


class State(msgspec.Struct, frozen=True, gc=False):
    """All that the judge carries from one tick to the next.

    Attributes:
        learned: what each GPU's process was seen to do.
        tracks: what is shown of each node, rank and the job.
        pace: of the job's steps.
        baseline: watts of full work in a good run, by GPU model.
    """

    learned: dict[str, Learned] = {}
    tracks: dict[str, Track] = {}
    pace: Pace = Pace()
    baseline: dict[str, float] = {}


class _Judged(msgspec.Struct, frozen=True, gc=False):
    node: Opinion
    ranks: tuple[Opinion, ...]


class Judge:
    """Judges a view: each node alone, then the job.

    Between the two it keeps what it made of the nodes of this tick; all that lasts is `state()`.

    Args:
        thresholds: to judge by; the defaults when None.
        state: as an earlier judge left it; None begins anew.
    """

    def __init__(self, thresholds: Thresholds | None = None, state: State | None = None) -> None:
        self.thresholds = thresholds or Thresholds()
        state = state or State()
        self._learned = dict(state.learned)
        self._tracks = dict(state.tracks)
        self._pace = state.pace
        self._baseline = state.baseline
        self._survey: tuple[int, Survey] | None = None
        self._judged: dict[str, _Judged] = {}

    @classmethod
    def from_state(cls, state: bytes, thresholds: Thresholds | None = None) -> Self:
        """Go on where a judge left off.

        Raises:
            msgspec.DecodeError: the bytes are no state.
        """
        return cls(thresholds, msgspec.msgpack.decode(state, type=State))

    def state(self) -> bytes:
        """Return all that lasts, to be recorded."""
        return msgspec.msgpack.encode(
            State(self._learned, self._tracks, self._pace, self._baseline)
        )

    def node(self, view: View, node: NodeView) -> tuple[Verdict, ...]:
        """Judge one node: its ranks' verdicts, then the node's own, last."""
        self._judged.pop(node.name, None)
        survey, t = self._look(view), self.thresholds
        fast, slow = node.window(t.fast_window), node.window(t.slow_window)
        latest = node.window(_LATEST_S)
        if node.stale or fast is None or slow is None or latest is None:
            return (self._unread(view, node),)
        if slow.seconds < _ENOUGH * t.fast_window:
            why = f"watching since {slow.seconds:.0f} s"
            since = Finding("samples", slow.seconds, "s", t.fast_window, why)
            return (self._blank(view, node, why, since),)
        look = Look(view.now_us, node, fast, slow, latest, survey, t, self._baseline)
        ranks, group = opinions(look, self._learned)
        named = tuple(r for r in ranks if r.rank)
        ours = [r for r in ranks if r.group == group]
        judged = _Judged(nodes.judge(node.name, group, ours, t), named)
        self._judged[node.name] = judged
        return tuple(self._settle(view, opinion) for opinion in (*named, judged.node))

    def job(self, view: View, verdicts: Sequence[tuple[Verdict, ...]]) -> JobVerdict:
        """Judge the job from its nodes' verdicts, in the order of `view.nodes`."""
        t, survey = self.thresholds, self._look(view)
        judged = [self._judged[n.name] for n in view.nodes if n.name in self._judged]
        part = [j for j in judged if survey.job(j.node.node, j.node.group) == survey.main]
        found = charges(
            [j.node for j in part],
            [r for j in part for r in j.ranks if r.group == j.node.group],
            self._unseen(view, survey, [j.node.node for j in part]),
            t,
        )
        scores: dict[Claim, float] = {}
        easing = bool(part) and all(j.node.easing for j in part)
        for charge in found[:-1]:
            scores.setdefault(charge.claim, charge.found.confidence)
        track = step(self._tracks.get(_JOB), view.now_us, scores, t, easing=easing)
        self._tracks[_JOB] = track
        shares = rank.mean([j.node.shares for j in part])
        verdict = statement.of_job(found, track, shares, _others(survey), t)
        working = track.shown.state == "COMPUTE"
        pace = follow(self._pace, view.now_us, shares, working=working)
        self._pace = follow_steps(pace, view.progress)
        self._forget(view.now_us)
        return JobVerdict(
            job=verdict,
            nodes=tuple(statement.blame(parts[-1], verdict) for parts in verdicts),
            ranks=tuple(statement.blame(v, verdict) for parts in verdicts for v in parts[:-1]),
            recurring=self._recurring(view),
            slowdown=slowdown(self._pace, t),
        )

    def _look(self, view: View) -> Survey:
        if self._survey is None or self._survey[0] != view.event_no:
            lost, blamed = lost_by_steps(self._pace), self._blamed()
            self._survey = (view.event_no, Survey(view, self.thresholds, lost, *blamed))
        return self._survey[1]

    def _blamed(self) -> tuple[frozenset[str], ShownState]:
        """Return the nodes that the job's verdict, as it stands, names for a fault, and for what."""
        shown = self._tracks[_JOB].shown if _JOB in self._tracks else UNKNOWN
        at_fault = shown.state in (*rank.LOCAL, "NETWORK")
        nodes = frozenset(node for c in shown.culprits for node in c.nodes if at_fault)
        return nodes, shown.state

    def _settle(self, view: View, opinion: Opinion) -> Verdict:
        """Let time have its say."""
        key = _key(opinion.node, opinion.group, opinion.rank)
        scores: dict[Claim, float] = {}
        for found in opinion.ranking:
            scores.setdefault(Claim(found.state, found.cause), found.confidence)
        track = step(self._left(key), view.now_us, scores, self.thresholds, easing=opinion.easing)
        self._tracks[key] = track
        return statement.of_unit(opinion, track, self.thresholds)

    def _left(self, key: str) -> Track | None:
        """Return a track as it was left: at an end where ticks passed without it for too long."""
        track, job = self._tracks.get(key), self._tracks.get(_JOB)
        if track is None or job is None:
            return track
        away_us = job.seen_us - track.seen_us
        return reset(track, track.seen_us) if away_us >= self.thresholds.exit_after * 1e6 else track

    def _unread(self, view: View, node: NodeView) -> Verdict:
        age_s = None if node.age_us is None else node.age_us / 1e6
        late_s = node.interval_us / 1e6
        why = "no sample yet" if age_s is None else f"no sample for {age_s:.0f} s"
        if not node.stale:
            why = "watching since 0 s"
        elif node.link is not None and node.link.reason:
            why = f"{why}, {node.link.reason}"
        return self._blank(view, node, why, Finding("samples", age_s, "s", late_s, why))

    def _blank(self, view: View, node: NodeView, why: str, since: Finding) -> Verdict:
        key = _key(node.name, None, None)
        track = self._tracks[key] = reset(self._tracks.get(key), view.now_us)
        return statement.unseen(node.name, track, why, since)

    def _unseen(self, view: View, survey: Survey, part: Sequence[str]) -> Unseen:
        hidden = tuple(n.name for n in view.nodes if n.name not in self._judged)
        ranks = survey.peers.ranks.get(survey.main, 0) - survey.seen.get(survey.main, 0)
        by_nodes = len(hidden) / (len(part) + len(hidden)) if part else 0.0
        total = survey.peers.ranks.get(survey.main, 0)
        seen = [self._judged[n.name].node for n in view.nodes if n.name in self._judged]
        empty = tuple(o.node for o in seen if o.node not in part and o.group is None)
        return Unseen(hidden, empty, ranks, max(by_nodes, ranks / total if total else 0.0))

    def _recurring(self, view: View) -> tuple[Recurring, ...]:
        t, found = self.thresholds, []
        if _JOB in self._tracks:
            found += recurring(self._tracks[_JOB], "job", None, view.now_us, t)
        for node in view.nodes:
            track = self._tracks.get(_key(node.name, None, None))
            if track is not None:
                found += recurring(track, "node", node.name, view.now_us, t)
        return tuple(found)

    def _forget(self, now_us: int) -> None:
        for kept in (self._tracks, self._learned):
            for key in [k for k, v in kept.items() if v.seen_us < now_us - _FORGET_US]:
                del kept[key]


def _key(node: str, group: str | None, rank: str | None) -> str:
    return f"node {node}" if rank is None else f"rank {node} {group} {rank}"


def _others(survey: Survey) -> str:
    others = sum(1 for job in survey.seen if job not in (survey.main, UNSEEN))
    if not others:
        return ""
    return f"; {others} more {'job' if others == 1 else 'jobs'} there, judged apart"
