"""The only decoder of what agents send; its types are derived from the catalogue.

It takes bytes as a link delivers them and never fails: what is damaged is skipped and counted,
what is out of bounds becomes None and is counted, labels are made safe to show. Both are told as
`Damage` at the 1st, 2nd, 4th, 8th, ... time, so that a node that sends nothing but rubbish does
not fill a recording. The wire is described in `gpuwatch.agent.frame`.
"""

import zlib
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.frame import FLEETING, HEADER, MAGIC, MAX_BODY, MAX_LABEL
from gpuwatch.agent.metric import INT64_MAX, Label, Labels, Values
from gpuwatch.feed.message import Bye, Hello, Names, Sane, read
from gpuwatch.model.event import Row
from gpuwatch.model.text import sanitize

__all__ = ["Damage", "Decoded", "Decoder", "Farewell", "Frame", "Greeting"]

MAX_JSON = 1 << 20
"""Bytes of a body after decompression: ten times what a node of 8 GPUs and 64 ranks sends."""
INFLATION = 64, 8192
"""Factor, and bytes besides, by which a body may grow: counters do not shrink as a bomb does."""
MAX_ROWS = 8192
"""Rows of one frame, all scopes together: a view holds half a minute of them."""
CHECKED = 16
"""Bytes that may be checksummed for each byte that comes; sound frames take one."""
KEPT_GENERATIONS = 4
HELD_FRAMES = 5
"""Frames that wait for the names of their generation."""
MAX_FACT = 4096
"""Characters of a fact: all of a node's addresses are one."""
TRIED_MAGICS = 16
"""Later frames that are looked for behind one that does not become complete."""


class Greeting(msgspec.Struct, frozen=True):
    """An agent has started; `facts` as in `gpuwatch.model.event.Hello`."""

    agent_id: str
    boot_id: str
    facts: dict[str, str | int | float | None]


class Frame(msgspec.Struct, frozen=True):
    """One data frame; fields as in `gpuwatch.model.event.Sample`.

    Attributes:
        beat: last heartbeat that the agent had heard.
        beat_us: when, on the clock of `mono_us`.
    """

    agent_id: str
    boot_id: str
    sequence: int
    generation: int
    mono_us: int
    wall_us: int
    beat: int
    beat_us: int
    tables: tuple[tuple[Row, ...], ...]


class Farewell(msgspec.Struct, frozen=True):
    """An agent ends, and says why."""

    reason: str


class Damage(msgspec.Struct, frozen=True):
    """Something was skipped or dropped; `text` says what, and how often so far."""

    text: str


Decoded = Greeting | Frame | Farewell | Damage


_BOUNDS = tuple(tuple((r.low, r.high) for r in catalogue.VALUES[s]) for s in catalogue.SCOPES)


class Decoder:
    """Decodes one link's stream; a new link starts anew."""

    def __init__(self) -> None:
        self._bodies = _Bodies()
        self._times: Counter[str] = Counter()
        self._damages: list[Damage] = []
        self._agent: tuple[str, str] | None = None
        self._left = False
        self._generations: OrderedDict[int, tuple[tuple[Labels, ...], ...]] = OrderedDict()
        self._held: deque[Any] = deque()

    def feed(self, data: bytes) -> list[Decoded]:
        """Take bytes as they came and return what they complete, in order. Never raises."""
        decoded: list[Decoded] = []
        for body in self._bodies.cut(data):
            try:
                message = _parsed(body)
            except (zlib.error, ValueError, msgspec.MsgspecError, RecursionError):
                self._count("unreadable frames")
            else:
                decoded += self._take(message)
            decoded += self._told()
        if self._bodies.fresh_noise():
            self._count("runs of bytes that are no frame")
        return decoded + self._told()

    def _take(self, message: Any) -> list[Decoded]:
        if message.schema != catalogue.SCHEMA:
            self._count("frames of another schema")
            return []
        if isinstance(message, Bye):
            return self._farewell(message)
        if isinstance(message, Hello):
            return self._greeting(message)
        if self._agent is None:
            self._count("frames before the greeting")
            return []
        if isinstance(message, Names):
            return list(self._name(message))
        if message.generation not in self._generations:
            self._hold(message)
            return []
        return [self._frame(message, self._agent)]

    def _greeting(self, message: Any) -> list[Decoded]:
        if self._agent is not None:
            self._count("greetings after the first")
            return []
        self._agent = sanitize(message.agent_id), sanitize(message.boot_id)
        facts = {sanitize(name): _fact(value) for name, value in message.facts.items()}
        return [Greeting(*self._agent, facts)]

    def _farewell(self, message: Any) -> list[Decoded]:
        if self._left:
            self._count("farewells after the first")
            return []
        self._left = True
        return [Farewell(sanitize(message.reason))]

    def _name(self, message: Any) -> Iterator[Frame]:
        """Learn a generation's names, and release the frames that waited for them."""
        self._generations[message.generation] = tuple(
            tuple(tuple(map(_safe, labels)) for labels in scope) for scope in message.entities
        )
        while len(self._generations) > KEPT_GENERATIONS:
            self._generations.popitem(last=False)
        waiting, self._held = self._held, deque()
        for frame in waiting:
            if frame.generation == message.generation and self._agent:
                yield self._frame(frame, self._agent)
            else:
                self._held.append(frame)

    def _hold(self, message: Any) -> None:
        self._held.append(message)
        if len(self._held) > HELD_FRAMES:
            self._held.popleft()
            self._count("frames dropped, as the names that they cite did not come")

    def _frame(self, message: Any, agent: tuple[str, str]) -> Frame:
        generation = self._generations[message.generation]
        room, sane = MAX_ROWS, isinstance(message, Sane)
        tables: list[tuple[Row, ...]] = []
        for place, table in enumerate(message.tables):
            if len(table) > room:
                self._count(f"frames of more than {MAX_ROWS} rows")
            rows = self._rows(place, table[:room], generation[place])
            tables.append(tuple(rows if sane else self._checked(place, rows)))
            room -= len(tables[-1])
        stamps = message.mono_us, message.wall_us, message.beat, message.beat_us
        return Frame(*agent, message.sequence, message.generation, *stamps, tuple(tables))

    def _rows(self, place: int, table: list[Any], names: tuple[Labels, ...]) -> Iterator[Row]:
        scope = catalogue.SCOPES[place]
        if scope in FLEETING:
            many = len(catalogue.LABELS[scope])
            for labels, values in {row[:many]: row[many:] for row in table}.items():
                yield Row(tuple(map(_safe, labels)), values)
            return
        for entity, values in {row[0]: row[1:] for row in table}.items():
            if entity < len(names):
                yield Row(names[entity], values)
            else:
                self._count("rows of an entity without a name")

    def _checked(self, place: int, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows with None for those values that are out of their bounds."""
        for row in rows:
            yield Row(row.labels, self._within(place, row.values))

    def _within(self, place: int, values: Values) -> Values:
        bounds = _BOUNDS[place]
        checked = tuple(
            [
                value if value is None or low <= value <= high else None
                for value, (low, high) in zip(values, bounds, strict=True)
            ]
        )
        if checked != values:
            scope = catalogue.SCOPES[place]
            for row, before, after in zip(catalogue.VALUES[scope], values, checked, strict=True):
                if before != after:
                    self._count(f"values of {scope}.{row.name} out of bounds")
        return checked

    def _count(self, what: str) -> None:
        self._times[what] += 1
        times = self._times[what]
        if times & (times - 1) == 0:
            self._damages.append(Damage(f"{what}: {times} so far"))

    def _told(self) -> list[Damage]:
        told, self._damages = self._damages, []
        return told


def _parsed(body: bytes) -> Any:
    """Decompress and decode a body, both bounded."""
    inflater = zlib.decompressobj()
    factor, besides = INFLATION
    text = inflater.decompress(body, min(MAX_JSON, factor * len(body) + besides))
    if not inflater.eof or inflater.unused_data:
        raise ValueError("too long, cut short, or followed by something")
    return read(text)


def _safe(label: Label) -> Label:
    if isinstance(label, str):
        return sanitize(label, MAX_LABEL)
    return label if label is None or abs(label) <= INT64_MAX else None


def _fact(value: str | float | None) -> str | int | float | None:
    if isinstance(value, str):
        return sanitize(value, MAX_FACT)
    return value if isinstance(value, float) else _safe(value)


class _Bodies:
    """Cuts the bodies of whole, undamaged frames out of a stream of bytes.

    A stream made of headers only would have each of them checked against all that follows it, so
    what may be checksummed is bounded by what has come.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._credit = 0
        self._noise = False
        self._noise_told = False

    def cut(self, data: bytes) -> Iterator[bytes]:
        """Take bytes and yield the bodies that they complete."""
        self._buffer += data
        self._credit = min(self._credit + CHECKED * len(data), CHECKED * MAX_BODY)
        while True:
            self._skip(self._noise_before_magic())
            length = self._length_at(0)
            if length is None:
                later = self._whole_frame_behind()
                if not later:
                    return
                self._skip(later)
            elif length == 0:
                self._skip(len(MAGIC))
            else:
                body = bytes(self._buffer[HEADER.size : length])
                del self._buffer[:length]
                self._noise_told = False
                yield body

    def fresh_noise(self) -> bool:
        """Tell whether something was skipped since the last frame, once."""
        fresh = self._noise and not self._noise_told
        self._noise_told = self._noise_told or fresh
        self._noise = False
        return fresh

    def _skip(self, count: int) -> None:
        del self._buffer[:count]
        self._noise = self._noise or count > 0

    def _noise_before_magic(self) -> int:
        at = self._buffer.find(MAGIC)
        if at >= 0:
            return at
        kept = next((n for n in (3, 2, 1) if self._buffer.endswith(MAGIC[:n])), 0)
        return len(self._buffer) - kept

    def _length_at(self, at: int) -> int | None:
        """Return the length of the frame that begins here: 0 if damaged, None if incomplete."""
        if len(self._buffer) < at + HEADER.size:
            return None
        _, size, checksum = HEADER.unpack_from(self._buffer, at)
        if size > MAX_BODY:
            return 0
        end = at + HEADER.size + size
        if len(self._buffer) < end:
            return None
        if size > self._credit:
            return 0
        self._credit -= size
        with memoryview(self._buffer) as view:
            sound = zlib.crc32(view[at + HEADER.size : end]) == checksum
        return end - at if sound else 0

    def _whole_frame_behind(self) -> int:
        """Return where a whole frame begins behind one that is incomplete; 0 if none does.

        A damaged length would otherwise hold up the stream until that many bytes have come.
        """
        at = 0
        for _ in range(TRIED_MAGICS):
            at = self._buffer.find(MAGIC, at + 1)
            if at < 0:
                return 0
            if self._length_at(at):
                return at
        return 0
