"""From what one tick says and what time made of it to the Verdict that is shown."""

from collections.abc import Sequence

import msgspec

from gpuwatch.model.verdict import Candidate, Culprit, Finding, Missing, Shares, Verdict
from gpuwatch.verdict.charge import Charge
from gpuwatch.verdict.evidence import Assessment
from gpuwatch.verdict.hysteresis import UNKNOWN, Claim, Track
from gpuwatch.verdict.rank import Opinion, name_of
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["blame", "of_job", "of_unit", "unseen"]

_MOST = 0.97
"""Nothing that is seen from outside is certain."""
_UNSUSPECTED_CAP = 0.5
_UNCONFIRMED_CAP = 0.8
_AMBIGUOUS_CAP = 0.6
_NOBODY_CAP = 0.5
"""What waits like all others, for nobody that is surely to blame, may as well wait for the network."""
_MOST_CANDIDATES = 3
_DIGITS = 4
"""Of shares that are shown and recorded: more are noise, and half of what a recording keeps of them."""
_HELD = {
    "COMPUTE": "computes", "NETWORK": "waits on the network", "STORAGE": "waits on storage",
    "CPU": "waits on CPUs", "PEER": "waits for another", "GPU": "has a slow GPU", "IDLE": "is idle",
}  # fmt: skip


def of_unit(opinion: Opinion, track: Track, t: Thresholds) -> Verdict:
    """Return the verdict of a rank or a node."""
    found = _shown(opinion.ranking, track, t)
    blamed: tuple[Culprit, ...] = ()
    if opinion.low and track.shown != UNKNOWN:
        blamed = tuple(
            Culprit("rank", name_of(opinion.node, rank), (opinion.node,)) for rank in opinion.low
        )
    rivals = _rivals(found, opinion.ranking, t)
    return Verdict(
        scope="node" if opinion.rank is None else "rank",
        node=opinion.node,
        rank=opinion.rank,
        group=opinion.group,
        state=track.shown.state,
        cause=track.shown.cause,
        culprits=blamed,
        episode_us=track.since_us,
        suspected_us=track.suspected_us,
        confirmed_us=track.confirmed_us,
        confidence=_confidence(found, track, rivals, t),
        support=found.support or _evidence(opinion.shares),
        against=_strongest(found.against),
        missing=_missing((*found.missing, *opinion.missing)),
        candidates=rivals,
        shares=_told(opinion.shares),
        text=f"{_subject(opinion)} {found.text}",
    )


def of_job(
    charges: Sequence[Charge], track: Track, shares: Shares | None, note: str, t: Thresholds
) -> Verdict:
    """Return the verdict of the job; `note` is added to its sentence."""
    charge = next((c for c in charges if c.claim == track.shown), None)
    if track.shown == UNKNOWN:
        charge = charges[-1]
    if charge is None:
        charge = Charge(_fading(track, charges[0].found, t), track.shown.culprits)
    found, culprits = charge.found, charge.culprits
    rivals = _rivals(found, [c.found for c in charges], t)
    return Verdict(
        scope="job",
        state=track.shown.state,
        cause=track.shown.cause,
        culprits=culprits,
        waiting=charge.waiting,
        episode_us=track.since_us,
        suspected_us=track.suspected_us,
        confirmed_us=track.confirmed_us,
        confidence=_confidence(found, track, rivals, t),
        support=found.support or _evidence(shares),
        against=_strongest(found.against),
        missing=_missing(found.missing),
        candidates=rivals,
        shares=_told(shares),
        text=_sentence(culprits, found.text, charge.waiting) + note,
    )


def _told(shares: Shares | None) -> Shares | None:
    """Round shares to what they can tell."""
    if shares is None:
        return None
    return Shares(
        compute=round(shares.compute, _DIGITS),
        spin=round(shares.spin, _DIGITS),
        starved=round(shares.starved, _DIGITS),
        idle=round(shares.idle, _DIGITS),
        unknown=round(shares.unknown, _DIGITS),
        levels=shares.levels,
    )


def unseen(node: str, track: Track, reason: str, since: Finding) -> Verdict:
    """Return the verdict of a node of which there is nothing fresh to judge."""
    return Verdict(
        scope="node",
        node=node,
        episode_us=track.since_us,
        support=(since,),
        missing=(Missing("samples", reason),),
        text=f"{node} cannot be judged: {reason}",
    )


def blame(verdict: Verdict, job: Verdict) -> Verdict:
    """Tell a waiting node or rank whom it waits for."""
    if verdict.state != "PEER":
        return verdict
    culprits = tuple(c for c in job.culprits if not _is_own(c, verdict))
    if job.state == "UNKNOWN" and not culprits:
        culprits = (Culprit("unknown", "unknown"),)
    named = [c.id for c in culprits if c.kind != "unknown" and c.kind != "job"]
    confidence = verdict.confidence
    if not named or job.state == "UNKNOWN":
        confidence = min(confidence, _NOBODY_CAP)
    text = verdict.text
    if named:
        text = text.replace("waits for another", f"waits for {_names(named)}", 1)
    return msgspec.structs.replace(verdict, culprits=culprits, confidence=confidence, text=text)


def _is_own(culprit: Culprit, verdict: Verdict) -> bool:
    """Tell whether a culprit is the very node or rank that is said to wait for it."""
    own = verdict.node or ""
    if verdict.rank is not None and culprit.kind in ("rank", "gpu"):
        return culprit.id == name_of(own, verdict.rank)
    return culprit.kind in ("node", "port", "rank", "gpu") and own in culprit.nodes


def _shown(ranking: Sequence[Assessment], track: Track, t: Thresholds) -> Assessment:
    """Return this tick's evidence for what is shown; it may have gone a moment ago."""
    for found in ranking:
        if Claim(found.state, found.cause) == track.shown:
            return found
    return _fading(track, ranking[0], t)


def _fading(track: Track, now: Assessment, t: Thresholds) -> Assessment:
    """Return what there is for a claim that is shown on: since when nothing, and what is seen now."""
    gone_s = 0.0 if track.low_us is None else (track.seen_us - track.low_us) / 1e6
    gone = Finding(
        "faded", round(gone_s, 1), "s", t.exit_after,
        f"not seen any more for {gone_s:.0f} s, given up after {t.exit_after:.0f} s",
    )  # fmt: skip
    text = _held(track.shown)
    return Assessment(
        track.shown.state, track.shown.cause, 0.0, support=(gone,), against=now.support, text=text
    )


def _held(claim: Claim) -> str:
    cause = f" ({claim.cause})" if claim.cause else ""
    return f"{_HELD.get(claim.state, 'waits')}{cause} until a moment ago"


def _confidence(
    found: Assessment, track: Track, rivals: Sequence[Candidate], t: Thresholds
) -> float:
    """Return the confidence of this tick, for less while time has not borne it out."""
    if track.shown == UNKNOWN:
        return 0.0
    cap = _MOST if track.confirmed_us is not None else _UNCONFIRMED_CAP
    if track.suspected_us is None:
        cap = _UNSUSPECTED_CAP
    if rivals and rivals[0].confidence > found.confidence - t.margin:
        cap = min(cap, _AMBIGUOUS_CAP)
    return round(min(cap, found.confidence), 3)


def _rivals(
    found: Assessment, ranking: Sequence[Assessment], t: Thresholds
) -> tuple[Candidate, ...]:
    """Return the other verdicts that the evidence allows: near in score, or over the threshold."""
    kinds: dict[tuple[str, str | None], Candidate] = {}
    for other in ranking:
        kind = (other.state, other.cause)
        if kind == (found.state, found.cause) or other.state == "UNKNOWN":
            continue
        if other.confidence < t.score / 2:
            continue
        if other.confidence >= min(t.score, found.confidence - t.margin):
            kinds.setdefault(kind, other.candidate())
    return tuple(kinds.values())[:_MOST_CANDIDATES]


def _strongest(against: Sequence[Finding]) -> tuple[Finding, ...]:
    """Put the fact first that comes nearest to its threshold."""
    return tuple(
        sorted(against, key=lambda f: -(f.value or 0.0) / f.threshold if f.threshold else 0.0)
    )


def _missing(missing: Sequence[Missing]) -> tuple[Missing, ...]:
    return tuple({m.signal: m for m in reversed(missing)}.values())[::-1]


def _evidence(shares: Shares | None) -> tuple[Finding, ...]:
    """Return a last resort of evidence: how the GPUs spent most of their time."""
    if shares is None:
        return (Finding("gpu", None, "", None, "no GPU was read"),)
    parts = {
        "computes": shares.compute,
        "spins": shares.spin,
        "is starved": shares.starved,
        "is idle": shares.idle,
        "cannot be told": shares.unknown,
    }
    word = max(parts, key=parts.__getitem__)
    return (Finding("gpu", parts[word] * 100, "%", None, f"GPU {word} {parts[word] * 100:.0f} %"),)


def _subject(opinion: Opinion) -> str:
    if opinion.rank is not None:
        return name_of(opinion.node, opinion.rank)
    if opinion.low:
        ranks = [name_of(opinion.node, rank).removesuffix(f" of {opinion.node}")
                 for rank in opinion.low]  # fmt: skip
        each = ": each" if len(ranks) > 1 else ""
        return f"{opinion.node}: {_names(ranks)}{each}"
    return opinion.node


def _sentence(culprits: Sequence[Culprit], text: str, waiting: Sequence[str]) -> str:
    named = [c.id for c in culprits if c.kind not in ("job", "unknown")]
    subject = _names(named) if named and "waits for " + _names(named) not in text else "the job"
    if named and all(c.kind == "mount" for c in culprits):
        return f"the job {text}, on {_names(named)}"  # which is what is waited for, and waits for nothing
    if any(c.kind == "job" for c in culprits):
        subject = "all nodes alike: each"
    elif len(named) > 1 and subject != "the job":
        subject = f"{subject}: each"
    tail = ""
    if waiting and named and subject != "the job":
        word = "node waits" if len(waiting) == 1 else "nodes wait"
        if waiting and " of " in waiting[0]:
            word = word.replace("node", "rank")
        tail = f"; {len(waiting)} {word} for {'it' if len(named) == 1 else 'them'}"
    return f"{subject} {text}{tail}"


def _names(names: Sequence[str]) -> str:
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
