"""What time does to a verdict: suspicion, confirmation, exit, rhythm, recurrence, slowdown."""

from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from gpuwatch.model.verdict import Culprit
from gpuwatch.verdict.hysteresis import EPISODES, UNKNOWN, Claim, Track, recurring, reset, step
from gpuwatch.verdict.thresholds import Thresholds
from verdict.scenario import (
    GOOD,
    HALF,
    READS,
    VICTIM,
    WRITES,
    Gpu,
    Node,
    Play,
    blamed,
    named,
    said,
)

T = Thresholds()
SECOND = 1_000_000
READ = Claim("STORAGE", "read")
WORK = Claim("COMPUTE")
PEERS = ("g1", "g2", "g3")


class Clock:
    """A track and its clock, moved on a second at a time."""

    def __init__(self) -> None:
        self.track: Track | None = None
        self.now_us = 0

    def run(self, seconds: int, *scores: tuple[Claim, float]) -> Track:
        for _ in range(seconds):
            self.now_us += SECOND
            self.track = step(self.track, self.now_us, dict(scores), T)
        assert self.track is not None
        return self.track


@pytest.mark.parametrize(("score", "ticks"), [(1.0, 2), (0.9, 2), (0.6, 2), (0.4, 3), (0.3, 4)])
def test_a_clear_wait_is_suspected_in_two_ticks_a_faint_one_later(score: float, ticks: int) -> None:
    clock = Clock()
    clock.run(1)
    assert clock.run(ticks - 1, (READ, score)).shown == UNKNOWN
    assert clock.run(1, (READ, score)).suspected_us is not None


def test_a_wait_is_confirmed_when_the_windows_that_speak_for_it_make_thirty_seconds() -> None:
    clock = Clock()
    clock.run(10)
    assert clock.run(25, (READ, 0.9)).confirmed_us is None
    assert clock.run(1, (READ, 0.9)).confirmed_us is not None


def test_a_low_score_says_nothing() -> None:
    assert Clock().run(60, (READ, 0.29)).shown == UNKNOWN


def test_a_rival_must_lead_for_a_while_and_is_dated_back() -> None:
    clock = Clock()
    clock.run(60, (WORK, 0.9))
    onset_us = clock.now_us
    assert clock.run(1, (WORK, 0.2), (READ, 0.8)).shown == WORK
    track = clock.run(1, (WORK, 0.2), (READ, 0.8))
    assert track.shown == READ
    assert abs(track.since_us - onset_us) <= T.fast_window / 2 * SECOND


def test_k14_k15_one_second_of_waiting_for_storage_is_no_verdict() -> None:
    """A tick that says 98.94 % iowait on a CPU that idles: jitter of the kernel's counters."""
    play = Play(PEERS)
    play.run(named(GOOD, *PEERS), 40)
    waits = replace(GOOD, iowait=0.9894, busy=0.01)
    for _ in range(4):
        verdict = play.run(named(waits, *PEERS), 1)
        assert said(verdict.job) == ("COMPUTE", None)
        verdict = play.run(named(GOOD, *PEERS), 15)
        assert said(verdict.job) == ("COMPUTE", None)
    assert all(track.state != "STORAGE" for track in verdict.nodes)


def test_one_bad_second_changes_no_word() -> None:
    clock = Clock()
    clock.run(60, (WORK, 0.9))
    assert clock.run(1, (READ, 1.0)).shown == WORK
    assert clock.run(1, (WORK, 0.9)).shown == WORK


def test_what_fades_ends_after_ten_seconds_and_not_before() -> None:
    clock = Clock()
    clock.run(60, (READ, 0.9))
    assert clock.run(5).shown == READ
    assert clock.run(8).shown == UNKNOWN


def test_a_new_verdict_stays_for_its_dwell() -> None:
    clock = Clock()
    clock.run(4, (READ, 0.9))
    assert clock.run(8, (WORK, 0.9)).shown == READ
    assert clock.run(4, (WORK, 0.9)).shown == WORK


def test_a_fast_rhythm_is_one_verdict_not_many() -> None:
    clock = Clock()
    shown = []
    for _ in range(30):
        for scores in (((WORK, 0.8), (READ, 0.4)),) * 6 + (((WORK, 0.4), (READ, 0.6)),) * 5:
            shown += [clock.run(1, *scores).shown]
    changes = sum(a != b for a, b in pairwise(shown))
    assert changes <= 12  # the scores cross 59 times


def test_a_cause_that_becomes_clearer_does_not_begin_the_wait_anew() -> None:
    clock = Clock()
    clock.run(60, (WORK, 0.9))
    clock.run(2, (Claim("CPU", "quota"), 0.9))
    track = clock.run(2, (Claim("CPU", "system"), 0.9))
    assert track.shown == Claim("CPU", "system")


def test_a_cause_becomes_clearer_while_its_verdict_is_young() -> None:
    clock = Clock()
    clock.run(60, (WORK, 0.9))
    path, queue = Claim("NETWORK", "path"), Claim("NETWORK", "congestion")
    since_us = clock.run(3, (path, 0.9)).since_us
    track = clock.run(2, (queue, 0.9))
    assert (track.shown, track.since_us) == (queue, since_us)
    assert track.episodes[-1].state == "COMPUTE"


def test_blame_that_moves_is_a_new_episode() -> None:
    first = Claim("STORAGE", "read", (Culprit("node", "a", ("a",)),))
    second = Claim("STORAGE", "read", (Culprit("node", "b", ("b",)),))
    clock = Clock()
    before = clock.run(60, (first, 0.9)).since_us
    track = clock.run(15, (second, 0.9))
    assert track.shown == second
    assert track.since_us > before
    assert track.confirmed_us is None


def test_a_node_without_samples_shows_nothing_and_remembers_its_episode() -> None:
    clock = Clock()
    track = reset(clock.run(40, (READ, 0.9)), clock.now_us + SECOND)
    assert track.shown == UNKNOWN
    assert [(e.state, e.confirmed) for e in track.episodes] == [("STORAGE", True)]
    assert reset(None, 5).shown == UNKNOWN


def test_what_was_not_seen_confirms_no_rank() -> None:
    play = Play((*PEERS, "x"))
    waiting, reads = named(VICTIM, *PEERS), named(READS, "x")
    (before,) = (r for r in play.run((*waiting, *reads), 15).ranks if r.node == "x")
    assert said(before) == ("STORAGE", "read")
    play.run(waiting, 40)
    (after,) = (r for r in play.run((*waiting, *reads), 10).ranks if r.node == "x")
    assert said(after) == ("STORAGE", "read")
    assert before.confirmed_us is None
    assert after.confirmed_us is None
    assert after.suspected_us != before.suspected_us


def test_a_node_that_left_the_job_is_no_place_to_look_at() -> None:
    play = Play((*PEERS, "x"))
    waiting = named(VICTIM, *PEERS)
    empty = Node("x", ranks=(), gpus=(Gpu(util=0, power=70, memory=0),), held=False)
    assert "x has none of its processes any more" in play.run((*waiting, empty), 12).job.text
    play.leave("x")
    assert play.run(waiting, 15).job.culprits == (Culprit("unknown", "unknown"),)


def test_three_short_episodes_are_recurring_with_length_period_and_share() -> None:
    clock = Clock()
    for _ in range(4):
        clock.run(50, (WORK, 0.9))
        clock.run(10, (READ, 0.9))
    clock.run(20, (WORK, 0.9))
    assert clock.track is not None
    (found,) = recurring(clock.track, "node", "a", clock.now_us, T)
    assert (found.state, found.cause, found.node, found.count) == ("STORAGE", "read", "a", 4)
    assert found.length_s == pytest.approx(10, abs=3)
    assert found.period_s == pytest.approx(60, abs=1)
    assert 0 < found.share < 0.3
    later_us = clock.now_us + 1000 * SECOND
    assert recurring(clock.track, "node", "a", later_us, T) == []


@pytest.mark.parametrize(("period", "length"), [(60, 9), (45, 7)])
def test_what_comes_back_each_minute_is_counted_each_time(period: int, length: int) -> None:
    clock = Clock()
    for _ in range(6):
        clock.run(period - length, (WORK, 0.9))
        clock.run(length, (READ, 0.9))
    clock.run(20, (WORK, 0.9))
    assert clock.track is not None
    (found,) = recurring(clock.track, "node", "a", clock.now_us, T)
    assert found.count == 6
    assert found.period_s == pytest.approx(period, abs=1)


def test_two_episodes_are_a_coincidence() -> None:
    clock = Clock()
    for _ in range(2):
        clock.run(50, (WORK, 0.9))
        clock.run(10, (READ, 0.9))
    clock.run(20, (WORK, 0.9))
    assert clock.track is not None
    assert recurring(clock.track, "node", "a", clock.now_us, T) == []


def test_episodes_are_bounded() -> None:
    clock = Clock()
    for _ in range(40):
        clock.run(30, (WORK, 0.9))
        clock.run(30, (READ, 0.9))
    assert clock.track is not None
    assert len(clock.track.episodes) == EPISODES


def test_the_first_seconds_say_since_when_they_watch() -> None:
    play = Play(["x"])
    first = play.run(named(READS, "x"), 4)
    assert first.nodes[0].state == "UNKNOWN"
    assert "watching since" in first.nodes[0].text
    assert play.run(named(READS, "x"), 6).nodes[0].state == "STORAGE"


def test_a_fault_is_suspected_soon_confirmed_later_and_ends_when_it_ends() -> None:
    play = Play(("x", *PEERS))
    play.run(named(GOOD, "x", *PEERS), 60)
    onset_us = play.now_us
    faulty = (*named(READS, "x"), *named(HALF, *PEERS))
    play.run(faulty, 45)
    first = next(v for v in play.history if v.job.state == "STORAGE")
    assert first.job.suspected_us is not None
    assert first.job.suspected_us - onset_us <= 6 * SECOND
    last = play.history[-1]
    assert blamed(last.job) == {"x"}
    assert last.job.confirmed_us is not None
    assert 25 * SECOND <= last.job.confirmed_us - onset_us <= 31 * SECOND
    healed = play.run(named(GOOD, "x", *PEERS), 15)
    assert said(healed.job) == ("COMPUTE", None)
    assert not any(v.job.state == "STORAGE" for v in play.history[:60])


def test_confidence_grows_with_time() -> None:
    play = Play(("x", *PEERS))
    nodes = (*named(READS, "x"), *named(VICTIM, *PEERS))
    play.run(nodes, 50)
    seen = [v.job.confidence for v in play.history if v.job.state == "STORAGE"]
    assert seen == sorted(seen)
    assert seen[0] <= 0.8 < seen[-1]


def test_checkpoints_that_come_back_are_recurring() -> None:
    play = Play(("x", *PEERS))
    for _ in range(4):
        play.run(named(GOOD, "x", *PEERS), 50)
        play.run((*named(WRITES, "x"), *named(VICTIM, *PEERS)), 12)
    found = play.run(named(GOOD, "x", *PEERS), 15).recurring
    assert {(r.scope, r.node, r.state, r.cause) for r in found} == {
        ("job", None, "STORAGE", "checkpoint"),
        ("node", "x", "STORAGE", "checkpoint"),
    }
    assert all(r.count == 4 for r in found)


def test_slowdown_is_told_only_against_this_jobs_own_best() -> None:
    late = Play(("x", *PEERS))
    assert late.run((*named(READS, "x"), *named(VICTIM, *PEERS)), 120).slowdown is None
    play = Play(("x", *PEERS))
    assert play.run(named(GOOD, "x", *PEERS), 120).slowdown == 1.0
    slowed = play.run(named(HALF, "x", *PEERS), 120).slowdown
    assert slowed is not None
    # 330 W lie (330 - 154) / (610 - 154) = 0.39 of the way from spinning to computing.
    assert 2.4 <= slowed <= 2.7


def test_a_process_that_starts_anew_has_no_level_to_be_compared_with() -> None:
    play = Play(("x", *PEERS))
    play.run(named(GOOD, "x", *PEERS), 60)
    fresh = replace(HALF, ranks=(replace(HALF.ranks[0], pid=7777),))
    verdict = play.run(named(fresh, "x", *PEERS), 8)
    assert all(n.shares and n.shares.levels == "table" for n in verdict.nodes)


def test_a_job_that_begins_to_work_is_blamed_for_nothing_on_the_way() -> None:
    asleep = replace(GOOD, ranks=(replace(GOOD.ranks[0], gpu=Gpu(util=0, power=110, memory=0)),))
    play = Play(("x", *PEERS))
    play.run(named(asleep, "x", *PEERS), 40)
    play.run(named(GOOD, "x", *PEERS), 40)
    assert {v.job.state for v in play.history} == {"UNKNOWN", "COMPUTE"}


@pytest.mark.parametrize(("period", "exchange"), [(4, 1), (10, 3), (12, 5)])
def test_long_steps_with_an_exchange_are_one_steady_verdict(period: int, exchange: int) -> None:
    moves = replace(GOOD, ranks=(replace(GOOD.ranks[0], gpu=Gpu(99, 200, memory=3)),))
    play = Play(("x", *PEERS))
    for second in range(180):
        node = moves if second % period < exchange else GOOD
        play.run(named(node, "x", *PEERS), 1)
    shown = [v.job.state for v in play.history]
    assert sum(a != b for a, b in pairwise(shown)) <= 2
    assert shown[-1] == "COMPUTE"


def test_work_of_low_intensity_on_all_nodes_blames_nobody() -> None:
    small = replace(GOOD, ranks=(replace(GOOD.ranks[0], gpu=Gpu(98, 260, memory=15)),))
    play = Play(("x", *PEERS))
    play.run(named(small, "x", *PEERS), 60)
    assert {v.job.state for v in play.history} <= {"UNKNOWN", "COMPUTE"}
    assert all(n.state != "PEER" for n in play.history[-1].nodes)


def test_a_job_that_was_watched_only_while_it_waits_has_no_best() -> None:
    brief = Play(("x", *PEERS))
    brief.run(named(GOOD, "x", *PEERS), 40)
    assert brief.run((*named(READS, "x"), *named(VICTIM, *PEERS)), 200).slowdown is None


def test_a_track_from_before_there_was_a_lead_is_read() -> None:
    old = [["STORAGE", "read", []], 1, 2, 3, None, None, ["COMPUTE", None, []], 4, [], 5]
    track = msgspec.convert(old, Track)
    assert (track.shown, track.rival, track.seen_us, track.lead) == (READ, WORK, 5, 0.0)


def test_what_fades_gives_way_to_nothing_that_came_just_now() -> None:
    clock = Clock()
    clock.run(60, (READ, 0.9))
    clock.run(7)
    assert clock.run(1, (WORK, 0.31)).shown in (READ, UNKNOWN)
    assert clock.run(1, (WORK, 0.31)).shown != READ
