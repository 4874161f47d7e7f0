"""Fake hosts from text files, what sources make of them, and a real agent on the wire."""

import atexit
import contextlib
import errno
import functools
import importlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuwatch.agent import catalogue, frame
from gpuwatch.agent.host import Host, Options
from gpuwatch.agent.metric import LABEL, Absent, Reading

ROOT = Path(__file__).parents[2]
HOSTS = ROOT / "tests/fixtures/hosts"
SHARED = ROOT.parent / "shared/fixtures"
ELSEWHERE = ("nvml", "sockets", "progress")
"""Sources that ask a child or the kernel itself, and so are not read from a fake host's files."""
SOURCES = tuple(name for name in catalogue.SOURCES if name not in ELSEWHERE)
_ENTRY = re.compile(r">>> (\S+)(?: (=|->|<-|!) ?(.*))?")
_NUL = "\u2400"


class FaultyHost(Host):
    """A fake host some of whose files cannot be read, with the error that a kernel gives."""

    def __init__(self, root: str, faults: dict[str, int], options: Options | None = None) -> None:
        super().__init__(root, options)
        self.faults = faults

    def open(self, path: str) -> int:
        self._fail(path)
        return super().open(path)

    def listdir(self, path: str) -> list[str]:
        self._fail(path)
        return super().listdir(path)

    def _fail(self, path: str) -> None:
        if path in self.faults:
            raise OSError(self.faults[path], os.strerror(self.faults[path]), path)

    def statvfs(self, where: int | str) -> os.statvfs_result:
        """Answer alike for all file systems: blocks of 4 KiB, 1000 in all, 500 for plain users."""
        return os.statvfs_result((4096, 4096, 1000, 600, 500, 200, 150, 140, 0, 255))


def unpack(name: str, root: Path, options: Options | None = None) -> FaultyHost:
    """Lay out `tests/fixtures/hosts/NAME.host` below a folder.

    The file has entries `>>> PATH = CONTENT`, `>>> PATH -> TARGET`, `>>> PATH ! ERRNO`,
    `>>> PATH <- FOLDER` (a copy of it as it is so far), or `>>> PATH` with the content on the lines
    that follow; lines before the first are remarks. \u2400 stands for a zero byte, which ends lines
    as it does in the files that have any.
    """
    faults: dict[str, int] = {}
    target, lines = None, list[str]()
    for line in [*(HOSTS / f"{name}.host").read_text().splitlines(), ">>> /end"]:
        entry = _ENTRY.fullmatch(line)
        if not entry:
            lines.append(line)
            continue
        if target is not None:
            target.write_text("".join(f"{text}\n" for text in lines))
        path, kind, content = entry.groups()
        target, lines = None, []
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        if kind == "!":
            faults[path] = getattr(errno, content)
            file.touch()
        elif kind == "->":
            file.symlink_to(content)
        elif kind == "<-":
            shutil.copytree(root / content.lstrip("/"), file)
        elif kind == "=" and _NUL in content:
            file.write_text(content.replace(_NUL, "\0"))
        elif kind == "=":
            file.write_text(f"{content}\n")
        else:
            target = file
    return FaultyHost(str(root), faults, options)


def read(source: str, host: Host) -> Reading:
    """Read a source once with a fresh reader."""
    return reader(source, host).read()  # type: ignore[no-any-return]


def reader(source: str, host: Host) -> Any:
    """Return a fresh reader; one that tells ages stands at a fixed time."""
    module = importlib.import_module(f"gpuwatch.agent.sources.{source}")
    return module.Reader(host, lambda: 1e6) if source == "threads" else module.Reader(host)


def named(source: str, reading: Reading) -> dict[str, dict[str, Any]]:
    """Name what a source read: entity to value by name."""
    rows = importlib.import_module(f"gpuwatch.agent.sources.{source}").ROWS
    found = {}
    for scope, labels, values in reading.rows:
        names = [row.name for row in rows if row.scope == scope and row.kind != LABEL]
        assert len(names) == len(values)
        found[" ".join([scope, *map(str, labels)])] = dict(zip(names, values, strict=True))
    return found


def all_of(host: Host) -> dict[str, Any]:
    """Return what every source makes of a host, as golden files have it.

    They are read in the agent's order, on one board; who samples has done so once.
    """
    told: dict[str, Any] = {}
    for source in SOURCES:
        each = reader(source, host)
        try:
            reading = each.read()
            if hasattr(each, "sample"):
                each.sample()
                reading = each.read()
        except Absent as absent:
            told[source] = {"absent": str(absent)}
        else:
            told[source] = {**named(source, reading), "missing": reading.missing}
    return told


def unpack_ttar(archive: Path, root: Path) -> None:
    """Lay out a ttar archive: `Path:`, `Lines:`, `SymlinkTo:` (prometheus/procfs, ttar)."""
    lines = iter(archive.read_text(errors="surrogateescape").splitlines())
    path = root
    for line in lines:
        key, _, value = line.partition(": ")
        if key == "Path":
            path = root / value
            path.parent.mkdir(parents=True, exist_ok=True)
        elif key == "SymlinkTo":
            path.symlink_to(value)
        elif key == "Lines":
            text = "\n".join(next(lines) for _ in range(int(value)))
            text = text.replace("NULLBYTE", "\0") + "\n"
            path.write_text(text.replace("EOF\n", ""), errors="surrogateescape")


def lay_out_agent(folder: Path) -> Path:
    """Copy the agent's package to where any user may read it, as a clone's folder need not let them."""
    package = folder / "gpuwatch"
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src/gpuwatch/agent", package / "agent", ignore=skipped)
    (package / "__init__.py").touch()
    for path in (package, *package.rglob("*")):
        path.chmod(0o755)
    return folder


@functools.cache
def agent_for_all() -> str:
    """Return a folder to import the agent from, as any user, until the tests end."""
    folder = tempfile.mkdtemp(prefix="gpuwatch-agent-", dir="/var/tmp")
    atexit.register(shutil.rmtree, folder)
    Path(folder).chmod(0o755)
    return str(lay_out_agent(Path(folder)))


class Agent:
    """A real agent in a process of its own, its wire decoded without the viewer's decoder."""

    def __init__(self, config: dict[str, Any], python: str, root: str, prelude: str) -> None:
        program = (
            f"{prelude}\n"
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "import json; from gpuwatch.agent import host, main\n"
            "config = json.loads(sys.argv[2])\n"
            "node = host.Host(sys.argv[3], host.options_of(config))\n"
            "sys.exit(main.run(config, host=node))\n"
        )
        command = [python, "-S", "-B", "-c", program, str(ROOT / "src"), json.dumps(config), root]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.messages: list[list[Any]] = []
        self._bytes = b""

    def say(self, text: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def wait_for(self, kind: str, count: int = 1, seconds: float = 20.0) -> list[list[Any]]:
        """Return the messages of a kind once there are so many."""
        until = time.monotonic() + seconds
        while len(self.of(kind)) < count:
            assert time.monotonic() < until, f"{len(self.of(kind))} of {count} {kind}"
            if not self._take(until):
                assert self.process.stderr
                raise AssertionError(f"ended: {self.process.stderr.read().decode()}")
        return self.of(kind)

    def of(self, kind: str) -> list[list[Any]]:
        return [message for message in self.messages if message[0] == kind]

    def rest(self, seconds: float = 20.0) -> None:
        """Read to the end of its stream."""
        until = time.monotonic() + seconds
        while self._take(until):
            assert time.monotonic() < until, "it goes on"

    def reasons(self) -> dict[str, str]:
        """Return subject to reason of the newest frame."""
        data = self.of("data")[-1]
        names = next(m for m in reversed(self.of("names")) if m[2] == data[3])
        place = catalogue.SCOPES.index("absence")
        return {names[3][place][row[0]][0]: names[3][place][row[0]][1] for row in data[8][place]}

    def node(self) -> dict[str, Any]:
        """Return the newest frame's values of the node."""
        row = self.of("data")[-1][8][catalogue.SCOPES.index("node")][0]
        return {r.name: row[1 + i] for i, r in enumerate(catalogue.VALUES["node"])}

    def _take(self, until: float) -> bool:
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
            return True
        data = os.read(self.process.stdout.fileno(), 65536)
        self._bytes += data
        while len(self._bytes) >= frame.HEADER.size:
            magic, size, crc = frame.HEADER.unpack_from(self._bytes)
            assert magic == frame.MAGIC
            body = self._bytes[frame.HEADER.size : frame.HEADER.size + size]
            if len(body) < size:
                break
            assert zlib.crc32(body) == crc
            self.messages.append(json.loads(zlib.decompress(body)))
            self._bytes = self._bytes[frame.HEADER.size + size :]
        return bool(data)


@contextlib.contextmanager
def agent(
    config: dict[str, Any], python: str = sys.executable, root: str = "/", prelude: str = ""
) -> Iterator[Agent]:
    """Start an agent, and leave none behind.

    Args:
        config: as the viewer sends it.
        python: that runs it.
        root: of the host that it reads.
        prelude: a line of Python that its process runs first.
    """
    running = Agent(config, python, root, prelude)
    process = running.process
    try:
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def stat_text(pid: int, comm: bytes, state: str, ppid: int, faults: int = 0, start: int = 100) -> bytes:  # fmt: skip
    """Return a line of /proc/PID/stat."""
    numbers = [ppid, pid, pid, 0, -1, 0, 0, 0, faults, 0, 1, 1, 0, 0, 20, 0, 1, 0, start, 0, 0]
    return b"%d (%s) %s " % (pid, comm, state.encode()) + b" ".join(b"%d" % n for n in numbers) + b"\n"  # fmt: skip
