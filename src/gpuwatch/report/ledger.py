"""GPU time by what it went into, with every wait booked on the cause of who was waited for."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from gpuwatch.job.types import Cost
from gpuwatch.model.verdict import Verdict
from gpuwatch.report.timeline import Key, Moment, word
from gpuwatch.report.types import Ledger

__all__ = ["Bookings", "Books"]

IMBALANCE = "COMPUTE/imbalance"


class Bookings:
    """On what each rank's time is booked now, kept up as verdicts change.

    Attributes:
        verdicts: of the job, the nodes and the ranks.
        count: how many ranks' time is booked on each state and cause.
    """

    def __init__(self) -> None:
        self.verdicts: dict[Key, Verdict] = {}
        self.count: Counter[str] = Counter()
        self._booked: dict[Key, str] = {}
        self._waiting: set[Key] = set()

    def say(self, changed: Mapping[Key, Verdict | None]) -> list[Key]:
        """Take what changed; return the keys whose state, cause or culprits are others."""
        others = [key for key, verdict in changed.items() if self._is_other(key, verdict)]
        for key in others:
            verdict = changed[key]
            if verdict is None:
                del self.verdicts[key]
            else:
                self.verdicts[key] = verdict
        ranks = {key for key in others if key.scope == "rank"}
        if len(ranks) < len(others):
            ranks |= self._waiting  # whom they wait for may wait for something else now
        for key in ranks:
            self._book(key)
        return others

    def _is_other(self, key: Key, verdict: Verdict | None) -> bool:
        before = self.verdicts.get(key)
        if before is None or verdict is None:
            return before is not verdict
        return (before.state, before.cause, before.culprits) != (
            verdict.state, verdict.cause, verdict.culprits,
        )  # fmt: skip

    def _book(self, rank: Key) -> None:
        before = self._booked.pop(rank, None)
        if before is not None:
            self.count[before] -= 1
            if not self.count[before]:
                del self.count[before]
        self._waiting.discard(rank)
        if rank not in self.verdicts:
            return
        if self.verdicts[rank].state == "PEER":
            self._waiting.add(rank)
        self._booked[rank] = name = booked_on(rank, self.verdicts)
        self.count[name] += 1


class Books:
    """Adds up moments; one rank is one GPU."""

    def __init__(self) -> None:
        self._bookings = Bookings()
        self._hours: defaultdict[str, float] = defaultdict(float)
        self._lost: defaultdict[str, float] = defaultdict(float)
        self._shares: defaultdict[str, defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        self._unseen = 0.0
        self._seen_hours = 0.0
        self._ranks: set[Key] = set()
        self._gone: set[Key] = set()
        self._since: dict[str, tuple[str, float]] = {}

    def add(self, moment: Moment) -> None:
        """Take the next moment."""
        said, hours = moment.said, moment.hours
        if said is None:
            self._see_nothing(hours)
            return
        verdicts = self._bookings.verdicts
        for key in self._bookings.say(said.changed):
            if key.scope == "rank":
                self._ranks.add(key)
                (self._gone.discard if key in verdicts else self._gone.add)(key)
            elif key.scope == "node":
                self._note(str(key.node), verdicts.get(key))
        lost = hours * _lost_share(said.slowdown)
        for name, ranks in self._bookings.count.items():
            self._hours[name] += ranks * hours
            self._lost[name] += ranks * lost
        self._unseen += sum(_dark(key, verdicts) for key in self._gone) * hours
        self._seen_hours += hours

    def _see_nothing(self, hours: float) -> None:
        self._unseen += len(self._ranks) * hours
        for node in self._since:
            self._note(node, None)
        self._seen_hours += hours
        for node in self._since:
            self._note(node, self._bookings.verdicts.get(Key("node", node)))

    def _note(self, node: str, verdict: Verdict | None) -> None:
        """Let a node be in a state from now on."""
        if before := self._since.get(node):
            self._shares[node][before[0]] += self._seen_hours - before[1]
        self._since[node] = (word(verdict) if verdict else "UNKNOWN", self._seen_hours)

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
        for node, (now, since) in sorted(self._since.items()):
            hours = self._shares[node] | {now: self._shares[node].get(now, 0.0) + total - since}
            part = {name: spent / total for name, spent in sorted(hours.items()) if spent}
            late = 1.0 - sum(part.values())
            if late > 1e-9:
                part["UNKNOWN"] = part.get("UNKNOWN", 0.0) + late
            shares[node] = part
        return shares


def _lost_share(slowdown: float | None) -> float:
    """Return which share of a time would not be needed at the job's best pace.

    Who waits may work besides. Where the pace is not known, it is all of it, at most.
    """
    return 1.0 if slowdown is None else 1.0 - 1.0 / max(1.0, slowdown)


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
