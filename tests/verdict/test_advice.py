"""Advice: every cause has some, its commands are what they seem, and no name breaks out of one."""

import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.model.verdict import CAUSES, STATES, Culprit, Finding, State, Verdict
from gpuwatch.verdict.advice import ADVICE, LENGTH, Advice, Known, Medium, advise, known, medium
from verdict.scenario import GOOD, PEERS, VICTIM, Gpu, Nic, Node, named, rank, settled

KINDS = [(state, cause) for state in STATES for cause in (None, *CAUSES[state])]
PIECES = [(kind, piece) for kind, pieces in ADVICE.items() for piece in pieces]
COMMANDS = sorted({piece.command for _, piece in PIECES if piece.command is not None})
MEDIA: tuple[Medium, ...] = get_args(Medium)

READERS = {
    "cat", "cd", "ethtool", "grep", "ip", "iostat", "journalctl", "ls", "mlxlink", "mpstat", "ncclras", "nfsiostat",
    "nstat", "numastat", "nvidia-smi", "pgrep", "ping", "ps", "py-spy", "rdma", "sar", "sleep", "ss", "swapon",
    "systemctl", "taskset", "top", "tr", "tracepath", "vmstat", "xargs",
}  # fmt: skip
LOADERS = {"all_reduce_perf", "curl", "fio", "ib_write_bw", "iperf3", "py-spy"}
WRITES = {
    "ethtool": {"-L", "-G", "-K", "-s", "-A", "-p"}, "ip": {"set", "add", "del", "flush"},
    "nvidia-smi": {"-r", "--gpu-reset", "-pm", "-pl", "-lgc", "-rac", "-mig"}, "swapon": {"-a"},
    "systemctl": {"start", "stop", "restart"}, "rdma": {"set", "add", "bind"},
}  # fmt: skip
"""What would make a reader write."""
HOSTILE = (
    "a; echo", "$(echo)", "`echo`", "a\necho", "'; echo; '", '"; echo; "', "-rf", "--script=x", "a b", "| sh",
    "${IFS}", "&", "\x1b[31m", "{pid}", "[/b]", "", "x" * 500, "../..",
)  # fmt: skip


def words(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def programs(command: str) -> list[list[str]]:
    """The simple commands of a line, each as its words."""
    lines: list[list[str]] = [[]]
    for word in words(command):
        if re.fullmatch(r"[;|&]+", word):
            lines.append([])
        else:
            lines[-1].append(word)
    return lines


def media_of(state: State) -> Sequence[Medium | None]:
    return {"NETWORK": MEDIA[:2], "STORAGE": MEDIA[2:], "STARTUP": MEDIA[2:]}.get(state, (None,))


@pytest.mark.parametrize(("state", "cause"), KINDS)
def test_every_cause_has_one_to_three_pieces_that_begin_with_a_look(
    state: State, cause: str | None
) -> None:
    for on in media_of(state):
        pieces = advise(state, cause, on)
        assert 1 <= len(pieces) <= 3
        assert pieces[0].kind == "reads"
        if cause is not None:
            assert pieces[-1].kind == "changes"


@pytest.mark.parametrize(("kind", "piece"), PIECES)
def test_a_piece_is_short_and_plain(kind: tuple[State, str | None], piece: Advice) -> None:
    assert 10 < len(piece.text) <= LENGTH
    assert piece.text.isascii()
    assert piece.text.isprintable()
    assert (piece.command is None) == (piece.kind == "changes")
    assert piece.on is None or piece.on in media_of(kind[0])


@pytest.mark.parametrize(
    "piece", [p for _, p in PIECES if p.command is not None], ids=lambda p: p.command
)
def test_a_command_is_of_known_programs_and_what_it_is_marked_as(piece: Advice) -> None:
    allowed = READERS if piece.kind == "reads" else LOADERS
    assert piece.command is not None
    for program, *arguments in programs(piece.command):
        assert program in allowed
        assert not WRITES.get(program, set()) & set(arguments)
        assert program != "py-spy" or "--nonblocking" in arguments
    assert ">" not in words(piece.command)


@pytest.mark.parametrize("state", STATES)
def test_a_cause_that_nobody_knows_has_no_advice(state: State) -> None:
    assert advise(state, "gremlins") == ()


@pytest.mark.parametrize("name", Known.__struct_fields__)
@given(value=st.text() | st.sampled_from(HOSTILE))
def test_no_name_breaks_out_of_a_command(name: str, value: str) -> None:
    facts = Known(**{name: value})
    for kind in KINDS:
        for blank, filled in zip(advise(*kind), advise(*kind, facts=facts), strict=True):
            if blank.command is None or filled.command is None:
                assert blank == filled
                continue
            assert filled.command.isprintable()
            if blank.command != filled.command:
                hole = name.upper()
                assert words(filled.command) == [
                    w.replace(hole, value) for w in words(blank.command)
                ]
                assert not value.startswith("-")


@pytest.mark.parametrize("value", HOSTILE)
def test_a_shell_gives_a_name_to_the_program_as_one_word(value: str) -> None:
    command = advise("NETWORK", "path", facts=Known(peer=value))[0].command
    script = f'tracepath() {{ printf "%s\\n" "$@"; }}; {command}'
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout in (f"-n\n{value}\n", "-n\nPEER\n")


def test_what_is_missing_stays_a_word() -> None:
    (look, *_) = advise("STORAGE", "read", "server")
    assert look.command == "nfsiostat 1 5 MOUNT"
    (look, *_) = advise("STORAGE", "read", "server", Known(mount="/data"))
    assert look.command == "nfsiostat 1 5 /data"
    (look, *_) = advise("CPU", "main-thread", facts=Known(pid="4 5"))
    assert look.command == "py-spy dump --nonblocking --pid PID"


def test_a_verdict_tells_where_to_look() -> None:
    path = Verdict(
        scope="job",
        state="NETWORK",
        cause="path",
        culprits=(Culprit("path", "a -> b", ("a", "b")),),
    )
    assert known(path) == Known(node="a", peer="b")
    peer = Verdict(scope="node", node="b", state="PEER", culprits=(Culprit("node", "a", ("a",)),))
    assert known(peer) == Known(node="b", peer="a")
    hot = Verdict(scope="job", state="GPU", culprits=(Culprit("gpu", "GPU 3 of a", ("a",)),))
    assert known(hot) == Known(node="a", gpu="3")
    unknown = Verdict(scope="job", culprits=(Culprit("unknown", "a", ("a",)),))
    assert known(unknown) == Known()
    assert medium(unknown) is None


RDMA = {"tx_packets": 1e6, "rx_packets": 1e6, "tx_bytes": 4e9, "rx_bytes": 4e9}
LOSES = replace(VICTIM, rdma={**RDMA, "packet_seq_err": 50.0, "local_ack_timeout_err": 0.0})
WAITS_FOR_NFS = replace(
    rank(gpu=Gpu(util=28, power=266, memory=12), main={"pipe": 1.0}, main_run=0.04, loader={"netfs": 1.0},
         loader_run=0.0, read_mb=0.4),
    mounts={("/data", "nfs4", "nas1:/export"): 156.0},
)  # fmt: skip
FLAPS = replace(GOOD, ranks=VICTIM.ranks, nics=(Nic(rx_mb=500, tx_mb=500, flaps=0.2),))


@pytest.mark.parametrize(
    ("bad", "well", "on", "facts", "first"),
    [
        (LOSES, VICTIM, "RDMA", {"link": "mlx5_0/1", "adapter": "mlx5_0"}, "rdma -p statistic show link mlx5_0/1"),
        (FLAPS, VICTIM, "TCP", {"port": "eth0"}, "ethtool eth0; ethtool -S eth0 | grep -iE 'err|crc|symbol|discard'"),
        (WAITS_FOR_NFS, VICTIM, "server", {}, "nfsiostat 1 5 MOUNT"),
    ],
)  # fmt: skip
def test_judged_verdicts_lead_to_the_commands_of_their_medium(
    bad: Node, well: Node, on: Medium, facts: dict[str, str], first: str
) -> None:
    job = settled((*named(well, *PEERS), *named(bad, "x"))).job
    assert medium(job) == on
    assert known(job) == Known(node="x", **facts)
    assert advise(job.state, job.cause, on, known(job))[0].command == first


def test_a_disk_is_looked_at_where_threads_wait_for_a_disk() -> None:
    found = Finding("thread_wait.loader.block-read", 81.0, "%", 30.0, "loaders in block-read 81 %")
    disk = Verdict(scope="node", node="a", state="STORAGE", cause="read", support=(found,))
    assert medium(disk) == "disk"
    shared = msgspec.structs.replace(disk, culprits=(Culprit("mount", "nas1:/data", ("a", "b")),))
    assert medium(shared) == "server"
    assert known(shared).mount is None
