"""The agent's parts alone: the door, the allow-list, names, guards, the line, the governor."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent import allow, frame, pipes
from gpuwatch.agent.govern import CALM, HOLD_S, LIMIT, RATES_HZ, Governor
from gpuwatch.agent.host import Host, options_of

SECRET = "hunter2-s3cr3t"


# --- host


def test_a_kept_file_tells_what_it_holds_now(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    file = tmp_path / "f"
    file.write_text("one")
    kept = host.keep("/f")
    assert (host.kept, kept.read(), host.kept) == (0, b"one", 1)
    file.write_text("three")
    assert kept.read() == b"three"
    kept.close()
    assert (host.kept, kept.read()) == (0, b"three")


def test_kept_files_are_bounded_and_those_beyond_read_as_well(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    host.kept_limit = 2
    (tmp_path / "f").write_text("x")
    kept = [host.keep("/f") for _ in range(5)]
    assert [file.read() for file in kept] == [b"x"] * 5
    assert host.kept == 2
    del kept[0]
    assert host.kept == 1


def test_a_kept_file_of_an_ended_process_fails_and_holds_nothing() -> None:
    host = Host()
    child = os.fork()
    if child == 0:
        signal.pause()
    kept = host.keep(f"/proc/{child}/stat")
    assert kept.read()
    os.kill(child, 9)
    os.waitpid(child, 0)
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        kept.read()
    assert host.kept == 0


@given(st.binary(max_size=70000), st.integers(1, 80000))
def test_a_file_is_read_wholly_up_to_its_limit(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, limit: int
) -> None:
    root = tmp_path_factory.getbasetemp() / "whole"
    root.mkdir(exist_ok=True)
    (root / "f").write_bytes(data)
    host = Host(str(root))
    kept = host.keep("/f", limit)
    assert kept.read() == kept.read() == host.read("/f", limit) == data[:limit]


def test_a_long_file_of_the_kernel_is_read_wholly() -> None:
    """A seq_file hands out whole records, a page at a time."""
    assert Host().keep("/proc/self/smaps").read().count(b"VmFlags") > 20


def test_options_have_floors_and_defaults() -> None:
    assert options_of({}) == options_of({"interval_s": None, "match": "", "line_rate": None})
    options = options_of({"interval_s": 0, "line_rate": {"eth0": 25000}, "interfaces": ["e*"]})
    assert options.interval_s == 1.0
    assert options.line_rate == (("eth0", 25000.0),)
    assert options.interfaces == ("e*",)


# --- allow


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["/usr/bin/python3", "-u", "/home/ann/train.py", f"--token={SECRET}"], "python3 train.py"),
        (
            ["python3.11", "-m", "torch.distributed.run", SECRET],
            "python3.11 -m torch.distributed.run",
        ),
        (["python", "-uBm", "train.main", SECRET], "python -m train.main"),
        (["python", "-mtrain"], "python -m train"),
        (["python", "-W", SECRET, "-X", SECRET, "a.py"], "python a.py"),
        (["python", f"-W{SECRET}", "--check-hash-based-pycs", SECRET, "a.py"], "python a.py"),
        (["python", "-c", f"print('{SECRET}')"], "python"),
        (["python", "-", SECRET], "python"),
        (["python"], "python"),
        (["/bin/bash", "/opt/run.sh", SECRET], "bash run.sh"),
        (["bash", "-c", f"TOKEN={SECRET} run"], "bash"),
        (["/opt/nccl/all_reduce_perf", "-b", SECRET], "all_reduce_perf"),
        ([f"python train.py --token {SECRET}"], "python"),
        ([f"TOKEN={SECRET}"], "TOKEN"),
        ([""], ""),
    ],
)
def test_a_command_line_leaves_as_names_only(argv: list[str], program: str) -> None:
    found = allow.program("\0".join(argv).encode() + b"\0")
    assert found == program
    assert SECRET not in found


@given(st.binary(max_size=300))
def test_any_command_line_leaves_as_few_plain_words(cmdline: bytes) -> None:
    words = allow.program(cmdline).split(" ")
    assert len(words) <= 3
    assert all(len(word) <= 64 and word.isascii() and word.isprintable() for word in words)


def test_an_environment_leaves_by_the_list_only() -> None:
    raw = (
        f"AWS_SECRET_ACCESS_KEY={SECRET}\0RANK=3\0XNCCL_DEBUG={SECRET}\0NCCL_DEBUG=INFO\0"
        f"RANK=9\0NCCL_lower={SECRET}\0MASTER_ADDR_TOKEN={SECRET}\0NCCL_X={'v' * 999}\0RANK\0"
    )
    found = allow.environ(raw.encode() + b"MASTER_ADDR=\xff\0")
    assert found == {
        "RANK": "3",
        "NCCL_DEBUG": "INFO",
        "NCCL_X": "v" * 256,
        "MASTER_ADDR": "\ufffd",
    }


@given(st.binary(max_size=400))
def test_any_environment_is_bounded(raw: bytes) -> None:
    for name, value in allow.environ(raw).items():
        assert name.encode() in allow.NAMES or name.startswith("NCCL_")
        assert len(value) <= 256


def test_names_last_while_nobody_new_comes() -> None:
    """A node may have more than half as many entities as names are kept for."""
    names = frame.Names(("nic",))
    many: frame.Rows = {"nic": {(f"veth{n}",): [] for n in range(2500)}}
    assert [names.settle(many) for _ in range(3)] == [True, False, False]
    churn: frame.Rows = {"nic": {(f"new{n}",): [] for n in range(2500)}}
    assert names.settle(churn)
    assert len(names.message("")[3][0]) == 2500


# --- pipes


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.mark.parametrize(
    ("chunks", "beat"),
    [
        ([b"beat 7\n"], 7),
        ([b"be", b"at 1", b"2\n"], 12),
        ([b"beat 1\nbeat 2\nbeat 3"], 2),
        ([b"\xff\0noise\nbeat 5\r\n"], 5),
        ([b"beat 5\n", b"beat -1\nbeat x\nbeat " + b"9" * 30 + b"\nBEAT 6\nbeat 6 x\n"], 5),
        ([b"x" * 3000, b"beat 4\n", b"beat 8\n"], 8),
        ([b"beat\n"], -1),
    ],
)
def test_heartbeats_are_heard_through_noise(
    chunks: list[bytes], beat: int, pipe: tuple[int, int]
) -> None:
    inbox = pipes.Inbox(pipe[0], 0)
    for now, chunk in enumerate(chunks, 1):
        os.write(pipe[1], chunk)
        inbox.hear(now)
    inbox.hear(99)
    assert inbox.beat == beat
    assert (inbox.beat_us >= 0) == (beat >= 0)
    assert (inbox.heard_us, inbox.ended) == (len(chunks), False)


@given(st.lists(st.binary(max_size=100), max_size=8))
def test_no_bytes_upset_the_inbox(chunks: list[bytes]) -> None:
    read, write = os.pipe()
    try:
        inbox = pipes.Inbox(read, 0)
        for chunk in chunks:
            os.write(write, chunk)
            inbox.hear(1)
            assert len(inbox._line) <= pipes.MAX_LINE + 1
    finally:
        os.close(read)
        os.close(write)


def test_a_slow_reader_loses_the_oldest_data_and_nothing_else(pipe: tuple[int, int]) -> None:
    outbox = pipes.Outbox(pipe[1])
    filler = b"-" * 65536
    outbox.put(pipes.HELLO, filler + filler)
    outbox.put(pipes.NAMES, b"[names 1]")
    for number in range(12):
        if number == 6:
            outbox.put(pipes.NAMES, b"[names 2]")
        outbox.put(pipes.DATA, b"[data %d]" % number)
    outbox.put(pipes.BYE, b"[bye]")
    assert (outbox.dropped, outbox.waiting) == (4, True)
    got = b""
    while outbox.waiting:
        got += os.read(pipe[0], 1 << 20)
        outbox.send()
    got += os.read(pipe[0], 1 << 20)
    texts = got[2 * len(filler) :].decode()
    assert texts == (
        "[names 1][data 4][data 5][names 2][data 6][data 7][data 8][data 9][data 10][data 11][bye]"
    )


def test_a_viewer_that_falls_behind_is_sent_the_newest_once_it_has_caught_up(
    pipe: tuple[int, int],
) -> None:
    """What the sockets on the way would take is not theirs to take."""
    outbox, inbox = pipes.Outbox(pipe[1]), pipes.Inbox(pipe[0], 0)
    for number in range(3):
        outbox.put(pipes.DATA, b"[%d]" % number, number)
    outbox.acknowledge(1)
    for number in range(3, 20):
        outbox.put(pipes.DATA, b"[%d]" % number, number)
    assert os.read(pipe[0], 1 << 16) == b"[0][1][2][3][4][5]"
    assert (outbox.waiting, outbox.dropped) == (False, 6)
    outbox.acknowledge(4)
    outbox.send()
    assert os.read(pipe[0], 1 << 16) == b"[12][13][14]"
    outbox.put(pipes.BYE, b"[bye]")
    assert os.read(pipe[0], 1 << 16) == b"[15][16][17][18][19][bye]"

    os.write(pipe[1], b"beat 1\nbeat 2 17\nbeat 3 x\n")
    inbox.hear(5)
    assert (inbox.beat, inbox.frame) == (2, 17)


def test_names_that_no_frame_cites_do_not_pile_up(pipe: tuple[int, int]) -> None:
    outbox = pipes.Outbox(pipe[1])
    outbox.put(pipes.HELLO, b"-" * 200000)
    for number in range(1000):
        outbox.put(pipes.NAMES, b"[names %d]" % number)
        outbox.put(pipes.DATA, b"[data %d]" % number)
    assert len(outbox._queue) <= 2 * pipes.DATA_QUEUE + 1


def test_a_reader_that_is_gone_breaks_the_outbox() -> None:
    read, write = os.pipe()
    outbox = pipes.Outbox(write)
    os.close(read)
    outbox.put(pipes.DATA, b"x")
    assert (outbox.broken, outbox.waiting) == (True, False)
    os.close(write)


# --- govern


def spend(governor: Governor, start: float, seconds: int, share: float, cpu_ms: float) -> float:
    """Let the agent cost this share of a core for so long; return its CPU time after."""
    for second in range(seconds):
        cpu_ms += share * 1000
        governor.observe(start + second, cpu_ms)
    return cpu_ms


def test_a_cheap_agent_keeps_its_rate() -> None:
    governor = Governor()
    spend(governor, 0, 600, LIMIT * 0.95, 400)
    assert (governor.rate_hz, governor.reason) == (5.0, None)


def test_start_up_is_not_held_against_it() -> None:
    governor = Governor()
    cpu_ms = spend(governor, 0, 4, 0.5, 0)
    spend(governor, 4, 100, LIMIT * 0.9, cpu_ms)
    assert governor.rate_hz == 5.0


def test_a_dear_agent_goes_down_step_by_step_and_says_so() -> None:
    governor = Governor()
    spend(governor, 0, 45, 0.013, 0)
    assert governor.rate_hz == 2.0
    assert governor.reason == "lowered to 2 Hz: agent used 1.3 % of a core"
    spend(governor, 45, 200, 0.013, 45 * 13)
    assert governor.rate_hz == 1.0


def test_what_a_window_may_cost_is_not_passed_before_it_is_over() -> None:
    governor = Governor()
    spend(governor, 0, 15, 0.05, 0)
    assert governor.rate_hz == 2.0
    assert governor.reason == "lowered to 2 Hz: agent used 5.0 % of a core"


def test_it_comes_back_when_calm_and_each_time_later() -> None:
    governor = Governor()
    now, cpu_ms, returns = 0, 0.0, []
    for _ in range(4):
        lowered = now
        while governor.rate_hz == RATES_HZ[0]:
            cpu_ms = spend(governor, now, 1, LIMIT * 1.5, cpu_ms)
            now += 1
        lowered = now
        while governor.rate_hz != RATES_HZ[0]:
            cpu_ms = spend(governor, now, 1, CALM * 0.5, cpu_ms)
            now += 1
        assert governor.reason is None
        returns.append(now - lowered)
    assert returns == [HOLD_S[0] * 2**n for n in range(4)]


def test_a_slow_tick_is_governed_too() -> None:
    governor = Governor()
    for tick in range(4):
        governor.observe(tick * 60.0, tick * 60000 * 0.02)
    assert governor.rate_hz < 5.0


def test_an_unknown_cost_changes_nothing() -> None:
    governor = Governor()
    for second in range(100):
        governor.observe(second, None)
    assert governor.rate_hz == 5.0
