"""The timeline's page: lanes through time at any zoom, a cursor through all, facts where it stands."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwatch.tui.history import JOB, Key
from gpuwatch.tui.paint.log import entry, sign
from gpuwatch.tui.paint.numbers import clock, duration
from gpuwatch.tui.paint.spans import GAP, Line, Span, clip, fit, safe
from gpuwatch.tui.paint.strip import ROLES, lane
from gpuwatch.tui.paint.timeline import LABEL, label, legend, ranks
from gpuwatch.tui.paint.words import role_of_words
from gpuwatch.tui.scene import Scene

__all__ = ["ZOOMS", "Sight", "closest", "facts", "lanes", "nodes_of", "row", "scale", "sight"]

ZOOMS = (1, 2, 5, 15, 60, 300, 900, 3600)
"""Seconds of a letter."""
MARKS = (1, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
"""Seconds between times of the scale."""
APART = 12
"""Cells between them, at least."""
DAY_S = 86_400
NEAR_US = 5_000_000
"""What happened so near to the cursor is told."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The stretch of time that is seen; moments on the viewer's monotonic clock.

    Attributes:
        bucket_s: seconds of a letter.
        first: number of the first bucket.
        buckets: how many.
        cursor_us: the moment that the cursor stands at.
        follows: whether the cursor stays at now.
    """

    bucket_s: int
    first: int
    buckets: int
    cursor_us: int
    follows: bool

    @property
    def bucket_us(self) -> int:
        """Microseconds of a letter."""
        return self.bucket_s * 1_000_000

    @property
    def end_us(self) -> int:
        """A moment in the last bucket."""
        return (self.first + self.buckets - 1) * self.bucket_us

    def moment(self, column: int) -> int:
        """Return the middle of the bucket that is drawn in a column."""
        return (self.first + column) * self.bucket_us + self.bucket_us // 2

    def column(self, moment_us: int) -> int:
        """Return where a moment is drawn; outside of 0 to `buckets` it is not in sight."""
        return moment_us // self.bucket_us - self.first


def sight(scene: Scene, bucket_s: int, cursor_us: int | None, cells: int) -> Sight:
    """Return what is in sight: now on the right, unless the cursor stands somewhere else.

    Where more is known than what is shown, as after a replay went back, that is seen as well.

    Args:
        scene: what is shown.
        bucket_s: seconds of a letter.
        cursor_us: where the cursor stands; None: at now.
        cells: of the page.
    """
    buckets = max(1, cells - LABEL - 2)
    bucket_us = bucket_s * 1_000_000
    now = scene.view.now_us
    at_us = now if cursor_us is None else cursor_us
    last = max(now, scene.history.until_us) // bucket_us
    end = min(last, now // bucket_us + buckets // 3)
    at = at_us // bucket_us
    if not end - buckets < at <= end:
        end = min(last, at + buckets // 2)
    return Sight(bucket_s, end - buckets + 1, buckets, at_us, cursor_us is None)


def closest(scene: Scene, widest: int, cells: int) -> int:
    """Return the finest zoom that shows all that is known, at most a certain one.

    Args:
        scene: what is shown.
        widest: number of the zoom that is returned where none does.
        cells: of the page.
    """
    known_us = scene.history.until_us - scene.history.since_us
    room_us = max(1, cells - LABEL - 2) * 1_000_000
    return next((i for i, zoom in enumerate(ZOOMS[:widest]) if zoom * room_us >= known_us), widest)


def nodes_of(scene: Scene, names: Sequence[str], chosen: str | None, room: int) -> list[Key]:
    """Return which lanes there are: of nodes, and of ranks while all fit, else of the chosen one's.

    Args:
        scene: what is shown.
        names: of the nodes, in their order.
        chosen: the cursor's node.
        room: lines.
    """
    of_ranks = {name: ranks(scene, name) for name in names}
    every = len(names) + sum(map(len, of_ranks.values())) <= room
    keys: list[Key] = []
    for name in names:
        keys.append((name,))
        if every or name == chosen:
            keys += of_ranks[name]
    return keys


def scale(scene: Scene, seen: Sight) -> list[Line]:
    """Return the lines above the lanes: what happened, times, the job's lane."""
    return [
        ((" " + fit("events", LABEL), "faint"), *_signs(scene, seen)),
        (_zoom(seen), *_times(scene, seen)),
        row(scene, seen, JOB, chosen=False),
    ]


def _zoom(seen: Sight) -> Span:
    return " " + fit(f"{duration(seen.bucket_us)} a letter", LABEL), "faint"


def _signs(scene: Scene, seen: Sight) -> Line:
    """Return one sign a bucket: of the newest of what happened in it."""
    shift = scene.view.now_us - scene.view.wall_us
    signs: dict[int, Span] = {}
    for incident in scene.incidents:
        column = seen.column(incident.wall_us + shift)
        if 0 <= column < seen.buckets and incident.kind != "verdict":
            signs.setdefault(column, sign(incident))
    return tuple(signs.get(x, (" ", "text")) for x in range(max(signs, default=-1) + 1))


def _times(scene: Scene, seen: Sight) -> Line:
    """Return times of day at round moments, each beginning at its own."""
    wall_s = (scene.view.wall_us - scene.view.now_us) // 1_000_000
    apart = next((m for m in MARKS if m >= APART * seen.bucket_s and m % seen.bucket_s == 0), DAY_S)
    pattern = "%d %H:%M" if apart >= DAY_S // 4 else "%H:%M:%S" if apart < 60 else "%H:%M"
    text = [" "] * seen.buckets
    now = seen.column(scene.view.now_us)
    if 0 <= now < seen.buckets and scene.history.until_us > scene.view.now_us:
        text[max(0, now - 3) : now + 1] = "now▾"[-(now + 1) :]
    for x in range(seen.buckets):
        begin_s = (seen.first + x) * seen.bucket_s + wall_s
        if begin_s % apart < seen.bucket_s:
            said = "╷" + clock(begin_s // apart * apart * 1_000_000, pattern=pattern)
            end = x + len(said)
            if end <= seen.buckets and set(text[x : end + 1]) == {" "}:
                text[x:end] = said
    return (("".join(text), "faint"),)


def row(scene: Scene, seen: Sight, key: Key, *, chosen: bool) -> Line:
    """Return one lane, with the cursor through it."""
    letters = scene.history.letters(key, seen.end_us, seen.buckets, seen.bucket_s)
    name, role = label(key, "▸" if chosen else " ")
    at = seen.column(seen.cursor_us)
    head: Span = (name, "cursor" if chosen else role)
    if seen.follows or not 0 <= at < seen.buckets:
        return (head, *lane(letters))
    said = letters[at]
    under: Span = ("│", "cursor") if said is None else (said, f"chip-{ROLES.get(said, 'unknown')}")
    return (head, *lane(letters[:at]), under, *lane(letters[at + 1 :]))


def lanes(scene: Scene, seen: Sight, keys: Sequence[Key], chosen: str | None) -> list[Line]:
    """Return all lanes."""
    return [row(scene, seen, key, chosen=key == (chosen,)) for key in keys]


def facts(
    scene: Scene, seen: Sight, keys: Sequence[Key], chosen: str | None, cells: int, lines: int
) -> list[Line]:
    """Return in exactly `lines` lines what the letters mean, and what was where the cursor stands."""
    history, now, at = scene.history, scene.view.now_us, seen.cursor_us
    shown = {c for k in keys for c in history.letters(k, seen.end_us, seen.buckets, seen.bucket_s)}
    wall_us = scene.view.wall_us + at - now
    rows: list[Line] = [legend(shown), _when(wall_us, now - at)]
    told: list[Key] = [JOB] if chosen is None else [JOB, (chosen,)]
    rows += [_said(history.words(key, at), key) for key in told]
    near = max(seen.bucket_us, NEAR_US)
    rows += [entry(i) for i in scene.incidents if abs(i.wall_us - wall_us) <= near]
    rows += [()] * (lines - len(rows))
    return [clip(line, cells) for line in rows[:lines]]


def _when(wall_us: int, behind_us: int) -> Line:
    if abs(behind_us) < 1_000_000:
        return ((f" {clock(wall_us)}", "strong"), (", now", "dim"))
    far = f", {duration(abs(behind_us))} {'before' if behind_us > 0 else 'after'} now"
    return ((f" {clock(wall_us)}", "strong"), (far, "dim"))


def _said(words: str | None, key: Key) -> Line:
    name: Span = (f"   {fit(safe(key[0]) if key else 'job', LABEL)}", "dim")
    if words is None:
        return (name, (f"{GAP} not seen", "gap"))
    return (name, (words, role_of_words(words)))
