"""Connections of this host alone: who owns them, what a look costs, what any kernel may answer."""

import os
import socket
import struct
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.kit import agent
from agent.test_threads import job
from agent.wire import (
    by_peer,
    closed_readers,  # noqa: F401 - a fixture
    rank,
    read_as,
    readers,
    rows,
    talker,
    until,
    watch,
)
from gpuwatch.agent import catalogue, owners, sock_diag
from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import Absent, Reading
from gpuwatch.agent.sources import sockets
from gpuwatch.agent.sources.sockets import Reader

NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_descriptors_of_another_user_are_told() -> None:
    with talker() as other, talker() as far:
        port = far.say("listen 127.0.0.1")
        other.say(f"open 127.0.0.1 {port}")
        who = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        said = read_as(rank(other.process.pid), *who)
    assert said["rows"] == 0
    assert "not permitted" in said["missing"]["sockets.owners"]


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="needs IPv6")
def test_loopback_is_told_where_there_is_nothing_else() -> None:
    with talker() as main, talker() as far:
        port = far.say("listen ::1")
        main.say(f"open ::1 {port}")
        assert set(rows(watch(rank(main.process.pid)))) == {"::1"}
        assert set(rows(watch(rank(main.process.pid, "loader")))) == {f"[::1]:{port}"}


def test_a_mapped_address_is_told_as_it_is_known() -> None:
    with talker() as main, talker() as far:
        port = far.say("listen 127.0.0.1")
        main.say(f"open ::ffff:127.0.0.1 {port}")
        assert set(rows(watch(rank(main.process.pid)))) == {"127.0.0.1"}


def test_a_rank_owns_what_its_forked_loaders_inherit() -> None:
    with talker() as far:
        port = int(far.say("listen 127.0.0.1"))
        with socket.create_connection(("127.0.0.1", port)) as end:
            child = subprocess.Popen(["sleep", "1000"], pass_fds=[end.fileno()])
            reading = watch(rank(child.pid, "loader"), rank(os.getpid())).read()
            child.kill()
            child.wait()
    assert {labels[2] for _, labels, _ in reading.rows} == {"main"}


def test_of_many_peers_the_busiest_are_told() -> None:
    with talker() as main, talker() as far:
        port = far.say("listen 0.0.0.0")
        reader = watch(rank(main.process.pid))
        rows(reader)
        for number in range(2, 32):
            main.say(f"open 127.0.0.{number} {port}")
            if number > 25:
                main.say("send 9000")
        until(reader, "127.0.0.31", lambda now: now["acked_bytes"] > 9000 - 1)
        reading = reader.read()
    found = by_peer(reading)
    assert len(found) == sockets.MAX_PEERS
    assert {f"127.0.0.{number}" for number in range(26, 32)} <= set(found)
    assert "more than 24" in reading.missing["sockets.peers"]


def test_few_links_are_read_and_strangers_asked_once() -> None:
    class Counting(Host):
        links = 0

        def readlink(self, path: str) -> str:
            self.links += "/fd/" in path
            return super().readlink(path)

    host = Counting()
    with ExitStack() as stack, talker() as stranger, talker() as far:
        for _ in range(1000):
            stack.enter_context(Path(os.devnull).open())
        stranger.say(f"open 127.0.0.1 {far.say('listen 127.0.0.1')}")
        reader = watch(rank(os.getpid()), host=host)
        before, most, turns = 0, 0, 0
        while reader._owners._searching or not turns:
            reader.read()
            most, before = max(most, host.links - before), host.links
            turns += 1
        assert 900 < host.links < 2000
        assert 0 < most <= owners.LINKS
        assert turns >= 4
        reader._owners._rest_until = 0.0
        reader.read()
        assert host.links == before


def test_who_costs_much_rests() -> None:
    cpu = iter([0.0, 0.010, 1.0, 1.001, 2.0, 2.001])
    now = [100.0]
    host = Host()
    host.board.job = (rank(os.getpid()),)
    reader = Reader(host, clock=lambda: now[0], cpu=lambda: next(cpu))
    readers.append(reader)
    port = socket.create_server(("127.0.0.1", 0))
    with port, socket.create_connection(port.getsockname()):
        told = {}
        for second in range(10):
            now[0] = 100.0 + second
            reading = reader.read()
            told[second] = bool(reading.rows)
            assert "sockets.rate" in reading.missing
    # 10 ms at 0.2 % are 5 s; then what it costs now, but not all at once
    assert [second for second, read in told.items() if read] == [0, 5, 9]


def test_an_older_kernel_tells_less_which_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sock_diag.tcp_info
    # Linux 4.9 ends after delivery_rate, without the time limited by this and that.
    monkeypatch.setattr(sock_diag, "tcp_info", lambda raw: real(raw[:168]))
    with talker() as main, talker() as far:
        main.say(f"open 127.0.0.1 {far.say('listen 127.0.0.1')}")
        main.say("send 10")
        reading = watch(rank(main.process.pid)).read()
    (found,) = by_peer(reading).values()
    assert found["acked_bytes"] is not None
    assert found["rtt_us"] > 0
    for name in ("busy_us", "rwnd_limited_us", "sndbuf_limited_us", "out_of_order_segs"):
        assert found[name] is None
        assert reading.missing[f"sockets.{name}"] == "this kernel does not tell it"


@pytest.mark.parametrize("where", ["ask_here", "dump"])
def test_a_kernel_without_it_is_no_fault(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def refuse(*_: object) -> None:
        raise OSError({"ask_here": 93, "dump": 2}[where], "?")

    monkeypatch.setattr(sockets, where, refuse)
    with pytest.raises(Absent, match=r"no sock_diag for TCP \(module tcp_diag\)"):
        watch(rank(os.getpid())).read()


def test_without_a_job_the_kernel_is_not_asked() -> None:
    reader = watch()
    assert reader.read() == Reading([], {"sockets": "no process of the job"})
    assert reader._kernels == {}


def test_an_agent_sends_them() -> None:
    with job("tcp") as running, agent({"match": running.mark, "interval_s": 0.2}) as watcher:
        place = catalogue.SCOPES.index("connection")
        watcher.wait_for("data")
        while not watcher.of("data")[-1][8][place]:
            watcher.wait_for("data", len(watcher.of("data")) + 1)
        names = watcher.of("names")[-1][3][place]
    assert ["match:" + running.mark, "3", "loader"] in [label[:3] for label in names]


def _message(kind: int, payload: bytes) -> bytes:
    size = 16 + len(payload)
    return struct.pack("=IHHII", size, kind, 0, 0, 0) + payload + bytes(-size % 4)


@given(st.binary(max_size=600))
@example(_message(sock_diag.NLMSG_ERROR, struct.pack("=i", -2)))
@example(_message(sock_diag.TCPDIAG_GETSOCK, bytes(72) + b"\0\0\0\0"))
def test_any_answer_is_read_or_refused(data: bytes) -> None:
    with suppress(OSError):
        found, is_last = sock_diag.answer(data)
        assert len(found) <= len(data) // 88
        assert all(one.ends() and one.info() for one in found)
        assert not is_last or len(data) >= 16


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_any_socket_of_the_kernel_is_parsed(payloads: list[bytes]) -> None:
    data = b"".join(
        _message(sock_diag.TCPDIAG_GETSOCK, bytes(72) + payload) for payload in payloads
    )
    found, is_last = sock_diag.answer(data + _message(sock_diag.NLMSG_DONE, bytes(4)))
    assert (len(found), is_last) == (len(payloads), True)
    for one in found:
        end = one.ends()
        assert {len(end.local), len(end.peer)} <= {4, 16}
        assert len(one.info()) == len(sock_diag.Info._fields)


@given(st.integers(0, 400), st.integers(0, 255))
def test_only_what_is_there_of_tcp_info_is_told(size: int, byte: int) -> None:
    info = sock_diag.tcp_info(bytes([byte]) * size)
    assert (info.rtt is not None) == (size >= 72)
    assert (info.sndbuf_limited is not None) == (size >= 192)
    assert (info.rcv_ooopack is not None) == (size >= 228)
    assert set(info) <= {None, byte * 0x01010101, byte * 0x0101010101010101}
