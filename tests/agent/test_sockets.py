"""The job's TCP connections: real ones, over a wire between two network namespaces."""

import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.kit import ROOT, agent, named
from agent.test_threads import job
from debian import needs
from gpuwatch.agent import catalogue, owners, sock_diag
from gpuwatch.agent.host import Host, Member
from gpuwatch.agent.metric import Absent, Reading
from gpuwatch.agent.sources import sockets
from gpuwatch.agent.sources.sockets import Reader

TALKER = Path(__file__).with_name("talker.py")
NOBODY = 65534
HERE, THERE = "10.78.0.1", "10.78.0.2"

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
on_a_wire = [root_only, needs("ip", "iproute2")]


class Talker:
    """A running talker.py."""

    def __init__(self, *before: str) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, str(TALKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, bufsize=1,
        )  # fmt: skip

    def say(self, words: str) -> str:
        self.ask(words)
        return self.hear()

    def ask(self, words: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(words + "\n")

    def hear(self) -> str:
        assert self.process.stdout
        answer = self.process.stdout.readline().strip()
        assert answer
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def talker(*before: str) -> Iterator[Talker]:
    running = Talker(*before)
    try:
        yield running
    finally:
        running.end()


class Wire:
    """Two network namespaces with a cable between; a process in each, the first is the rank."""

    def __init__(self, here: str, there: str, rank: Talker, peer: Talker) -> None:
        self.here, self.there, self.rank, self.peer = here, there, rank, peer
        self.port = peer.say(f"listen {THERE}")
        rank.say(f"listen {HERE}")

    def connect(self) -> None:
        self.rank.say(f"open {THERE} {self.port}")
        self.peer.say("accept")


@pytest.fixture
def wire() -> Iterator[Wire]:
    here, there = (f"gwsock{os.getpid()}{end}" for end in "ab")
    with ExitStack() as stack:
        for name in (here, there):
            _run("ip", "netns", "add", name)
            stack.callback(_run, "ip", "netns", "del", name)
        _run("ip", "-n", here, "link", "add", "wire", "type", "veth", "peer", "name", "wire",
             "netns", there)  # fmt: skip
        for name, address in ((here, HERE), (there, THERE)):
            _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "wire")
            for device in ("lo", "wire"):
                _run("ip", "-n", name, "link", "set", device, "up")
        ends = [stack.enter_context(talker("ip", "netns", "exec", name)) for name in (here, there)]
        yield Wire(here, there, *ends)


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


readers: list[Reader] = []


@pytest.fixture(autouse=True)
def closed_readers() -> Iterator[None]:
    yield
    while readers:
        readers.pop().close()


def _slow(wire: Wire, *how: str) -> None:
    """Let what the rank sends pass through a token bucket (tc-tbf(8))."""
    _run("tc", "-n", wire.here, "qdisc", "add", "dev", "wire", "root", "tbf", *how)


def watch(*members: Member, host: Host | None = None) -> Reader:
    host = host or Host()
    host.board.job = members
    readers.append(Reader(host, cpu=lambda: 0.0))
    return readers[-1]


def rank(pid: int, role: str = "main") -> Member:
    return Member(pid, "match:x", "3", role, 0)


def rows(reader: Reader) -> dict[str, dict[str, Any]]:
    """Read once; peer to values."""
    return by_peer(reader.read())


def by_peer(reading: Reading) -> dict[str, dict[str, Any]]:
    return {entity.split()[-1]: values for entity, values in named("sockets", reading).items()}


def until(reader: Reader, peer: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Read until what is told of a peer holds; return it."""
    deadline = time.monotonic() + 10
    found: dict[str, Any] = {}
    while True:
        found = rows(reader).get(peer, {})
        if found and holds(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


class TestOnAWire:
    pytestmark = on_a_wire

    def test_says_what_ss_says(self, wire: Wire) -> None:
        reader = watch(rank(wire.rank.process.pid))
        assert rows(reader) == {}
        wire.connect()
        wire.rank.say("send 100000")
        wire.peer.say("read 100000")
        wire.peer.say("send 3000")
        wire.rank.say("read 3000")
        found = until(
            reader, THERE, lambda now: now["received_bytes"] == 3000 and not now["unacked"]
        )
        told = _run("ip", "netns", "exec", wire.here, "ss", "-tinH", "dst", THERE)

        def of(name: str) -> float:
            match = re.search(rf"\b{name}:([\d.]+)", told)
            return float(match[1]) if match else 0

        assert found["connections"] == 1
        assert found["connecting"] == 0
        assert found["acked_bytes"] == of("bytes_acked") > 100000 - 1
        assert found["received_bytes"] == of("bytes_received")
        assert found["out_segs"] == of("data_segs_out") > 0
        assert found["rtt_us"] / 1000 == pytest.approx(of("rtt"), abs=0.002)
        assert found["rtt_min_us"] / 1000 == pytest.approx(of("minrtt"), abs=0.002)
        assert found["delivery_bytes_s"] > 0
        assert found["retransmits"] == 0

    def test_sums_outlive_connections(self, wire: Wire) -> None:
        reader = watch(rank(wire.rank.process.pid))
        rows(reader)
        for times in range(1, 4):
            wire.connect()
            wire.rank.say("send 5000")
            wire.peer.say("read 5000")
            until(reader, THERE, lambda now: now["acked_bytes"] >= 5000 * times)  # noqa: B023
            before = rows(reader)[THERE]["acked_bytes"]
            wire.rank.say("close")
            wire.peer.say("close")
            gone = until(reader, THERE, lambda now: now["connections"] == 0)
            assert before <= gone["acked_bytes"] < 5100 * times
            assert gone["rtt_us"] is None

    def test_what_was_there_before_counts_from_now_on(self, wire: Wire) -> None:
        wire.connect()
        wire.rank.say("send 50000")
        wire.peer.say("read 50000")
        reader = watch(rank(wire.rank.process.pid))
        assert rows(reader)[THERE]["acked_bytes"] == 0
        wire.rank.say("send 700")
        wire.peer.say("read 700")
        assert until(reader, THERE, lambda now: now["acked_bytes"] > 0)["acked_bytes"] == 700

    def test_a_receiver_that_does_not_read_is_no_path(self, wire: Wire) -> None:
        reader = watch(rank(wire.rank.process.pid))
        rows(reader)
        wire.connect()
        wire.rank.ask("send 30000000")
        found = until(reader, THERE, lambda now: now["rwnd_limited_us"] > 300_000)
        assert found["rwnd_limited_us"] > 0.8 * found["busy_us"]
        assert found["queued_bytes"] > 0
        assert found["retransmits"] <= 5  # probes, and what the full receiver threw away
        assert found["rtt_us"] < 50_000

    @needs("tc", "iproute2")
    def test_what_a_program_left_behind_is_still_its_own(self, wire: Wire) -> None:
        reader = watch(rank(wire.rank.process.pid))
        rows(reader)
        wire.connect()
        wire.rank.say("send 1000")
        until(reader, THERE, lambda now: now["acked_bytes"] > 0)
        _slow(wire, "rate", "4mbit", "burst", "4kb", "limit", "1mb")
        wire.peer.ask("read 201000")
        wire.rank.say("send 200000")
        wire.rank.say("close")
        closed = rows(reader)[THERE]
        assert closed["queued_bytes"] > 0
        until(reader, THERE, lambda now: now["acked_bytes"] > closed["acked_bytes"] + 20000)

    def test_a_receiver_sees_itself_not_reading(self, wire: Wire) -> None:
        wire.connect()
        wire.peer.say("send 40000")
        reader = watch(rank(wire.rank.process.pid))
        assert until(reader, THERE, lambda now: now["unread_bytes"] == 40000)["queued_bytes"] == 0

    @needs("tc", "iproute2")
    def test_a_delayed_path_has_a_long_round_trip(self, wire: Wire) -> None:
        _slow(wire, "rate", "8mbit", "burst", "4kb", "limit", "1mb")
        reader = watch(rank(wire.rank.process.pid))
        rows(reader)
        wire.connect()
        wire.rank.ask("send 400000")
        wire.peer.ask("read 400000")
        found = until(reader, THERE, lambda now: (now["rtt_us"] or 0) > 50_000)
        assert found["rtt_us"] > 5 * found["rtt_min_us"]
        assert found["delivery_bytes_s"] < 1.3e6
        wire.peer.hear()

    @needs("tc", "iproute2")
    def test_a_path_that_drops_makes_retransmits(self, wire: Wire) -> None:
        _slow(wire, "rate", "50mbit", "burst", "4kb", "limit", "12kb")
        _run("ip", "-n", wire.here, "link", "set", "wire", "gso_max_segs", "1")
        reader = watch(rank(wire.rank.process.pid))
        rows(reader)
        wire.connect()
        wire.rank.ask("send 2000000")
        found = until(reader, THERE, lambda now: now["retransmits"] > 0)
        assert found["out_segs"] > found["retransmits"]

    def test_a_peer_that_says_nothing_is_only_idle(self, wire: Wire) -> None:
        wire.connect()
        wire.rank.say("send 100")
        reader = watch(rank(wire.rank.process.pid))
        found = until(reader, THERE, lambda now: now["idle_ms"] > 200)
        assert (found["unacked"], found["ack_wait_ms"], found["queued_bytes"]) == (0, 0, 0)

    def test_a_dead_path_gives_no_acknowledgement(self, wire: Wire) -> None:
        wire.connect()
        wire.rank.say("send 100")
        wire.peer.say("read 100")
        _run("ip", "-n", wire.there, "address", "flush", "dev", "wire")
        reader = watch(rank(wire.rank.process.pid))
        rows(reader)
        wire.rank.say("send 100")
        found = until(reader, THERE, lambda now: now["ack_wait_ms"] > 300)
        assert found["unacked"] > 0
        assert found["queued_bytes"] == 100
        assert found["rwnd_limited_us"] == 0

    def test_an_attempt_without_an_answer_is_told(self, wire: Wire) -> None:
        wire.connect()
        _run("ip", "-n", wire.there, "address", "flush", "dev", "wire")
        reader = watch(rank(wire.rank.process.pid))
        wire.rank.ask(f"open {THERE} {wire.port}")
        found = until(reader, THERE, lambda now: now["connecting"] == 1)
        assert found["connections"] == 1

    def test_loaders_name_the_port_of_their_store(self, wire: Wire) -> None:
        wire.connect()
        reader = watch(rank(wire.rank.process.pid, "loader"))
        assert list(rows(reader)) == [f"{THERE}:{wire.port}"]

    def test_this_host_is_left_out_where_there_are_others(self, wire: Wire) -> None:
        own = wire.rank.say(f"listen {HERE}")
        wire.rank.say(f"open {HERE} {own}")
        reader = watch(rank(wire.rank.process.pid))
        assert set(rows(reader)) == {HERE}
        wire.connect()
        until(reader, THERE, lambda now: now["connections"] == 1)
        assert set(rows(reader)) == {THERE}

    def test_a_namespace_that_is_closed_to_us_is_told(self, wire: Wire) -> None:
        wire.connect()
        said = _read_as(rank(wire.rank.process.pid), "--bounding-set", "-sys_admin")
        assert said["rows"] == 0
        assert "network namespace: Operation not permitted" in said["missing"]["sockets.namespaces"]

    def test_a_namespace_is_let_go_with_its_processes(self, wire: Wire) -> None:
        wire.connect()
        host = Host()
        reader = watch(rank(wire.rank.process.pid), host=host)
        assert rows(reader)
        host.board.job = (rank(os.getpid()),)
        reader.read()
        namespace = Path(f"/run/netns/{wire.here}").stat().st_ino
        assert [name for name in reader._kernels if str(namespace) in name] == []

    def test_our_own_namespace_is_never_left(self, wire: Wire) -> None:
        own = Path("/proc/thread-self/ns/net")
        before = own.readlink()
        rows(watch(rank(wire.rank.process.pid)))
        assert own.readlink() == before


def _read_as(member: Member, *how: str) -> dict[str, Any]:
    """Read in a process with fewer rights."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gpuwatch.agent.host import Host, Member\n"
        "from gpuwatch.agent.sources.sockets import Reader\n"
        "host = Host()\n"
        f"host.board.job = ({tuple(member)!r},)\n"
        "host.board.job = tuple(Member(*m) for m in host.board.job)\n"
        "reading = Reader(host).read()\n"
        "print({'rows': len(reading.rows), 'missing': reading.missing})\n"
    )
    words = ["setpriv", *how, "/usr/bin/python3", "-B", "-c", program, str(ROOT / "src")]
    return dict(eval(_run(*words)))


@root_only
def test_descriptors_of_another_user_are_told() -> None:
    with talker() as other, talker() as far:
        port = far.say("listen 127.0.0.1")
        other.say(f"open 127.0.0.1 {port}")
        who = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        said = _read_as(rank(other.process.pid), *who)
    assert said["rows"] == 0
    assert "not permitted" in said["missing"]["sockets.owners"]


class TestOnThisHost:
    @pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="needs IPv6")
    def test_loopback_is_told_where_there_is_nothing_else(self) -> None:
        with talker() as main, talker() as far:
            port = far.say("listen ::1")
            main.say(f"open ::1 {port}")
            assert set(rows(watch(rank(main.process.pid)))) == {"::1"}
            assert set(rows(watch(rank(main.process.pid, "loader")))) == {f"[::1]:{port}"}

    def test_a_mapped_address_is_told_as_it_is_known(self) -> None:
        with talker() as main, talker() as far:
            port = far.say("listen 127.0.0.1")
            main.say(f"open ::ffff:127.0.0.1 {port}")
            assert set(rows(watch(rank(main.process.pid)))) == {"127.0.0.1"}

    def test_a_rank_owns_what_its_forked_loaders_inherit(self) -> None:
        with talker() as far:
            port = int(far.say("listen 127.0.0.1"))
            with socket.create_connection(("127.0.0.1", port)) as end:
                child = subprocess.Popen(["sleep", "1000"], pass_fds=[end.fileno()])
                reading = watch(rank(child.pid, "loader"), rank(os.getpid())).read()
                child.kill()
                child.wait()
        assert {labels[2] for _, labels, _ in reading.rows} == {"main"}

    def test_of_many_peers_the_busiest_are_told(self) -> None:
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

    def test_few_links_are_read_and_strangers_asked_once(self) -> None:
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

    def test_who_costs_much_rests(self) -> None:
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

    def test_an_older_kernel_tells_less_which_is_no_zero(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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
    def test_a_kernel_without_it_is_no_fault(
        self, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        def refuse(*_: object) -> None:
            raise OSError({"ask_here": 93, "dump": 2}[where], "?")

        monkeypatch.setattr(sockets, where, refuse)
        with pytest.raises(Absent, match=r"no sock_diag for TCP \(module tcp_diag\)"):
            watch(rank(os.getpid())).read()

    def test_without_a_job_the_kernel_is_not_asked(self) -> None:
        reader = watch()
        assert reader.read() == Reading([], {"sockets": "no process of the job"})
        assert reader._kernels == {}

    def test_an_agent_sends_them(self) -> None:
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
@example(_message(sock_diag.SOCK_DIAG_BY_FAMILY, bytes(72) + b"\0\0\0\0"))
def test_any_answer_is_read_or_refused(data: bytes) -> None:
    with suppress(OSError):
        found, is_last = sock_diag.answer(data)
        assert len(found) <= len(data) // 88
        assert all(one.ends() and one.info() for one in found)
        assert not is_last or len(data) >= 16


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_any_socket_of_the_kernel_is_parsed(payloads: list[bytes]) -> None:
    data = b"".join(
        _message(sock_diag.SOCK_DIAG_BY_FAMILY, bytes(72) + payload) for payload in payloads
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
