"""What a login shell prints, in any bytes and however cut: past it the agent starts, or it is told why not."""

import asyncio
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuwatch.transport.bootstrap import agent_error, handshake, new_marker
from gpuwatch.transport.link import LinkError, Pipe, Step
from gpuwatch.transport.node import Node

NODE = Node("n", "h")
MARKER = new_marker()
ANSWER = MARKER[::-1].encode()
MESSAGE = b"the payload"
LONGEST_REASON = 500

NOISE = st.lists(
    st.binary(max_size=80)
    | st.text(max_size=40).map(str.encode)
    | st.sampled_from(
        [
            MARKER.encode(),
            ANSWER[:-1],
            ANSWER[1:],
            b"\x1b[2J\x1b]52;c;eA==\x07",
            "\u202e[/b]\r\n".encode(),
        ]
    ),
    max_size=8,
)
"""Chunks, among them the marker echoed, nearly the answer, and what a terminal would obey."""


class Shell(Pipe):
    """Has printed all that it ever will."""

    def __init__(self, chunks: list[bytes], errors: bytes = b"", status: int | None = None) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.status = status
        self.take_errors(errors)
        self._chunks = iter(chunks)

    async def read(self) -> bytes:
        """Return one chunk as it was cut."""
        return next((chunk for chunk in self._chunks if chunk), b"")

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.sent.append(data)

    async def close(self) -> None:
        """Have nothing to close."""

    def _flow(self, *, on: bool) -> None:
        """Have nothing to pause."""


async def shaken(shell: Shell) -> tuple[bytes, list[Step]]:
    """Return all that comes after the answer, and the steps that were told."""
    steps: list[Step] = []
    rest = bytearray(await handshake(shell, NODE, MARKER, MESSAGE, steps.append))
    while data := await shell.read():
        rest += data
    return bytes(rest), steps


def cut(data: st.DataObject, stream: bytes) -> list[bytes]:
    """Cut a stream anywhere."""
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    return [
        stream[begin:end] for begin, end in zip([0, *places], [*places, len(stream)], strict=True)
    ]


@given(NOISE, st.binary(max_size=80), st.data())
def test_s17_s19_past_any_noise_not_a_byte_of_the_stream_is_lost(
    noise: list[bytes], stream: bytes, data: st.DataObject
) -> None:
    before = b"".join(noise)
    assume((before + ANSWER).find(ANSWER) == len(before))
    shell = Shell(cut(data, before + ANSWER + stream))
    assert asyncio.run(shaken(shell)) == (stream, ["python"])
    assert shell.sent == [MESSAGE]


@given(NOISE, NOISE, st.none() | st.integers(-64, 255) | st.sampled_from([126, 127]))
def test_a_shell_that_does_not_answer_is_told_in_one_safe_line_and_sent_nothing(
    noise: list[bytes], errors: list[bytes], status: int | None
) -> None:
    assume(ANSWER not in b"".join(noise))
    shell = Shell(noise, b"".join(errors), status)
    with pytest.raises(LinkError) as caught:
        asyncio.run(shaken(shell))
    assert_safe(caught.value)
    assert shell.sent == []


@given(NOISE, st.none() | st.integers(-64, 255))
def test_an_agent_that_does_not_start_is_told_in_one_safe_line(
    errors: list[bytes], status: int | None
) -> None:
    assert_safe(asyncio.run(ended(errors, status)))


async def ended(errors: list[bytes], status: int | None) -> LinkError:
    """Return why the interpreter ended."""
    return agent_error(Shell([], b"".join(errors), status))


def assert_safe(error: Any) -> None:
    """Have nothing in it that a terminal would obey, and not much of it."""
    for text in (error.what, error.hint or ""):
        assert text.isprintable(), text
        assert len(text) <= LONGEST_REASON
