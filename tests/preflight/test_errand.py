"""An errand on this machine: what it does, and that nothing of it is left, whenever it ends."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuwatch.errand.watcher import PREFIX, VARIABLE
from gpuwatch.job.types import Job
from gpuwatch.preflight.answers import Connected, Done, Folder, Moved, Ran, Texts, Visited, Which
from gpuwatch.preflight.check import Check, Options, Site
from gpuwatch.preflight.errand import Errand, ErrandError
from gpuwatch.preflight.result import Finding
from gpuwatch.preflight.run import opened, run
from gpuwatch.transport.link import Pipe, Step
from gpuwatch.transport.node import Node
from gpuwatch.transport.transports import Transports

DEADLINE_S = 20.0


@pytest.fixture
async def errand() -> AsyncIterator[Errand]:
    transports = Transports()
    errand = Errand(Node(name="here", host="localhost", transport="local"), transports)
    await errand.open()
    yield errand
    await errand.close()
    await transports.close()


def marked() -> set[int]:
    """Return the processes of errands that this test process started."""
    found = set()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = environ.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(VARIABLE.encode() + b"=") for word in words) and OURS in words:
            found.add(int(environ.parent.name))
    return found


OURS = f"PREFLIGHT_TEST={os.getpid()}".encode()


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    name, _, value = OURS.decode().partition("=")
    monkeypatch.setenv(name, value)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - the kernel tells nobody that a process ended
            await asyncio.sleep(0.02)


async def test_it_runs_programs_and_tells_how_they_end(errand: Errand) -> None:
    ran = await errand.run(["sh", "-c", "echo one; echo two >&2; exit 3"], 5.0)
    assert (ran.status, ran.out, ran.ended_well) == (3, "one\n", False)
    assert ran.why("sh") == "sh ended with status 3: two"
    slow = await errand.run(["sh", "-c", "sleep 60 & sleep 60"], 0.2)
    assert slow.status is None
    assert slow.why("sh") == "sh did not end in time"
    await until(lambda: not marked())
    assert await errand.lacks("sh", "no-such-tool") == ("no-such-tool",)
    with pytest.raises(ErrandError, match="here: run: not found: no-such-tool"):
        await errand.run(["no-such-tool"], 1.0)
    assert "Linux" in (await errand.texts("/proc/version"))["/proc/version"]


async def test_what_a_node_answers_is_bounded(errand: Errand) -> None:
    ran = await errand.run(["sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; echo end"], 10.0)
    assert len(ran.out) == 256 * 1024
    assert ran.out.endswith("end\n")
    with pytest.raises(ErrandError, match="no_such_operation"):
        await errand.ask("no_such_operation", Done)


async def test_small_files_and_a_checkpoint_in_a_folder_that_goes(
    errand: Errand, tmp_path: Path
) -> None:
    made = await errand.ask("folder", Folder, path=str(tmp_path), need_bytes=1_000_000)
    folder = Path(made.folder)
    await errand.ask("tree", Done, folder=str(folder), count=150, size=1000)
    assert len(files_in(folder)) == 150
    told = await errand.ask(
        "visit", Visited, folder=str(folder), workers=8, seed=1, limit_s=10.0, cold=True
    )
    assert (told.files, told.bytes) == (150, 150_000)
    assert 0 < (told.p50_ms or 0) <= (told.p99_ms or 0)
    wrote = await errand.ask("write", Moved, folder=str(folder), size=5_000_000, limit_s=10.0)
    back = await errand.ask("scan", Moved, folder=str(folder), limit_s=10.0)
    assert wrote.bytes == back.bytes == 5_000_000
    await errand.ask("remove", Done, folder=str(folder))
    assert not files_in(folder)
    with pytest.raises(ErrandError, match="would be written"):
        await errand.ask("folder", Folder, path=str(tmp_path), need_bytes=1 << 60)


async def test_only_folders_of_an_errand_are_ever_removed(errand: Errand, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("kept")
    await errand.ask("remove", Done, folder=str(tmp_path))
    assert files_in(tmp_path)


@pytest.mark.parametrize("seed", range(4))
async def test_whenever_it_ends_nothing_is_left(seed: int, tmp_path: Path) -> None:
    """Killed, or its connection closed, at a drawn moment of programs that serve, run and write."""
    drawn = random.Random(seed)
    transports = Transports()
    errand = Errand(Node(name="here", host="localhost", transport="local"), transports)
    await errand.open()
    made = await errand.ask("folder", Folder, path=str(tmp_path), need_bytes=1000)
    assert Path(made.folder).name.startswith(PREFIX)
    await errand.ask(
        "start",
        Done,
        name="serves",
        argv=["sh", "-c", "trap '' TERM HUP; setsid sleep 60 & sleep 60"],
    )
    going = [
        asyncio.create_task(errand.run(["sleep", "60"], 60)),
        asyncio.create_task(errand.ask("tree", Done, folder=made.folder, count=100_000, size=1000)),
    ]
    await until(lambda: len(marked()) >= 3)
    await asyncio.sleep(drawn.uniform(0, 0.3))
    ran = await errand.run(["sh", "-c", "echo $PPID"], 5)
    if drawn.random() < 0.5:
        os.kill(int(ran.out), signal.SIGKILL)
    else:
        await errand.close()
    await until(lambda: not marked())
    await until(lambda: not any(tmp_path.iterdir()))
    for task in going:
        task.cancel()
    await asyncio.gather(*going, return_exceptions=True)
    await errand.close()
    await transports.close()


async def test_a_node_that_is_gone_is_told_and_not_waited_for(errand: Errand) -> None:
    ran = await errand.run(["sh", "-c", "echo $PPID"], 5)
    waiting = asyncio.create_task(errand.run(["sleep", "60"], 60))
    await until(marked)
    os.kill(int(ran.out), signal.SIGKILL)
    with pytest.raises(ErrandError):
        await waiting
    assert errand.error is not None
    with pytest.raises(ErrandError, match="here"):
        await errand.ask("beat", Done)


class Liar(Pipe):
    """A node that answers each request with lines of its choice, `{id}` in them the request's."""

    def __init__(self, marker: str, lines: list[bytes], *, greets: bool = True) -> None:
        super().__init__()
        self._lines = lines
        self.take(marker[::-1].encode() + (b'{"id": 0}\n' if greets else b""))
        if not greets:
            self.end()

    def write(self, data: bytes) -> None:
        if data.startswith(b'{"id":'):
            number = msgspec.json.decode(data)["id"]
            self.take(
                b"".join(line.replace(b"{id}", b"%d" % number) + b"\n" for line in self._lines)
            )

    async def close(self) -> None:
        self.end()

    def _flow(self, *, on: bool) -> None:
        pass


class Lying(Transports):
    def __init__(self, lines: list[bytes], *, greets: bool = True) -> None:
        super().__init__()
        self._said = lines, greets

    async def open(self, node: Node, marker: str, reached: Callable[[Step], None]) -> Pipe:
        lines, greets = self._said
        return Liar(marker, lines, greets=greets)


@given(
    st.binary(max_size=30),
    st.sampled_from([Connected, Done, Folder, Moved, Ran, Texts, Visited, Which]),
)
@example(b'"texts": {"/a": 5}', Texts)
@example(b'"bytes": -1, "took_s": 1', Moved)
@example(b'"ms": [1e999]', Connected)
@example(b'"x": ' + b"[" * 100_000, Done)
def test_an_answer_is_of_its_kind_or_an_error_in_words(body: bytes, kind: type) -> None:
    junk = [b"[]", b'{"id": []}', b'{"id": 99}', b"[" * 100_000, b"\xff" + body]
    last = b'{"id": {id}, ' + body.replace(b"\n", b"").replace(b"{id}", b"") + b"}"

    async def asked() -> None:
        errand = Errand(
            Node(name="liar", host="h"), Lying([*junk, last, b'{"id": {id}, "error": "no"}'])
        )
        await errand.open()
        told = await asyncio.gather(errand.ask("read", kind), return_exceptions=True)
        await errand.close()
        assert isinstance(told[0], kind) or str(told[0]).startswith("liar: read: ")

    asyncio.run(asked())


async def test_a_node_that_ends_before_it_begins_is_not_taken_for_one_that_is_there() -> None:
    errand = Errand(Node(name="gone", host="h"), Lying([], greets=False))
    with pytest.raises(ErrandError, match="the connection ended"):
        await errand.open()
    await errand.close()
    assert (await opened([Errand(Node(name="gone", host="h"), Lying([], greets=False))])) == (
        [], {"gone": "the connection ended"},
    )  # fmt: skip


async def test_a_node_that_is_lost_meanwhile_is_told_and_left_out_of_what_follows() -> None:
    errands = [Errand(Node(name=name, host="h"), Lying([])) for name in ("stays", "goes")]
    there, unreached = await opened(errands)
    seen: list[list[str]] = []

    async def look(site: Site) -> list[Finding]:
        seen.append([errand.node.name for errand in site.errands])
        errands[1].error = ErrandError("the connection ended")
        return []

    checks = [Check(name=name, does="", judges="", run=look) for name in ("first", "second")]
    job = Job(name="j", nodes=())
    result = await run(Site(job, there, Options(), lambda _: None), checks, unreached)
    assert seen == [["stays", "goes"], ["stays"]]
    assert result.nodes == ("stays",)
    assert result.unreached == {"goes": "lost during first: the connection ended"}
    await asyncio.gather(*(errand.close() for errand in errands))
