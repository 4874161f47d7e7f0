"""docs/security.md against what an agent really does: every call that it makes, traced."""

import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from debian import needs
from gpuwatch.feed.decode import Decoder, Frame
from gpuwatch.transport.bootstrap import FLAGS, PROGRAM
from gpuwatch.transport.node import Node
from gpuwatch.transport.payload import agent_config, payload

pytestmark = needs("strace", "strace")

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
FRAMES = 8
WAY = "way-of-the-job"
"""A link on the way to a folder of the job."""
TRACED = (
    "%file,%process,%network,ioctl,setns,unshare,kill,tgkill,tkill,ptrace,process_vm_readv,"
    "memfd_create,bpf,perf_event_open,io_uring_setup,pidfd_open"
)
FILES = {
    "access", "chdir", "execve", "faccessat", "faccessat2", "getcwd", "lstat", "newfstatat", "open", "openat",
    "readlink", "readlinkat", "stat", "statfs", "statx",
}  # fmt: skip
OTHERS = {
    "clone", "clone3", "exit", "exit_group", "fork", "ioctl", "kill", "recvfrom", "recvmsg", "sendto",
    "setns", "socket", "vfork", "wait4",
}  # fmt: skip
INTERPRETER = (
    sys.prefix, sys.base_prefix, "/lib", "/usr/lib", "/etc/ld.so", "/usr/share/locale", "/dev/null",
    "/etc/localtime",
)  # fmt: skip
"""Where an interpreter reads its own modules and libraries."""
JOB = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
talker = socket.create_connection(listener.getsockname())
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The calls of an agent that watches a rank with a connection, and a log, over some ticks."""
    folder = tmp_path_factory.mktemp("traced")
    log, trace = folder / "train.log", folder / "trace"
    log.write_text("step 1\n")
    (folder / WAY).symlink_to(folder)
    node = Node(
        "n", "h", match="watched-by-the-trace", log=str(log), log_texts={"step": "step"},
        paths=(f"{folder}/{WAY}/data",),
    )  # fmt: skip
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, "watched-by-the-trace"],
        env={"RANK": "0", "LOCAL_RANK": "0"}, stdout=subprocess.PIPE,
    )  # fmt: skip
    agent = subprocess.Popen(
        ["strace", "-f", "-qq", "-s", "400", "-o", trace, "-e", f"trace={TRACED}",
         sys.executable, *FLAGS, "-c", PROGRAM, "olleh"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder,
    )  # fmt: skip
    with job, agent:
        try:
            assert job.stdout is not None
            assert job.stdout.readline() == b"up\n"
            watch(agent, payload().message(agent_config(node, 0.2)))
        finally:
            agent.kill()
            job.kill()
    return [line.partition(" ")[2].strip() for line in trace.read_text().splitlines()]


def watch(agent: "subprocess.Popen[bytes]", message: bytes) -> None:
    """Be the viewer of some ticks, then leave, and wait until the agent has left, too."""
    assert agent.stdin is not None
    assert agent.stdout is not None
    agent.stdin.write(message)
    agent.stdin.flush()
    decoder, seen, deadline = Decoder(), 0, time.monotonic() + 40
    while seen < FRAMES:
        assert time.monotonic() < deadline
        decoded = decoder.feed(os.read(agent.stdout.fileno(), 1 << 16))
        seen += sum(isinstance(each, Frame) for each in decoded)
        agent.stdin.write(b"beat %d\n" % seen)
        agent.stdin.flush()
    agent.stdin.close()
    agent.stdout.read()
    agent.wait(10)


def documented() -> re.Pattern[str]:
    """Return what the document says is read; a path that ends in a slash is all below it."""
    section = re.search(
        r"^## What is read\n(.*?)^Network", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL
    )
    assert section
    paths = re.findall(r"`(/[^`]+)`", section[1])
    return re.compile("|".join(itertools.chain.from_iterable(map(patterns, paths))))


def patterns(path: str) -> list[str]:
    """Expand `{a,b}`, and turn the words that stand for numbers into what they stand for."""
    found = re.search(r"\{([^}]*)\}", path)
    if found:
        each = (path.replace(found[0], word, 1) for word in found[1].split(","))
        return list(itertools.chain.from_iterable(map(patterns, each)))
    text = re.sub(r"PID|TID", "NUMBER", path)
    below = "(/.*)?" if path.endswith("/") else ""
    return [re.escape(text.rstrip("/")).replace("NUMBER", r"(\d+|self|thread-self)") + below]


def name_of(call: str) -> str:
    return re.split(r"\W", call, maxsplit=1)[0]


def paths_of(calls: list[str]) -> set[str]:
    """Return the absolute paths of all calls about files, but for the program's own and the log."""
    found = set()
    for call in calls:
        text = re.match(r'\w+\((?:AT_FDCWD, |\d+, )?"([^"]*)"', call)
        if name_of(call) in FILES and text and text[1].startswith("/"):
            found.add(os.path.normpath(text[1]))
    return found


def test_it_makes_no_call_but_these(calls: list[str]) -> None:
    names = {name_of(call) for call in calls} - {""}
    assert names <= FILES | OTHERS
    assert {"openat", "socket", "kill"} <= names, "the trace shows nothing"


def test_it_opens_no_file_that_the_document_does_not_name(calls: list[str]) -> None:
    known = documented()
    paths = paths_of(calls)
    assert "/proc/meminfo" in paths
    assert any(path.endswith("/environ") for path in paths)
    foreign = {
        path
        for path in paths
        if not known.fullmatch(path)
        and not path.startswith(INTERPRETER)
        and not path.endswith(("/train.log", "libnvidia-ml.so.1", ".zip"))
    }
    assert foreign <= {"/", *way_of(calls)}


def way_of(calls: list[str]) -> set[str]:
    """Return the paths on the way to the folder of the job, and where its link leads."""
    [link] = {Path(path) for path in paths_of(calls) if path.endswith(WAY)}
    return {str(path) for path in (link, *link.parents, link.parent / "data")}


def test_of_the_way_to_a_folder_it_reads_links_alone(calls: list[str]) -> None:
    links = [call for call in calls if name_of(call) in {"readlink", "readlinkat"}]
    assert not way_of(calls) & paths_of([call for call in calls if call not in links]) - {"/"}


def test_it_opens_no_file_for_writing(calls: list[str]) -> None:
    writing = [c for c in calls if re.match(r"open(at)?\(.*O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)", c)]
    assert [call for call in writing if '"/dev/null"' not in call] == []


def test_it_starts_no_program_and_signals_its_children_alone(calls: list[str]) -> None:
    assert sum(name_of(call) == "execve" for call in calls) == 1
    children = {
        m[1]
        for call in calls
        if (m := re.match(r"(?:<\.\.\. )?(?:clone3?|v?fork)\W.* = (\d+)$", call))
    }
    signalled = {m[1] for call in calls if (m := re.match(r"kill\((\d+), SIG", call))}
    assert signalled
    assert signalled <= children


def test_it_opens_no_port_and_connects_to_nothing(calls: list[str]) -> None:
    kinds = {m[1] for call in calls if (m := re.match(r"socket\((\w+), ", call))}
    assert kinds <= {"AF_NETLINK", "AF_INET"}
    assert all(
        "NETLINK_SOCK_DIAG" in c or "SOCK_DGRAM" in c for c in calls if c.startswith("socket")
    )
    sent = [call for call in calls if call.startswith("sendto")]
    assert sent
    assert all("nlmsg" in call or "AF_NETLINK" in call for call in sent)
