"""The job's TCP connections over a wire: what tells a path, a late receiver and a silent peer apart."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.wire import (
    HERE,
    THERE,
    Wire,
    closed_readers,  # noqa: F401 - a fixture
    laid,
    rank,
    read_as,
    rows,
    run,
    slow,
    until,
    watch,
)
from debian import needs
from gpuwatch.agent.host import Host

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    needs("ip", "iproute2"),
]


@pytest.fixture
def wire() -> Iterator[Wire]:
    with laid() as wire:
        yield wire


def test_says_what_ss_says(wire: Wire) -> None:
    reader = watch(rank(wire.rank.process.pid))
    assert rows(reader) == {}
    wire.connect()
    wire.rank.say("send 100000")
    wire.peer.say("read 100000")
    wire.peer.say("send 3000")
    wire.rank.say("read 3000")
    found = until(reader, THERE, lambda now: now["received_bytes"] == 3000 and not now["unacked"])
    told = run("ip", "netns", "exec", wire.here, "ss", "-tinH", "dst", THERE)

    def of(name: str, before: str = ":") -> float:
        match = re.search(rf"\b{name}{before}([\d.]+)", told)
        return float(match[1]) if match else 0

    assert found["connections"] == 1
    assert found["connecting"] == 0
    assert found["acked_bytes"] == of("bytes_acked") > 100000 - 1
    assert found["received_bytes"] == of("bytes_received")
    assert found["out_segs"] == of("data_segs_out") > 0
    assert found["rtt_us"] / 1000 == pytest.approx(of("rtt"), abs=0.002)
    assert found["rtt_min_us"] / 1000 == pytest.approx(of("minrtt"), abs=0.002)
    assert found["delivery_bytes_s"] > 0
    assert found["retransmits"] == of("retrans", r":\d+/")


def test_sums_outlive_connections(wire: Wire) -> None:
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


def test_what_was_there_before_counts_from_now_on(wire: Wire) -> None:
    wire.connect()
    wire.rank.say("send 50000")
    wire.peer.say("read 50000")
    reader = watch(rank(wire.rank.process.pid))
    assert rows(reader)[THERE]["acked_bytes"] == 0
    wire.rank.say("send 700")
    wire.peer.say("read 700")
    assert until(reader, THERE, lambda now: now["acked_bytes"] > 0)["acked_bytes"] == 700


def test_a_receiver_that_does_not_read_is_no_path(wire: Wire) -> None:
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
def test_what_a_program_left_behind_is_still_its_own(wire: Wire) -> None:
    reader = watch(rank(wire.rank.process.pid))
    rows(reader)
    wire.connect()
    wire.rank.say("send 1000")
    until(reader, THERE, lambda now: now["acked_bytes"] > 0)
    slow(wire, "rate", "4mbit", "burst", "4kb", "limit", "1mb")
    wire.peer.ask("read 201000")
    wire.rank.say("send 200000")
    wire.rank.say("close")
    closed = rows(reader)[THERE]
    assert closed["queued_bytes"] > 0
    until(reader, THERE, lambda now: now["acked_bytes"] > closed["acked_bytes"] + 20000)


def test_a_receiver_sees_itself_not_reading(wire: Wire) -> None:
    wire.connect()
    wire.peer.say("send 40000")
    reader = watch(rank(wire.rank.process.pid))
    assert until(reader, THERE, lambda now: now["unread_bytes"] == 40000)["queued_bytes"] == 0


@needs("tc", "iproute2")
def test_a_delayed_path_has_a_long_round_trip(wire: Wire) -> None:
    slow(wire, "rate", "8mbit", "burst", "4kb", "limit", "1mb")
    reader = watch(rank(wire.rank.process.pid))
    rows(reader)
    wire.connect()
    wire.rank.ask("send 400000")
    wire.peer.ask("read 400000")
    found = until(reader, THERE, lambda now: (now["rtt_us"] or 0) > 50_000)
    assert found["rtt_us"] > 5 * found["rtt_min_us"]
    assert found["delivery_bytes_s"] < 1.3e6
    wire.peer.hear()


def test_a_path_that_drops_makes_retransmits(wire: Wire) -> None:
    # Lost at the far end: what this host's own queue drops is never sent, so never sent again.
    wire.connect()
    reader = watch(rank(wire.rank.process.pid))
    rows(reader)
    run("ip", "-n", wire.there, "address", "flush", "dev", "wire")
    wire.rank.ask("send 20000")
    found = until(reader, THERE, lambda now: now["retransmits"] > 0)
    assert found["out_segs"] > found["retransmits"]


def test_a_peer_that_says_nothing_is_only_idle(wire: Wire) -> None:
    wire.connect()
    wire.rank.say("send 100")
    reader = watch(rank(wire.rank.process.pid))
    found = until(reader, THERE, lambda now: now["idle_ms"] > 200)
    assert (found["unacked"], found["ack_wait_ms"], found["queued_bytes"]) == (0, 0, 0)


def test_a_dead_path_gives_no_acknowledgement(wire: Wire) -> None:
    wire.connect()
    wire.rank.say("send 100")
    wire.peer.say("read 100")
    run("ip", "-n", wire.there, "address", "flush", "dev", "wire")
    reader = watch(rank(wire.rank.process.pid))
    rows(reader)
    wire.rank.say("send 100")
    found = until(reader, THERE, lambda now: now["ack_wait_ms"] > 300)
    assert found["unacked"] > 0
    assert found["queued_bytes"] == 100
    assert found["rwnd_limited_us"] == 0


def test_an_attempt_without_an_answer_is_told(wire: Wire) -> None:
    wire.connect()
    run("ip", "-n", wire.there, "address", "flush", "dev", "wire")
    reader = watch(rank(wire.rank.process.pid))
    wire.rank.ask(f"open {THERE} {wire.port}")
    found = until(reader, THERE, lambda now: now["connecting"] == 1)
    assert found["connections"] == 1


def test_loaders_name_the_port_of_their_store(wire: Wire) -> None:
    wire.connect()
    reader = watch(rank(wire.rank.process.pid, "loader"))
    assert list(rows(reader)) == [f"{THERE}:{wire.port}"]


def test_this_host_is_left_out_where_there_are_others(wire: Wire) -> None:
    own = wire.rank.say(f"listen {HERE}")
    wire.rank.say(f"open {HERE} {own}")
    reader = watch(rank(wire.rank.process.pid))
    assert set(rows(reader)) == {HERE}
    wire.connect()
    until(reader, THERE, lambda now: now["connections"] == 1)
    assert set(rows(reader)) == {THERE}


def test_a_namespace_that_is_closed_to_us_is_told(wire: Wire) -> None:
    wire.connect()
    said = read_as(rank(wire.rank.process.pid), "--bounding-set", "-sys_admin")
    assert said["rows"] == 0
    assert "network namespace: Operation not permitted" in said["missing"]["sockets.namespaces"]


def test_a_namespace_is_let_go_with_its_processes(wire: Wire) -> None:
    wire.connect()
    host = Host()
    reader = watch(rank(wire.rank.process.pid), host=host)
    assert rows(reader)
    host.board.job = (rank(os.getpid()),)
    reader.read()
    namespace = Path(f"/run/netns/{wire.here}").stat().st_ino
    assert [name for name in reader._kernels if str(namespace) in name] == []


def test_our_own_namespace_is_never_left(wire: Wire) -> None:
    own = Path("/proc/thread-self/ns/net")
    before = own.readlink()
    rows(watch(rank(wire.rank.process.pid)))
    assert own.readlink() == before
