"""Words change only when the verdict does: what is shown, since when, and how sure by time.

What would replace the claim that is shown must have led it by enough, summed over time (Page's
cumulative sum test, Biometrika 1954): a faint lead takes long, a clear one shows in two ticks. A
window's mean crosses a threshold half a window after the change, so what begins is dated half a
window back. Scores that come and go faster than a verdict lives are a job's own rhythm: each
verdict that ended unconfirmed a moment ago doubles the lead that the next one needs.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from gpuwatch.model.verdict import Culprit, Recurring, State
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["UNKNOWN", "Claim", "Episode", "Track", "recurring", "reset", "step"]

EPISODES = 16
"""Episodes that are kept a track."""
_RHYTHM_US = 36_000_000
"""What comes back later than this is no rhythm of steps: each time it comes is told and counted."""
_MOST_DOUBLINGS = 3
_LONGEST_TICK_S = 2.0
"""A tick counts for no longer: nothing is known of the time in which none came."""
_WAITS = ("STORAGE", "CPU", "MEMORY", "NETWORK", "HOST-LINK", "PEER")
_NO_LOSS = ("UNKNOWN", "COMPUTE", "IDLE", "PEER")


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """What is told apart over time: a state, its cause and, for the job, who is to blame."""

    state: State = "UNKNOWN"
    cause: str | None = None
    culprits: tuple[Culprit, ...] = ()


UNKNOWN = Claim()


class Episode(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of one claim that has ended."""

    state: State
    cause: str | None
    start_us: int
    end_us: int
    confirmed: bool


class Track(msgspec.Struct, frozen=True, array_like=True):
    """What is shown of one job, node or rank, and what would replace it: part of judge's state.

    `lead` is by how much the rival's score was above that of the claim shown, summed over seconds.
    """

    shown: Claim = UNKNOWN
    since_us: int = 0
    entered_us: int = 0
    suspected_us: int | None = None
    confirmed_us: int | None = None
    low_us: int | None = None
    rival: Claim | None = None
    rival_us: int = 0
    episodes: tuple[Episode, ...] = ()
    seen_us: int = 0
    lead: float = 0.0


def step(
    track: Track | None,
    now_us: int,
    scores: Mapping[Claim, float],
    thresholds: Thresholds,
    *,
    easing: bool = False,
) -> Track:
    """Carry a track on by one tick.

    Args:
        track: as the tick before left it; None for the first.
        now_us: viewer's monotonic clock.
        scores: confidence of every claim, in order of preference among equals.
        thresholds: of the judge.
        easing: whether it computes again: what its window saw of a wait is over, so no wait gains.
    """
    t = thresholds
    if track is None:
        track = Track(since_us=now_us, entered_us=now_us)
    best = max(scores, key=scores.__getitem__, default=UNKNOWN)
    if scores.get(best, 0.0) < t.score:
        best = UNKNOWN
    dated_us = now_us - round(t.fast_window * 0.5e6)
    shown = scores.get(track.shown, 0.0)
    low = shown < t.exit_score * t.score
    low_us = (track.low_us if track.low_us is not None else dated_us) if low else None
    rival, rival_us, lead = None, 0, 0.0
    if best != track.shown:
        rival, rival_us = best, dated_us
        if _same_wait(track.rival, best):
            rival_us, lead = track.rival_us, track.lead
        elapsed_s = (now_us - track.seen_us) / 1e6 if track.seen_us else 0.0
        if not (easing and best.state in _WAITS):
            lead += (scores.get(best, 0.0) - shown) * min(elapsed_s, _LONGEST_TICK_S)
    track = msgspec.structs.replace(
        track, low_us=low_us, rival=rival, rival_us=rival_us, lead=lead, seen_us=now_us
    )
    if rival is not None and _same_wait(track.shown, rival):
        if track.lead >= _lead_needed(track, now_us, t):
            track = msgspec.structs.replace(track, shown=rival, low_us=None, rival=None)
    elif rival is not None and _gives_way(track, rival, now_us, t):
        if lead < _lead_needed(track, now_us, t) and rival_us == dated_us:
            rival = UNKNOWN  # what fades gives way to nothing that came with this tick
        track = _enter(track, rival, max(rival_us, track.entered_us), now_us)
    return _age(track, now_us, t)


def reset(track: Track | None, now_us: int) -> Track:
    """Return a track that shows nothing: the node has no fresh samples."""
    if track is None:
        return Track(since_us=now_us, entered_us=now_us, seen_us=now_us)
    if track.shown == UNKNOWN:
        return msgspec.structs.replace(track, low_us=None, rival=None, seen_us=now_us)
    return _enter(track, UNKNOWN, now_us, now_us)


def recurring(
    track: Track,
    scope: Literal["job", "node", "rank"],
    node: str | None,
    now_us: int,
    thresholds: Thresholds,
) -> list[Recurring]:
    """Return what keeps coming back in a track, of the scope and node that it belongs to."""
    horizon_us = now_us - round(thresholds.recurring_within * 1e6)
    kinds: dict[tuple[State, str | None], list[Episode]] = {}
    for episode in track.episodes:
        if episode.end_us >= horizon_us and episode.state not in _NO_LOSS:
            kinds.setdefault((episode.state, episode.cause), []).append(episode)
    found = []
    for (state, cause), episodes in kinds.items():
        count = len(episodes)
        if count < thresholds.recurring_count:
            continue
        lost_s = sum(e.end_us - e.start_us for e in episodes) / 1e6
        period_s = (episodes[-1].start_us - episodes[0].start_us) / 1e6 / (count - 1)
        span_s = max(count * period_s, (now_us - episodes[0].start_us) / 1e6)
        share = min(1.0, lost_s / span_s) if span_s > 0 else 0.0
        found.append(
            Recurring(scope, node, state, cause, count, lost_s / count, period_s or None, share)
        )
    return found


def _same_wait(before: Claim | None, now: Claim) -> bool:
    """Tell whether a claim goes on: its cause may become clearer, and a wait does not begin anew by it."""
    return before is not None and (before.state, before.culprits) == (now.state, now.culprits)


def _gives_way(track: Track, rival: Claim, now_us: int, t: Thresholds) -> bool:
    if track.shown != UNKNOWN:
        if now_us - track.entered_us < t.dwell * 1e6:
            return False
        if track.low_us is not None and now_us - track.low_us >= t.exit_after * 1e6:
            return True
        if rival == UNKNOWN:
            return False
    return track.lead >= _lead_needed(track, now_us, t)


def _lead_needed(track: Track, now_us: int, t: Thresholds) -> float:
    """Return the lead, in score times seconds: that of the least score that counts for a while."""
    flaps = sum(not e.confirmed and e.end_us >= now_us - _RHYTHM_US for e in track.episodes)
    doubled: float = t.suspect_after * 2.0 ** min(flaps, _MOST_DOUBLINGS)
    return t.score * min(t.confirm_after, doubled)


def _enter(track: Track, claim: Claim, since_us: int, now_us: int) -> Track:
    episodes = track.episodes
    if track.shown != UNKNOWN:
        ended = Episode(
            track.shown.state,
            track.shown.cause,
            track.since_us,
            max(track.since_us, since_us),
            track.confirmed_us is not None,
        )
        episodes = (*episodes, ended)[-EPISODES:]
    return Track(
        shown=claim, since_us=since_us, entered_us=now_us, episodes=episodes, seen_us=now_us
    )


def _age(track: Track, now_us: int, t: Thresholds) -> Track:
    """Suspect what is shown, and confirm it when windows that all speak for it make a long one."""
    if track.shown == UNKNOWN or track.low_us is not None:
        return track
    spoken_us = now_us - track.since_us + round(t.fast_window * 0.5e6)
    suspected_us, confirmed_us = track.suspected_us, track.confirmed_us
    if suspected_us is None:
        suspected_us = now_us
    if confirmed_us is None and spoken_us >= t.confirm_after * 1e6:
        confirmed_us = now_us
    return msgspec.structs.replace(track, suspected_us=suspected_us, confirmed_us=confirmed_us)
