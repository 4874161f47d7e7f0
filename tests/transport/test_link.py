import asyncio

from gpuwatch.transport.link import Pipe


class Fed(Pipe):
    """A pipe that a test feeds."""

    def __init__(self) -> None:
        super().__init__()
        self.flow: list[bool] = []

    def write(self, data: bytes) -> None:
        raise BrokenPipeError

    async def close(self) -> None:
        self.end()

    def _flow(self, *, on: bool) -> None:
        self.flow.append(on)


async def test_a_node_that_sends_without_end_holds_up_no_other() -> None:
    pipe = Fed()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    sent = bytes(range(256)) * 4096
    pipe.take(sent)
    got = b""
    reads = 0
    while len(got) < len(sent):
        got += await pipe.read()
        reads += 1
    task.cancel()
    assert got == sent
    assert pipe.flow == [False, True]
    assert turns >= reads >= 16


async def test_at_the_end_what_waits_comes_first() -> None:
    pipe = Fed()
    pipe.take(b"last words")
    pipe.end()
    assert [await pipe.read(), await pipe.read()] == [b"last words", b""]
