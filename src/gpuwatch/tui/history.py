"""What the strips and lanes show: what each lane said and when, and how much each node computed.

A lane keeps only when its words changed, so that three weeks of a calm job are a few entries and
any zoom is drawn from the same ones. Times are the viewer's monotonic clock: a replay that goes
back finds what was drawn before, and what was never seen stays a gap.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque

from gpuwatch.model.verdict import LETTERS, JobVerdict, Verdict
from gpuwatch.tui.paint.words import computing, culprits, state_words

__all__ = ["BUCKET_S", "JOB", "STRIP_BUCKETS", "History", "Key", "key_of"]

BUCKET_S = 5
"""Seconds of a letter beside the nodes, and of a strip's bucket."""
STRIP_BUCKETS = 60
"""Buckets of an activity strip: 5 minutes."""
KEPT_BUCKETS = 2 * STRIP_BUCKETS
"""Buckets that are kept: a replay may go back a little."""
RUNS = 4096
"""Changes that a lane keeps; the oldest are forgotten a quarter at a time."""
WORDINGS = 4096
"""Different words that are told apart; after so many, only states are."""
NAMED = 3
"""Culprits of the job that its lane names."""
GAP = 0
"""Place of nothing among the words."""

Key = tuple[str, ...]
"""Whose lane: () is the job's, (node), (node, group, rank)."""
JOB: Key = ()


def key_of(verdict: Verdict) -> Key:
    """Return whose lane a verdict belongs to."""
    if verdict.scope == "job":
        return JOB
    node = verdict.node or "?"
    return (node,) if verdict.scope == "node" else (node, verdict.group or "", verdict.rank or "?")


class _Lane:
    """Runs of one word each, from `starts[i]` until the next; the last ends at `until_us`."""

    __slots__ = ("says", "starts", "until_us")

    def __init__(self) -> None:
        self.starts = array("q")
        self.says = array("h")
        self.until_us = 0

    def mark(self, begin_us: int, end_us: int, word: int) -> None:
        """Let the lane say a word from a moment until another, whatever it said before."""
        if self.starts and begin_us < self.until_us:
            self._change(begin_us, end_us, word)
            return
        if self.starts and begin_us > self.until_us:
            self._push(self.until_us, GAP)
        self._push(begin_us, word)
        self.until_us = end_us

    def _push(self, begin_us: int, word: int) -> None:
        if self.says and self.says[-1] == word:
            return
        self.starts.append(begin_us)
        self.says.append(word)
        self._forget()

    def _forget(self) -> None:
        if len(self.starts) > RUNS:
            del self.starts[: RUNS // 4]
            del self.says[: RUNS // 4]

    def _change(self, begin_us: int, end_us: int, word: int) -> None:
        place = bisect_right(self.starts, begin_us) - 1
        until_us = self.starts[place + 1] if place + 1 < len(self.starts) else self.until_us
        if place >= 0 and self.says[place] == word and end_us <= until_us:
            return
        after = self.at(end_us)
        first, last = bisect_left(self.starts, begin_us), bisect_right(self.starts, end_us)
        starts, says = [begin_us], [word]
        if end_us < self.until_us:
            starts.append(end_us)
            says.append(after)
        self.starts[first:last] = array("q", starts)
        self.says[first:last] = array("h", says)
        self.until_us = max(self.until_us, end_us)
        for place in range(min(first + len(starts), len(self.says) - 1), max(0, first - 1), -1):
            if self.says[place] == self.says[place - 1]:
                del self.starts[place]
                del self.says[place]
        self._forget()

    def at(self, moment_us: int) -> int:
        """Return the word of a moment."""
        place = bisect_right(self.starts, moment_us) - 1
        return self.says[place] if place >= 0 and moment_us < self.until_us else GAP

    def most(self, begin_us: int, bucket_us: int, buckets: int) -> list[int]:
        """Return the word that lasted longest in each bucket; a gap only where there was none."""
        row = [GAP] * buckets
        longest = [0] * buckets
        end_us = min(self.until_us, begin_us + bucket_us * buckets)
        place = max(0, bisect_right(self.starts, begin_us) - 1)
        while place < len(self.starts) and self.starts[place] < end_us:
            later = place + 1 < len(self.starts)
            until = min(end_us, self.starts[place + 1] if later else self.until_us)
            since = max(begin_us, self.starts[place])
            word = self.says[place]
            place += 1
            if word == GAP or until <= since:
                continue
            first, last = (since - begin_us) // bucket_us, (until - 1 - begin_us) // bucket_us
            row[first + 1 : last] = [word] * (last - first - 1)
            for edge in {first, last}:
                edge_us = begin_us + edge * bucket_us
                taken = min(until, edge_us + bucket_us) - max(since, edge_us)
                if taken > longest[edge]:
                    row[edge], longest[edge] = word, taken
        return row


class _Activity:
    """Compute shares of one node in one bucket."""

    __slots__ = ("no", "seen", "total")

    def __init__(self, no: int) -> None:
        self.no = no
        self.total = 0.0
        self.seen = 0


class History:
    """Lanes of the job, its nodes and its ranks."""

    def __init__(self) -> None:
        self._lanes: dict[Key, _Lane] = {}
        self._activity: dict[str, deque[_Activity]] = {}
        self._words: list[tuple[str, str]] = [("", "")]
        self._places: dict[tuple[str, str], int] = {}

    def add(self, begin_us: int, now_us: int, verdict: JobVerdict) -> None:
        """Take the verdicts of a tick that is shown, which tell of the time since `begin_us`."""
        self.mark(begin_us, now_us, verdict)
        no = now_us // (BUCKET_S * 1_000_000)
        for node in verdict.nodes:
            share = computing(node)
            if share is not None:
                bucket = self._bucket(node.node or "?", no)
                bucket.total += share
                bucket.seen += 1

    def mark(self, begin_us: int, now_us: int, verdict: JobVerdict) -> None:
        """Take what verdicts say, without how much was computed."""
        for one in (verdict.job, *verdict.nodes, *verdict.ranks):
            self.lay(begin_us, now_us, one)

    def lay(self, begin_us: int, now_us: int, verdict: Verdict) -> None:
        """Take what one verdict says."""
        key = key_of(verdict)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        lane.mark(begin_us + 1, now_us + 1, self._word(verdict))

    def _word(self, verdict: Verdict) -> int:
        said = state_words(verdict)
        if verdict.scope == "job" and verdict.culprits and verdict.state != "PEER":
            said = f"{said} · {', '.join(culprits(verdict.culprits[:NAMED]))}"
        words = LETTERS[verdict.state], said
        place = self._places.get(words)
        if place is None:
            if len(self._words) >= WORDINGS:
                words = words[0], verdict.state
            place = self._places.setdefault(words, len(self._words))
            if place == len(self._words):
                self._words.append(words)
        return place

    def _bucket(self, node: str, no: int) -> _Activity:
        """Return a bucket of a node; going back in time forgets those that came after."""
        row = self._activity.setdefault(node, deque(maxlen=KEPT_BUCKETS))
        while row and row[-1].no > no:
            row.pop()
        if not row or row[-1].no < no:
            row.append(_Activity(no))
        return row[-1]

    @property
    def since_us(self) -> int:
        """The first moment that is known; 0 where none is."""
        lane = self._lanes.get(JOB)
        return 0 if lane is None or not lane.starts else lane.starts[0]

    @property
    def until_us(self) -> int:
        """The last moment that is known: of a replay that went back, later than what is shown."""
        lane = self._lanes.get(JOB)
        return 0 if lane is None else lane.until_us - 1

    def letters(
        self, key: Key, end_us: int, buckets: int, bucket_s: int = BUCKET_S
    ) -> list[str | None]:
        """Return the letters of a lane, oldest first; None where nothing was seen.

        Args:
            key: of the lane.
            end_us: a moment in the last bucket; buckets begin at multiples of their length.
            buckets: how many.
            bucket_s: seconds of each; its letter is that of the words that lasted longest in it.
        """
        lane = self._lanes.get(key)
        if lane is None:
            return [None] * buckets
        bucket_us = bucket_s * 1_000_000
        begin_us = (end_us // bucket_us - buckets + 1) * bucket_us
        words = self._words
        return [words[place][0] or None for place in lane.most(begin_us, bucket_us, buckets)]

    def words(self, key: Key, moment_us: int) -> str | None:
        """Return what a lane said at a moment; None where nothing was seen."""
        lane = self._lanes.get(key)
        return None if lane is None else self._words[lane.at(moment_us)][1] or None

    def activity(self, node: str, now_us: int, cells: int) -> list[float | None]:
        """Return the compute share over 5 minutes, oldest first; None where nothing was seen.

        Args:
            node: its name.
            now_us: where the strip ends.
            cells: of the strip; a divisor of STRIP_BUCKETS.
        """
        end = now_us // (BUCKET_S * 1_000_000)
        each = STRIP_BUCKETS // cells
        totals, seen = [0.0] * cells, [0] * cells
        for bucket in self._activity.get(node, ()):
            place = (bucket.no - end + STRIP_BUCKETS - 1) // each
            if 0 <= place < cells:
                totals[place] += bucket.total
                seen[place] += bucket.seen
        return [t / n if n else None for t, n in zip(totals, seen, strict=True)]
