import json
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent import catalogue, frame
from gpuwatch.agent.metric import INT64_MAX, Metric
from gpuwatch.feed.decode import Damage, Decoded, Decoder, Farewell, Frame, Greeting
from gpuwatch.model.event import Row
from gpuwatch.model.text import sanitize

HELLO = frame.pack(["hello", catalogue.SCHEMA, "ab" * 8, "boot", {"cpus": 8, "user": "ann"}])
EXACT = 2**53
"""Larger floats are not told apart from INT64_MAX."""


def value(row: Metric) -> st.SearchStrategy[Any]:
    if row.type == "int":
        return st.none() | st.integers(int(row.low), int(row.high))
    return st.none() | st.floats(row.low, min(row.high, EXACT), allow_nan=False)


def label(row: Metric) -> st.SearchStrategy[Any]:
    return st.none() | (st.integers(-INT64_MAX, INT64_MAX) if row.type == "int" else TEXT)


@st.composite
def entities(draw: st.DrawFn, scope: str) -> dict[Any, list[Any]]:
    """Draw rows of a scope, most of their values missing."""
    rows = catalogue.VALUES[scope]
    found = {}
    for _ in range(1 if scope == "node" else draw(st.integers(0, 2))):
        labels = tuple(draw(label(row)) for row in catalogue.LABELS[scope])
        values: list[Any] = [None] * len(rows)
        for place in draw(st.sets(st.integers(0, len(rows) - 1), max_size=3)) if rows else ():
            values[place] = draw(value(rows[place]))
        found[labels] = values
    return found


TEXT = st.text(st.characters(exclude_categories=()), max_size=10).map(frame.clean)
SCOPES = st.sets(st.sampled_from(catalogue.SCOPES), max_size=2)
ROWS = SCOPES.flatmap(lambda scopes: st.fixed_dictionaries({s: entities(s) for s in scopes}))


class Wire:
    """What an agent sends for some ticks: its messages, and what they mean."""

    def __init__(self, ticks: Iterable[dict[str, dict[Any, list[Any]]]]) -> None:
        names = frame.Names(catalogue.SCOPES)
        self.messages = [HELLO]
        self.data: list[int] = []
        self.meaning: list[tuple[tuple[Row, ...], ...]] = []
        for sequence, rows in enumerate(ticks):
            if names.settle(rows) or sequence == 0:
                self.messages.append(frame.pack(names.message(catalogue.SCHEMA)))
            stamps = (sequence + 1, sequence + 2, sequence, sequence)
            message = frame.data(catalogue.SCHEMA, sequence, stamps, names, catalogue.SCOPES, rows)
            self.data.append(len(self.messages))
            self.messages.append(frame.pack(message))
            self.meaning.append(tuple(meant(rows.get(s, {})) for s in catalogue.SCOPES))


def meant(rows: dict[Any, list[Any]]) -> tuple[Row, ...]:
    return tuple(
        Row(tuple(sanitize(x) if isinstance(x, str) else x for x in labels), tuple(values))
        for labels, values in rows.items()
    )


def node_rows(number: int = 7) -> dict[str, dict[Any, list[Any]]]:
    return {"node": {(): [number] + [None] * (len(catalogue.VALUES["node"]) - 1)}}


def frames(decoded: list[Decoded]) -> list[Frame]:
    return [item for item in decoded if isinstance(item, Frame)]


def damages(decoded: list[Decoded]) -> list[str]:
    return [item.text for item in decoded if isinstance(item, Damage)]


@given(st.lists(ROWS, max_size=4), st.data())
def test_what_an_agent_sends_is_what_is_decoded_however_it_is_cut(
    ticks: list[Any], data: st.DataObject
) -> None:
    wire = Wire(ticks)
    stream = b"".join(wire.messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    decoder = Decoder()
    decoded = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoded += decoder.feed(stream[begin:end])
    assert decoded[0] == Greeting("ab" * 8, "boot", {"cpus": 8, "user": "ann"})
    assert not damages(decoded)
    assert [f.tables for f in frames(decoded)] == wire.meaning
    for sequence, found in enumerate(frames(decoded)):
        assert (found.sequence, found.mono_us, found.wall_us) == (
            sequence, sequence + 1, sequence + 2,
        )  # fmt: skip


@given(st.lists(ROWS, min_size=1, max_size=5), st.data())
def test_any_subset_of_data_frames_lost_leaves_the_rest_equal(
    ticks: list[Any], data: st.DataObject
) -> None:
    wire = Wire(ticks)
    lost = data.draw(st.sets(st.sampled_from(wire.data)))
    stream = b"".join(m for place, m in enumerate(wire.messages) if place not in lost)
    found = frames(Decoder().feed(stream))
    kept = [n for n, place in enumerate(wire.data) if place not in lost]
    assert [(f.sequence, f.tables) for f in found] == [(n, wire.meaning[n]) for n in kept]


@given(st.lists(ROWS, min_size=1, max_size=3), st.data())
def test_damage_costs_only_the_frames_that_it_hits(ticks: list[Any], data: st.DataObject) -> None:
    wire = Wire(ticks)
    hit = data.draw(st.sampled_from(wire.data))
    message = bytearray(wire.messages[hit])
    how = data.draw(st.sampled_from(["flip", "cut", "noise"]))
    place = data.draw(st.integers(0, len(message) - 1))
    if how == "flip":
        message[place] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "cut":
        del message[place:]
    else:
        message[place:place] = data.draw(st.binary(min_size=1, max_size=40))
    stream = b"".join([*wire.messages[:hit], bytes(message), *wire.messages[hit + 1 :]])
    found = {f.sequence: f.tables for f in frames(Decoder().feed(stream + HELLO))}
    for sequence, place in enumerate(wire.data):
        if place != hit:
            assert found[sequence] == wire.meaning[sequence]
    assert all(tables == wire.meaning[sequence] for sequence, tables in found.items())


@given(st.lists(st.binary(max_size=60) | st.sampled_from([frame.MAGIC, HELLO, HELLO[:20]])))
def test_no_bytes_make_it_fail(chunks: list[bytes]) -> None:
    decoder = Decoder()
    for chunk in chunks:
        decoder.feed(chunk)
    assert len(frames(decoder.feed(b"".join(Wire([node_rows()]).messages)))) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(
    st.sampled_from(["hello", "names", "data", "bye", "x"]),
    st.sampled_from([catalogue.SCHEMA, "00000000"]),
    st.lists(JSON, max_size=8),
)
def test_no_message_makes_it_fail(tag: str, schema: str, rest: list[Any]) -> None:
    body = zlib.compress(json.dumps([tag, schema, *rest]).encode())
    decoder = Decoder()
    decoder.feed(HELLO)
    for item in decoder.feed(wrapped(body)):
        assert isinstance(item, Damage | Greeting | Farewell | Frame)
    assert len(frames(decoder.feed(b"".join(Wire([node_rows()]).messages)))) == 1


def wrapped(body: bytes) -> bytes:
    return frame.HEADER.pack(frame.MAGIC, len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        zlib.compress(b" " * (9 << 20)),
        zlib.compress(b"[" * 1_000_000),
        zlib.compress(b'["hello","x","y","z",{}]')[:-3],
        zlib.compress(b"[]") + b"more",
        b"not compressed",
        zlib.compress(b"\xff\xfe"),
        zlib.compress(json.dumps(["bye", catalogue.SCHEMA, "x", "more"]).encode()),
    ],
    ids=["bomb", "nested", "cut short", "followed", "raw", "not text", "too many fields"],
)
def test_a_body_that_cannot_be_read_is_counted(body: bytes) -> None:
    decoder = Decoder()
    assert decoder.feed(wrapped(body)) == [Damage("unreadable frames: 1 so far")]
    assert isinstance(decoder.feed(HELLO)[0], Greeting)


def test_a_length_that_lies_does_not_hold_up_the_stream() -> None:
    lie = frame.HEADER.pack(frame.MAGIC, frame.MAX_BODY, 0)
    assert isinstance(Decoder().feed(lie + HELLO)[0], Greeting)
    too_long = frame.HEADER.pack(frame.MAGIC, frame.MAX_BODY + 1, 0)
    assert isinstance(Decoder().feed(too_long + HELLO)[0], Greeting)


def test_e09_e11_values_out_of_bounds_become_none_and_are_told_ever_more_rarely() -> None:
    scope = "gpu"
    place = catalogue.INDEX[scope]["util_pct"]
    values: list[Any] = [None] * len(catalogue.VALUES[scope])
    decoder = Decoder()
    decoder.feed(HELLO)
    told = []
    rows: dict[str, dict[Any, list[Any]]]
    for sequence, wrong in enumerate([101, -1, 10**30, 101, 101], 1):
        values[place] = wrong
        names = frame.Names(catalogue.SCOPES)
        rows = {scope: {(0, "GPU-1", "H200"): list(values)}}
        names.settle(rows)
        stamps = (1, 1, 0, 0)
        message = frame.data(catalogue.SCHEMA, sequence, stamps, names, catalogue.SCOPES, rows)
        naming = frame.pack(names.message(catalogue.SCHEMA))
        decoded = decoder.feed(naming + frame.pack(message))
        (found,) = frames(decoded)
        assert found.tables[catalogue.SCOPES.index(scope)][0].values[place] is None
        told += damages(decoded)
    assert told == [f"values of gpu.util_pct out of bounds: {n} so far" for n in (1, 2, 4)]


def test_a_frame_waits_for_its_names_but_not_for_ever() -> None:
    wire = Wire([node_rows(n) for n in range(8)])
    hello, names, *data = wire.messages
    decoder = Decoder()
    assert not frames(decoder.feed(hello + b"".join(data[:7])))
    decoded = decoder.feed(names + data[7])
    assert [f.sequence for f in frames(decoded)] == [2, 3, 4, 5, 6, 7]


def test_the_last_four_generations_are_kept() -> None:
    nothing = [None] * len(catalogue.VALUES["nic"])
    growing = [{"nic": {(f"eth{i}",): nothing for i in range(n)}} for n in range(1, 7)]
    wire = Wire(growing)
    names = [m for place, m in enumerate(wire.messages) if place and place not in wire.data]
    data = [wire.messages[place] for place in wire.data]
    found = frames(Decoder().feed(HELLO + b"".join(names) + b"".join(data)))
    assert [f.sequence for f in found] == [2, 3, 4, 5]


def test_a_link_has_one_greeting_and_one_farewell() -> None:
    decoder = Decoder()
    decoder.feed(HELLO)
    bye = frame.pack(["bye", catalogue.SCHEMA, "x"])
    decoded = decoder.feed((HELLO + bye) * 500)
    assert [d for d in decoded if not isinstance(d, Damage)] == [Farewell("x")]
    assert "greetings after the first: 256 so far" in damages(decoded)
    assert "farewells after the first: 256 so far" in damages(decoded)


def test_headers_alone_do_not_make_the_viewer_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a million lying headers would be checked against a megabyte that follows it."""
    checked, true = 0, zlib.crc32

    def counted(data: Any) -> int:
        nonlocal checked
        checked += len(data)
        return true(data)

    monkeypatch.setattr("gpuwatch.feed.decode.zlib.crc32", counted)
    size = frame.MAX_BODY
    lies = b"".join(
        frame.HEADER.pack(frame.MAGIC, (size - 12 * n) * 9 // 10, 0) for n in range(20_000)
    )
    stream = lies.ljust(size + 12, b"x")
    decoder = Decoder()
    for begin in range(0, len(stream), 1 << 15):
        decoder.feed(stream[begin : begin + (1 << 15)])
    assert checked <= 17 * len(stream)
    assert isinstance(decoder.feed(HELLO * 9000)[0], Greeting)


def test_a_frame_of_too_many_rows_is_cut() -> None:
    scope = ("gpu_process", "nic", "disk")
    rows: dict[str, dict[Any, list[Any]]] = {
        name: {
            tuple(n if r.type == "int" else str(n) for r in catalogue.LABELS[name]):
            [None] * len(catalogue.VALUES[name]) for n in range(4000)
        }
        for name in scope
    }  # fmt: skip
    names = frame.Names(catalogue.SCOPES)
    names.settle(rows)
    message = frame.data(catalogue.SCHEMA, 0, (1, 1, 0, 0), names, catalogue.SCOPES, rows)
    naming = names.message(catalogue.SCHEMA)
    decoded = Decoder().feed(HELLO + frame.pack(naming) + frame.pack(message))
    (found,) = frames(decoded)
    assert sum(map(len, found.tables)) == 8192
    assert damages(decoded) == ["frames of more than 8192 rows: 1 so far"]


def test_frames_of_another_schema_and_before_the_greeting_are_counted() -> None:
    wire = Wire([node_rows()])
    other = frame.pack(["bye", "00000000", "x"])
    assert damages(Decoder().feed(other + wire.messages[-1])) == [
        "frames of another schema: 1 so far",
        "frames before the greeting: 1 so far",
    ]


def test_labels_that_change_each_tick_come_with_their_values_and_are_made_safe() -> None:
    ticks = [{**node_rows(), "progress": {("step", f"step {n} \x1b[2J"): [n]}} for n in range(3)]
    wire = Wire(ticks)
    assert len(wire.messages) == 1 + 1 + 3
    place = catalogue.SCOPES.index("progress")
    found = frames(Decoder().feed(b"".join(wire.messages)))
    assert [f.tables[place] for f in found] == [
        (Row(("step", f"step {n} ␛[2J"), (n,)),) for n in range(3)
    ]


def test_a_row_of_an_entity_without_a_name_is_dropped_alone() -> None:
    wire = Wire([node_rows()])
    tables: list[Any] = [[] for _ in catalogue.SCOPES]
    width = len(catalogue.VALUES["node"])
    tables[0] = [[0] + [1] * width, [5] + [1] * width]
    message = ["data", catalogue.SCHEMA, 1, 1, 1, 1, 0, 0, tables]
    decoded = Decoder().feed(b"".join(wire.messages) + frame.pack(message))
    assert len(frames(decoded)[1].tables[0]) == 1
    assert damages(decoded) == ["rows of an entity without a name: 1 so far"]


def test_hostile_facts_and_reasons_are_made_safe() -> None:
    facts = {"user\x1b": "\x1b]0;x\x07", "cpus": 10**40, "load": 0.5, "none": None}
    hello = frame.pack(["hello", catalogue.SCHEMA, "a", "b", facts])
    bye = frame.pack(["bye", catalogue.SCHEMA, "[/b]\n"])
    assert Decoder().feed(hello + bye) == [
        Greeting("a", "b", {"user␛": "␛]0;x␇", "cpus": None, "load": 0.5, "none": None}),
        Farewell("[/b]␊"),
    ]
