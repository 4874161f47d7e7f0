"""GPU time by what it went into, with every wait booked on the cause of who was waited for."""

from collections import defaultdict
from collections.abc import Mapping

from gpuwatch.job.types import Cost
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.report.timeline import Key, Moment, word
from gpuwatch.report.types import Ledger

__all__ = ["Books", "booked_on"]

IMBALANCE = "COMPUTE/imbalance"


class Books:
    """Adds up moments; one rank is one GPU."""

    def __init__(self) -> None:
        self._hours: defaultdict[str, float] = defaultdict(float)
        self._lost: defaultdict[str, float] = defaultdict(float)
        self._shares: defaultdict[str, defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        self._unseen = 0.0
        self._seen_hours = 0.0
        self._ranks: set[Key] = set()
        self._nodes: set[Key] = set()

    def add(self, moment: Moment) -> None:
        """Take the next moment."""
        verdicts = moment.by_key()
        ranks = {key for key in verdicts if key.scope == "rank"}
        self._ranks |= ranks
        lost = moment.hours * _lost_share(moment.verdict)
        for key in ranks:
            name = booked_on(key, verdicts)
            self._hours[name] += moment.hours
            self._lost[name] += lost
        dark = (key for key in self._ranks - ranks if _dark(key, verdicts))
        self._unseen += sum(1 for _ in dark) * moment.hours
        self._nodes |= {key for key in verdicts if key.scope == "node"}
        self._seen_hours += moment.hours
        for key in self._nodes:
            known = verdicts.get(key)
            self._shares[str(key.node)][word(known) if known else "UNKNOWN"] += moment.hours

    @property
    def hours(self) -> float:
        """Over how many hours time was added up."""
        return self._seen_hours

    def ledger(self, cost: Cost | None) -> Ledger:
        """Return what was added up, priced where a price is given."""
        hours = dict(sorted(self._hours.items()))
        amount, currency = None, None
        if cost is not None:
            amount = {n: round(h * cost.gpu_hour, 2) for n, h in hours.items() if n != "COMPUTE"}
            currency = cost.currency
        return Ledger(
            gpu_hours=sum(hours.values()) + self._unseen,
            by=hours,
            unseen=self._unseen,
            amount=amount,
            currency=currency,
            gain=self._gain(),
        )

    def _gain(self) -> dict[str, float]:
        """Return by which factor the job would be faster without each wait.

        Of what is not known, and where nothing else was seen, nothing can be said.
        """
        seen = sum(self._hours.values())
        return {
            name: seen / (seen - lost)
            for name, lost in sorted(self._lost.items())
            if name not in {"COMPUTE", "UNKNOWN"} and lost < seen
        }

    def shares(self) -> dict[str, dict[str, float]]:
        """Return for each node the share of all time in each state; what was not seen is UNKNOWN."""
        total = self._seen_hours
        shares = {}
        for node, hours in sorted(self._shares.items()):
            part = {name: spent / total for name, spent in sorted(hours.items())}
            late = 1.0 - sum(part.values())
            if late > 1e-9:
                part["UNKNOWN"] = part.get("UNKNOWN", 0.0) + late
            shares[node] = part
        return shares


def _lost_share(verdict: JobVerdict | None) -> float:
    """Return which share of a time would not be needed at the job's best pace.

    Who waits may work besides. Where the pace is not known, it is all of it, at most.
    """
    if verdict is None or verdict.slowdown is None:
        return 1.0
    return 1.0 - 1.0 / max(1.0, verdict.slowdown)


def booked_on(key: Key, verdicts: Mapping[Key, Verdict]) -> str:
    """Return the state and cause that a rank's time is booked on.

    A rank that waits for a peer is followed to whom it waits for, and so on; whoever waits for
    one that computes waits for an imbalance. Where the trail is lost, the job's own verdict says
    it, and UNKNOWN where that is a wait for a peer as well.
    """
    own = verdicts[key]
    if own.state != "PEER":
        return word(own)
    followed: set[Key] = {key}
    waited_for = _waited_for(own, verdicts)
    while waited_for is not None and waited_for not in followed:
        followed.add(waited_for)
        theirs = verdicts[waited_for]
        if theirs.state == "COMPUTE":
            return IMBALANCE
        if theirs.state != "PEER":
            return word(theirs)
        waited_for = _waited_for(theirs, verdicts)
    job = verdicts.get(Key("job"))
    return "UNKNOWN" if job is None or job.state in {"PEER", "COMPUTE"} else word(job)


def _waited_for(verdict: Verdict, verdicts: Mapping[Key, Verdict]) -> Key | None:
    """Return the node waited for: its verdict is that of its ranks that wait least."""
    for culprit in verdict.culprits:
        nodes = culprit.nodes or ((culprit.id,) if culprit.kind == "node" else ())
        for node in nodes:
            if (key := Key("node", node)) in verdicts:
                return key
    return None


def _dark(rank: Key, verdicts: Mapping[Key, Verdict]) -> bool:
    """Tell whether a rank that has no verdict was unseen, rather than gone."""
    node = verdicts.get(Key("node", rank.node))
    return node is None or node.state == "UNKNOWN"
